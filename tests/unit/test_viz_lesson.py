"""Pictures of the lesson: what is drawn is what was measured, and nothing overlaps or is cut."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from attention_samples import make_record
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from seq2seq.analysis.matching import match
from seq2seq.config import ModelConfig
from seq2seq.lesson import cost, shapes, worked
from seq2seq.lesson.shapes import Size
from seq2seq.scores import Score
from viz import lesson, lesson_runs


def texts(figure):
    FigureCanvasAgg(figure).draw()
    renderer = figure.canvas.get_renderer()
    found = [text for text in figure.texts if text.get_text()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in found]


def assert_tidy(figure):
    """No heading or label lies on another one or leaves the page."""
    width, height = figure.get_size_inches() * figure.dpi
    boxes = texts(figure)
    for i, (name, box) in enumerate(boxes):
        assert box.x0 >= 0, name
        assert box.y0 >= 0, name
        assert box.x1 <= width, name
        assert box.y1 <= height, name
        for other, second in boxes[:i]:
            assert not box.overlaps(second), (name, other)


def test_the_worked_example_shows_every_matrix():
    found = worked.work()
    figure = lesson.worked(found)
    drawn = [axes.images[0].get_array() for axes in figure.axes]
    two = found.two
    wanted = [two.x]
    for head in (0, 1):
        wanted += [two.w_q[head], two.query[head], found.unscaled.scores[head]]
        wanted += [two.scores[head], two.weights[head], two.heads[head]]
    wanted += [two.concat, two.out]
    assert len(drawn) == len(wanted)
    for picture, values in zip(drawn, wanted, strict=True):
        np.testing.assert_array_equal(picture, values)
    numbers = [text.get_text() for text in figure.axes[5].texts]
    assert numbers == ["0.6698", "0.3302", "0.3302", "0.6698"]
    assert_tidy(figure)


def test_shapes_are_to_scale():
    sizes = (Size(512, 8), Size(512, 4, 64))
    figure = lesson.shapes(shapes.trace(sizes))
    widths = [axes.get_position().width for axes in figure.axes]
    x, _, concat, out = widths[:4]
    assert x == pytest.approx(concat) == pytest.approx(out)
    _, _, narrow, wide = widths[4:]
    assert narrow == pytest.approx(wide / 2)  # 256 of 512
    assert [len(axes.patches) for axes in figure.axes] == [1, 8, 8, 1, 1, 4, 4, 1]
    assert_tidy(figure)


def test_complexity_draws_the_counts():
    found = cost.measure(32, 6, (1, 2, 4))
    figure = lesson.complexity(found)
    by_length, by_heads = figure.axes
    projections, products, _ = by_length.lines
    assert list(projections.get_ydata()) == [f.projections for f in found.by_length.values()]
    assert list(products.get_ydata()) == [f.products for f in found.by_length.values()]
    flat, rising = (line.get_ydata() for line in by_heads.lines)
    assert len(set(flat)) == 1
    assert list(rising) == [1 * 36 / 1e3, 2 * 36 / 1e3, 4 * 36 / 1e3]
    assert_tidy(figure)


def run(heads, bleu, js):
    return SimpleNamespace(
        name=f"run-{heads}",
        heads=str(heads),
        config=SimpleNamespace(model=ModelConfig(encoder_heads=heads, decoder_heads=heads)),
        bleu=Score(bleu, "signature", bleu - 2, bleu + 3),
        mean=lambda column: heads / 10,
        mean_js=lambda: js,
        curve=[(100, bleu / 2), (200, bleu)],
    )


RUNS = [run(1, 20.0, None), run(2, 30.0, 0.1), run(2, 32.0, 0.2), run(8, 25.0, 0.3)]


def test_s15_the_sweep_has_a_dot_for_each_run():
    figure = lesson_runs.sweep(RUNS, ["facts"])
    bleu, entropy, js = figure.axes
    dots, means, *bars = bleu.lines
    assert list(zip(dots.get_xdata(), dots.get_ydata(), strict=True)) == [
        (1, 20), (2, 30), (2, 32), (8, 25)]  # fmt: skip
    assert list(means.get_xdata()) == [1, 2, 8]
    assert list(means.get_ydata()) == [20, 31, 25]
    assert [list(bar.get_ydata()) for bar in bars] == [[18, 23], [28, 33], [30, 35], [23, 28]]
    assert bleu.get_ylim()[1] > 35
    assert list(entropy.lines[0].get_ydata()) == [0.1, 0.2, 0.2, 0.8]
    assert list(js.lines[0].get_xdata()) == [2, 2, 8]  # one head has nobody to differ from
    FigureCanvasAgg(figure).draw()
    assert [tick.get_text() for tick in bleu.get_xticklabels()] == ["1", "2", "8"]
    assert_tidy(figure)


def test_curves_tell_runs_apart_without_colour():
    figure = lesson_runs.curves(RUNS, ["facts"])
    lines = figure.axes[0].lines
    assert list(lines[0].get_ydata()) == [10, 20]
    looks = {(line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(looks) == len(RUNS)
    names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert names[0] == "run-1 (1 head)"
    assert names[3] == "run-8 (8 heads)"
    assert_tidy(figure)


def test_seeds_frame_the_partners():
    shape = {"enc": (2, 4), "dec": (2, 4), "cross": (2, 4)}
    first = make_record(shape=shape, seed=1)
    shuffled = [weights[[2, 0, 3, 1]] for weights in first.enc]
    second = dataclasses.replace(first, enc=shuffled)
    places = match([(first, second)])
    compared = SimpleNamespace(runs=RUNS[:2])
    figure = lesson_runs.seeds(SimpleNamespace(places=places, compared=compared), ["facts"])
    axes = next(axes for axes in figure.axes if axes.get_label() == "enc.1")
    np.testing.assert_array_equal(axes.images[0].get_array(), places["enc", 1].divergence)
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    centres = [(round(f.get_y() + 0.46), round(f.get_x() + 0.46)) for f in frames]
    assert sorted(centres) == [(0, 1), (1, 3), (2, 0), (3, 2)]
    assert_tidy(figure)

"""A, B and B − A: what is subtracted from what, with which names, on which scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record
from figure_geometry import maps_of

from seq2seq.analysis.quantities import norm_record
from seq2seq.analysis.words import to_words
from seq2seq.errors import UnfitError, UserError
from viz.diff import LEAST, diff
from viz.style import Look


def text_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


def arrays(figure):
    return [axes.images[0].get_array() for axes in maps_of(figure)]


def test_each_head_is_a_row_of_a_b_and_b_minus_a():
    a, b = make_record(seed=0), make_record(seed=1)
    figure = diff(a, b, "cross", 2)
    shown = arrays(figure)
    assert len(shown) == 6
    for head in range(2):
        ours, theirs, change = shown[3 * head : 3 * head + 3]
        assert np.array_equal(ours, a.cross[2][head])
        assert np.array_equal(theirs, b.cross[2][head])
        assert np.array_equal(change, b.cross[2][head] - a.cross[2][head])
    words = text_of(figure)
    for name in ("head 0: A", "head 0: B", "head 1: B − A", "layer 2 of 3: A, B, and B − A"):
        assert name in words


def test_differences_are_purple_below_and_orange_above_zero_alike():
    a, b = make_record(seed=0), make_record(seed=1)
    figure = diff(a, b, "cross", 0)
    images = [axes.images[0] for axes in maps_of(figure)]
    most = np.abs(b.cross[0] - a.cross[0]).max()
    for image in images[2::3]:
        assert image.norm.vmax == -image.norm.vmin == pytest.approx(most)
        less, none, more = (np.array(image.cmap(image.norm(x))[:3]) for x in (-most, 0.0, most))
        assert none.min() > 0.9
        assert less[2] > less[1]  # purple: more blue than green
        assert more[0] > more[2] + 0.3  # orange: more red than blue
    assert images[0].norm.vmax == images[1].norm.vmax == 1


def test_hardly_different_maps_look_so():
    a = make_record()
    near = replace(a, cross=[layer + 0.0 for layer in a.cross])
    image = maps_of(diff(a, near, "cross", 0))[2].images[0]
    assert image.norm.vmax == LEAST
    assert not image.get_array().any()


def test_how_much_moves_is_printed():
    a, b = make_record(seed=0), make_record(seed=1)
    apart = 0.5 * np.abs(b.enc[0][1] - a.enc[0][1]).sum(-1)
    expected = f"a row moves mean {apart.mean():.2f} max {apart.max():.2f} of its mass"
    assert expected in text_of(diff(a, b, "enc", 0, [1]))


def test_tokens_that_differ_are_both_named():
    words = ["▁It", "▁was", "▁slow", "."]
    a, b = make_record(words), make_record([*words[:2], "▁long", "."], seed=1)
    b = replace(b, text={"source": "It was long.", "target": b.text["target"]})
    axes = maps_of(diff(a, b, "enc", 0))[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["It", "was", "slow. | long.", "</s>"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["It", "was", "slow. | long.", "</s>"]
    shown = text_of(diff(a, b, "enc", 0))
    assert "A: it application → die Anwendung war" in shown
    assert "B: It was long. → die Anwendung war" in shown
    assert " words " in shown
    ours, theirs = to_words(a), to_words(b)
    assert np.array_equal(arrays(diff(a, b, "enc", 0))[2], theirs.enc[0][0] - ours.enc[0][0])


def test_one_sentence_in_two_models_names_both_models():
    a = make_record()
    b = replace(make_record(seed=1), meta={**a.meta, "run": "other", "step": 7})
    words = text_of(diff(a, b, "dec", 0))
    assert "A: run demo · checkpoint step 100" in words
    assert "B: run other · checkpoint step 7" in words
    assert words.count("it application → die Anwendung war") == 1
    assert "A: run" not in text_of(diff(a, make_record(seed=1), "dec", 0))  # the same model


def test_hidden_mass_is_that_of_both():
    a, b = make_record(seed=0), make_record(seed=1)
    mass = np.concatenate([m.cross[1][:, :, 3].ravel() for m in (a, b)])
    figure = diff(a, b, "cross", 1, look=Look(special="drop"))
    assert f"hidden mass mean {mass.mean():.2f} max {mass.max():.2f}" in text_of(figure)
    assert arrays(figure)[2].shape == (5, 3)


def test_numbers_stand_in_the_cells_of_a_single_head():
    a, b = make_record(["a"], ["x"], seed=0), make_record(["a"], ["x"], seed=1)
    axes = maps_of(diff(a, b, "cross", 0, [1]))[2]
    values = (b.cross[0][1] - a.cross[0][1]).ravel()
    for text, value in zip(axes.texts, values, strict=True):
        shown = float(text.get_text().replace("−", "-"))
        assert shown == pytest.approx(value, abs=0.0051)
    assert not maps_of(diff(a, b, "cross", 0))[2].texts


def test_norms_can_be_compared_too():
    a, b = (
        norm_record(
            replace(
                maps, norms={k: [3 * w for w in maps.layers(k)] for k in ("enc", "dec", "cross")}
            )
        )
        for maps in (make_record(seed=0), make_record(seed=1))
    )
    figure = diff(a, b, "cross", 0)
    assert maps_of(figure)[0].images[0].norm.vmax == max(a.cross[0].max(), b.cross[0].max())
    assert "largest" in text_of(figure)
    assert "of its mass" not in text_of(figure)


def test_what_cannot_be_compared_is_refused():
    a = make_record()
    with pytest.raises(UnfitError, match="cannot be laid over each other in encoder"):
        diff(a, make_record(["▁a", "▁b", "▁c", "▁d"]), "enc", 0)
    fewer = make_record(shape={"enc": (2, 3), "dec": (3, 2), "cross": (3, 2)})
    with pytest.raises(UnfitError, match=r"B cannot be set beside A: .* no head 3 .* 0, 1, 2"):
        diff(a, fewer, "enc", 0)
    eight = make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (1, 8)))
    with pytest.raises(UserError, match="1 to 4 heads at once, not 8"):
        diff(eight, eight, "cross", 0)
    with pytest.raises(UserError, match="AttentionMaps record, not a NoneType"):
        diff(a, None, "enc", 0)  # type: ignore[arg-type]

"""Heads as lines: their ends, widths and dashes are the record's weights, and nothing is hidden."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights, without_heads
from figure_geometry import drawn_texts

from seq2seq.analysis.quantities import norm_record
from seq2seq.attention_maps import AttentionError
from seq2seq.errors import UnfitError, UserError
from viz.lines import COLOURS, FAINTEST, lines
from viz.style import Look

WEIGHTS = np.array(
    [
        [[0.9, 0.06, 0.04], [0.02, 0.03, 0.95], [0.5, 0.46, 0.04]],
        [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    ]
)


def record(weights=WEIGHTS):
    maps = make_record(["a", "b"], ["x", "y"], shape=dict.fromkeys(("enc", "dec", "cross"), (1, 2)))
    return with_weights(maps, "cross", 0, weights)


def heights(figure, words):
    """Where labels stand, in inches from the top."""
    (axes,) = (axes for axes in figure.axes if axes.get_label() == "lines")
    found = {}
    for text in axes.texts:
        found.setdefault(text.get_text(), []).append(text.get_position()[1])
    return [found[word] for word in words]


def bundles(figure):
    """The lines of each head: its [N, points, 2], widths; without the sample in the legend."""
    (axes,) = figure.axes
    legend = len([t for t in figure.texts if t.get_text().startswith("head ")])
    return axes.collections[legend:]


def text_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


def test_lines_join_queries_to_keys_and_are_as_wide_as_weights():
    figure = lines(record(), "cross", 0)
    first, second = bundles(figure)
    # Query y is the second row; its only line goes to </s>, the third key.
    rows, keys = heights(figure, ["x", "y"]), heights(figure, ["a", "b"])
    both = heights(figure, ["</s>"])[0]
    assert len(both) == 2
    ends = [(line[0][1], line[-1][1]) for line in first.get_segments()]
    shift = first.get_segments()[0][0][1]
    expected = {(0, 0): 0.9, (0, 1): 0.06, (1, 2): 0.95, (2, 0): 0.5, (2, 1): 0.46}
    assert len(ends) == len(expected)
    row_y = [rows[0][0], rows[1][0], both[0]]
    key_y = [keys[0][0], keys[1][0], both[1]]
    widths = {}
    for (start, end), width in zip(ends, first.get_linewidths(), strict=True):
        place = (
            int(np.abs(np.array(row_y) - start).argmin()),
            int(np.abs(np.array(key_y) - end).argmin()),
        )
        widths[place] = width
    assert widths.keys() == expected.keys()
    rank = sorted(expected, key=expected.get)
    assert sorted(widths, key=widths.get) == rank
    slope = (widths[0, 0] - widths[2, 0]) / 0.4
    assert widths[1, 2] == pytest.approx(widths[0, 0] + 0.05 * slope)
    assert len(second.get_segments()) == 3
    assert shift == pytest.approx(row_y[rank[0][0]], abs=0.05)


def test_what_is_too_faint_is_added_up():
    words = text_of(lines(record(), "cross", 0))
    # Head 0 drops .04, then .02 + .03, then .04: mean .0433, at most .05; head 1 drops nothing.
    assert "head 0 · not drawn: mean 0.04 max 0.05" in words
    assert "head 1 · not drawn: mean 0.00 max 0.00" in words
    assert f"lines below {FAINTEST} are not drawn" in words


def test_heads_differ_in_colour_and_in_dash():
    shape = dict.fromkeys(("enc", "dec", "cross"), (1, 4))
    figure = lines(make_record(shape=shape), "enc", 0)
    drawn = bundles(figure)
    assert len(drawn) == 4
    colours = [tuple(head.get_edgecolor()[0][:3]) for head in drawn]
    assert len(set(colours)) == len(set(COLOURS)) == 4
    patterns = {tuple(np.round(head.get_linestyle()[0][1] or (), 2)) for head in drawn}
    assert len(patterns) == 4


def test_dashes_are_as_long_in_thin_lines_as_in_thick_ones():
    weights = np.array([WEIGHTS[1], WEIGHTS[0]])
    dashed = bundles(lines(record(weights), "cross", 0))[1]
    lengths = [style[1][0] for style in dashed.get_linestyle()]  # in points, scaled by the width
    assert lengths == pytest.approx([lengths[0]] * 5)


def test_hidden_control_tokens_have_no_lines_and_are_stated():
    for special in ("mute", "drop"):
        figure = lines(record(), "cross", 0, look=Look(special=special))
        assert len(bundles(figure)[0].get_segments()) == 4  # not y → </s>
        assert "hidden mass mean 0.17 max 0.95" in text_of(figure)  # (.04 + .95 + .04) / 6
    keys = [t.get_text() for t in figure.axes[0].texts]
    assert keys.count("</s>") == 1  # the query is still there


def test_widths_of_norms_are_relative_to_the_largest():
    maps = record()
    norms = {kind: [8 * layer for layer in maps.layers(kind)] for kind in ("enc", "dec", "cross")}
    plain, normed = (
        lines(maps, "cross", 0),
        lines(norm_record(replace(maps, norms=norms)), "cross", 0),
    )
    for one, other in zip(bundles(plain), bundles(normed), strict=True):
        assert one.get_linewidths() == pytest.approx(other.get_linewidths())
    assert "width: ‖α f(x)‖" in text_of(normed)
    assert "lines below 0.4 are not drawn" in text_of(normed)


def test_some_heads_by_their_numbers_even_after_pruning():
    maps = without_heads(make_record(), "enc", 1, [1, 3])
    names = [t.get_text() for t in lines(maps, "enc", 1, [3]).texts]
    assert any(name.startswith("head 3 ·") for name in names)
    with pytest.raises(AttentionError, match="no head 2"):
        lines(maps, "enc", 1, [2])


def test_too_many_heads_or_tokens_are_refused():
    eight = make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (1, 8)))
    with pytest.raises(UserError, match="1 to 4 heads at once, not 8"):
        lines(eight, "enc", 0)
    with pytest.raises(UnfitError, match="has 31 pieces on a side, too many"):
        lines(make_record(["a"] * 30), "enc", 0)
    lines(make_record(["a"] * 29), "enc", 0)
    with pytest.raises(UserError, match="AttentionMaps record, not a list"):
        lines([], "enc", 0)  # type: ignore[arg-type]


def test_a_head_that_is_even_everywhere_draws_no_line():
    maps = make_record(["a"] * 24)
    even = np.full((4, 25, 25), 1 / 25)
    figure = lines(with_weights(maps, "enc", 0, even), "enc", 0, [0])
    assert bundles(figure) == []
    assert "not drawn: mean 1.00" in text_of(figure)
    assert len([t for t in drawn_texts(figure) if t.get_text() == "a"]) == 48

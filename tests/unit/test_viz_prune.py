"""The picture of a pruning curve: what is drawn are the curve's numbers, and nothing overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from head_tables import assert_tidy, drawn_texts

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.prune import IMPORTANCE, RANDOM, REVERSE, Curve, Quality, Removal
from viz.prune_curve import MARKS, prune_curve
from viz.style import FORMATS, render

COUNTS = [0, 2, 4, 7, 10]
HEADS = [HeadId("enc", 0, head) for head in range(10)]
SCORES = {
    (IMPORTANCE, None): ((40, 39, 38, 20, 1), (1, 0.5, 0.2, 0.01, 0.01)),
    (REVERSE, None): ((40, 20, 10, 5, 1), (1, 0.01, 0.01, 0.01, 0.01)),
    (RANDOM, 1): ((40, 30, 20, 10, 1), (1, 0.01, 0.01, 0.01, 0.01)),
    (RANDOM, 2): ((40, 34, 10, 10, 1), (1, 0.01, 0.01, 0.01, 0.01)),
}


def a_curve(*orders: str, scale: float = 1.0) -> Curve:
    paths = []
    for (order, seed), (bleus, ps) in SCORES.items():
        if order in orders:
            points = [
                Quality(scale * bleu, p, 6 - bleu / 10, 1000)
                for bleu, p in zip(bleus, ps, strict=True)
            ]
            paths.append(Removal(order, seed, COUNTS, HEADS, points))
    return Curve(paths, "nrefs:1|case:mixed|tok:13a|smooth:exp|version:2.6.0", ["run x · step 5"])


ALL = (IMPORTANCE, REVERSE, RANDOM)


def axes_named(figure, label):
    (found,) = (axes for axes in figure.axes if axes.get_label() == label)
    return found


def lines(figure, name):
    """Colour → the points of its curve."""
    return {
        line.get_color(): line.get_xydata()
        for line in axes_named(figure, f"prune {name}").lines
        if len(line.get_xdata()) == len(COUNTS)
    }


def test_lines_are_the_scores_by_share():
    figure = prune_curve(a_curve(*ALL))
    found = lines(figure, "bleu")
    share = [0, 20, 40, 70, 100]
    expected = {
        IMPORTANCE: (40, 39, 38, 20, 1),
        REVERSE: (40, 20, 10, 5, 1),
        RANDOM: (40, 32, 15, 10, 1),
    }
    for order, scores in expected.items():
        assert found[MARKS[order][0]] == pytest.approx(np.array([share, scores]).T)
    losses = lines(figure, "loss")[MARKS[REVERSE][0]]
    assert losses[:, 1] == pytest.approx([2, 4, 5, 5.5, 5.9])


def test_the_band_is_one_standard_deviation():
    """30 and 34: 32 ± √8; 20 and 10: 15 ± √50."""
    figure = prune_curve(a_curve(*ALL))
    (band,) = axes_named(figure, "prune bleu").collections
    edges = band.get_paths()[0].vertices
    for x, low, high in ((20, 32 - 8**0.5, 32 + 8**0.5), (40, 15 - 50**0.5, 15 + 50**0.5)):
        ys = edges[edges[:, 0] == x, 1]
        assert (ys.min(), ys.max()) == pytest.approx((low, high))


def test_the_ring_is_where_the_sentence_says():
    figure = prune_curve(a_curve(*ALL))
    for name, y in (("bleu", 38), ("loss", 2.2)):
        (ring,) = (
            line
            for line in axes_named(figure, f"prune {name}").lines
            if line.get_markerfacecolor() == "none"
        )
        assert ring.get_xydata().tolist() == [[40, pytest.approx(y)]]
    texts = " ".join(text.get_text() for text in drawn_texts(figure))
    assert "4 of 10 heads (40%) can go" in texts
    assert "tok:13a" in texts
    assert "mean ± sd of 2" in texts


def test_without_importance_there_is_no_ring_and_no_sentence():
    figure = prune_curve(a_curve(RANDOM))
    texts = " ".join(text.get_text() for text in drawn_texts(figure))
    assert "can go" not in texts
    assert "ring" not in texts
    assert list(lines(figure, "bleu")) == [MARKS[RANDOM][0]]


@pytest.mark.parametrize("orders", [(IMPORTANCE,), (RANDOM,), ALL])
@pytest.mark.parametrize("scale", [1.0, 2.5, 0.002])
def test_nothing_overlaps(orders, scale):
    assert_tidy(prune_curve(a_curve(*orders, scale=scale)))


@pytest.mark.parametrize("extension", FORMATS)
def test_the_same_curve_gives_the_same_bytes(extension):
    found = [render(prune_curve(a_curve(*ALL)), extension) for _ in range(2)]
    assert found[0] == found[1]

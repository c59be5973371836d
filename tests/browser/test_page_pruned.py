"""Pages of models that lack heads, alone and beside one that has them."""

from __future__ import annotations

import itertools

import pytest
from attention_samples import make_record, without_heads

KINDS = ("enc", "dec", "cross")
VIEWS = ("map", "lines", "steps")


def pruned(seed: int = 0):
    """Encoder layer 1 has head 2 alone; cross-attention lacks layer 1 and head 0 of layer 2."""
    maps = without_heads(make_record(seed=seed), "enc", 1, [2])
    return without_heads(without_heads(maps, "cross", 1, []), "cross", 2, [1])


def without_kind(kind: str):
    maps = make_record(seed=2)
    for layer in range(len(maps.layers(kind))):
        maps = without_heads(maps, kind, layer, [])
    return maps


def test_places_of_missing_heads_stay_empty(visit) -> None:
    page = visit(pruned(), link="#head=cross.2.1")
    assert page.texts("#grid .row-name") == ["L0", "L1", "L2"]
    assert page.attributes("#grid button", "data-id") == ["cross.0.0", "cross.0.1", "cross.2.1"]
    assert len(page.texts("#grid .gone")) == 3
    assert page.text("#heading") == "cross-attention, layer 2 of 3, head 1"
    page.change(kind="enc")
    ids = [f"enc.0.{head}" for head in range(4)]
    assert page.attributes("#grid button", "data-id") == [*ids, "enc.1.2"]


def test_the_weights_of_a_head_are_found_by_its_number(visit) -> None:
    maps = pruned()
    page = visit(maps)
    for head, expected in (
        ("enc.1.2", maps.head("enc", 1, 2)),
        ("dec.2.0", maps.head("dec", 2, 0)),
        ("cross.2.1", maps.head("cross", 2, 1)),
    ):
        for row, weights in zip(page.weights(head), expected, strict=True):
            assert row == pytest.approx(weights.tolist(), abs=1e-5)


@pytest.mark.parametrize("first", [True, False])
def test_beside_a_model_with_all_heads_every_view_works(visit, first) -> None:
    """Also those of heads that one of the two lacks; the page must not complain (`visit`)."""
    pair = (pruned(), make_record(seed=1)) if first else (make_record(seed=1), pruned())
    page = visit(*pair, paired=True)
    for kind, view, compare in itertools.product(KINDS, VIEWS, ("a", "b", "both", "diff")):
        for head in (f"{kind}.1.1", f"{kind}.1.2" if kind == "enc" else f"{kind}.2.0"):
            page.js(
                "([kind, view, compare, head]) => attention.change({ kind, view, compare, "
                "heads: { ...attention.state.heads, [kind]: head } })",
                [kind, view, compare, head],
            )
            assert page.text("#heading")
    page.settled()


def test_lines_are_drawn_of_the_model_that_has_the_head(visit) -> None:
    page = visit(make_record(seed=1), pruned(), paired=True, link="#head=cross.1.0&compare=b")
    assert "This record has no head cross.1.0" in page.text("#stage")
    page.change(view="lines")
    assert page.js("attention.state.compare") == "a"
    page.change(view="map", compare="diff")
    assert page.js("attention.state.compare") == "both"  # a difference needs the head on both sides


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_one_model_lacks_altogether(visit, kind) -> None:
    page = visit(make_record(), without_kind(kind), paired=True, link=f"#head={kind}.0.1")
    for sort, compare in itertools.product(("", "entropy"), ("a", "b", "both")):
        page.change(compare=compare, sort=sort, view="map")
    assert "Infinity" not in page.text("main")
    assert "NaN" not in page.text("main")
    alone = visit(without_kind(kind))
    assert len(alone.texts("#kinds button")) == 2

"""What depends on a head stands beside how hard it looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable
from seq2seq.attention_maps import AttentionMaps

HASH = "0123456789ab"
COLUMNS = [
    Column("importance", "nats/token"),
    Column("loss_change", "nats/token"),
    Column("loss_p_holm"),
    Column("effect"),
]
TABLE = HeadTable(
    COLUMNS,
    {
        HeadId("cross", 0, 0): {"effect": 0.62, "importance": 0.01, "loss_change": 0.25},
        HeadId("cross", 0, 1): {"effect": 0.0, "importance": 0.0312, "loss_change": 0.0},
        HeadId("cross", 1, 0): {"effect": 0.0, "importance": 0.0, "loss_change": 0.0},
        HeadId("cross", 1, 1): {"effect": 0.01, "loss_change": 0.5, "loss_p_holm": 0.001},
    },
    [f"run demo · checkpoint step 100 · weights {HASH}", "88 pairs"],
)


def sample(weights: str = HASH) -> AttentionMaps:
    """In layer 0 both heads look at one word each; in layer 1 at all alike."""
    maps = make_record()
    maps = replace(maps, meta={**maps.meta, "weights_hash": weights})
    shape = maps.cross[0].shape
    bright = np.zeros(shape, np.float32)
    bright[..., 0] = 1
    maps = with_weights(maps, "cross", 0, bright)
    return with_weights(maps, "cross", 1, np.full(shape, 1 / shape[-1], np.float32))


def names(page) -> list[str]:
    return page.texts("#grid .name")


def test_heads_are_marked_in_words_and_signs(visit) -> None:
    page = visit(sample(), table=TABLE)
    # A dim head of no effect needs no warning: cross.1.0 has no mark.
    assert names(page)[:4] == ["H0 ●", "H1 ○", "H0", "H1 ◐"]
    labels = page.attributes("#grid button", "aria-label")
    assert labels[:4] == [
        "layer 0 head 0, carries",
        "layer 0 head 1, idle",
        "layer 1 head 0",
        "layer 1 head 1, needed",
    ]
    legend = page.text("#legend")
    assert "● carries: effect ≥ 0.1" in legend
    assert "◐ needed: Δloss worse without it, beyond chance" in legend
    assert "○ idle: highest on words ≥ 0.5 here, yet effect < 0.05" in legend
    assert "88 pairs" in page.text("#provenance")


def test_the_caption_says_what_depends_on_the_head(visit) -> None:
    page = visit(sample(), table=TABLE, link="#head=cross.0.1")
    assert page.text("#facts b") == (
        "○ idle · effect 0.0000 · importance 0.0312 nats/token · Δloss 0.0000 nats/token"
    )
    page.page.click("[data-id='cross.0.0']")
    page.settled()
    assert page.text("#facts b").startswith("● carries · effect 0.6200")
    assert "idle" in page.page.locator("[data-id='cross.0.1']").get_attribute("title")


@pytest.mark.parametrize(
    ("mark", "expected"),
    [("carries", ["cross.0.0"]), ("idle", ["cross.0.1"]), ("needed", ["cross.1.1"])],
)
def test_heads_are_filtered_by_what_depends_on_them(visit, mark, expected) -> None:
    page = visit(sample(), table=TABLE)
    page.page.select_option("#sort", f"role:{mark}")
    page.settled()
    assert page.attributes("#grid button", "data-id") == expected
    assert page.page.input_value("#sort") == f"role:{mark}"


def test_numbers_of_one_model_are_not_told_of_another(visit) -> None:
    page = visit(sample(), sample("ffffffffffff"), paired=True, table=TABLE, link="#head=cross.0.0")
    page.change(compare="both")
    lines = page.texts("#facts > *")
    assert lines[1].startswith("A: ● carries")
    assert lines[3] == ""
    page.change(compare="b")
    assert not any("●" in name for name in names(page))


def test_nothing_measured_nothing_marked(visit) -> None:
    page = visit(
        sample(), table=HeadTable([Column("entropy")], {HeadId("cross", 0, 0): {"entropy": 1}})
    )
    assert page.page.locator("#legend p").count() == 0
    assert page.text("#facts b") == ""
    assert not [value for value in page.attributes("#sort option", "value") if "role" in value]

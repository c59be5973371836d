"""What is said to depend on a head, case by case."""

from __future__ import annotations

import pytest

from seq2seq.analysis.ablation import ALL_BUT_ONE, MODES
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.needed import ablation_columns, effect_columns, needed, verdicts
from seq2seq.analysis.tables import Column, HeadTable

HEAD = HeadId("cross", 0, 1)
NAMES = ("effect", "subject_effect", "loss_change", "loss_p_holm", "bleu_change", "bleu_p_holm")


def table(facts: tuple[str, ...] = (), **row: float | None) -> HeadTable:
    other = dict.fromkeys(row, 0.0)  # so that a column with None has a number somewhere
    rows = {HEAD: row, HeadId("enc", 0, 0): other}
    return HeadTable([Column(name) for name in NAMES if name in row], rows, facts)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"effect": 0.1}, "carries"),
        ({"effect": 0.07}, None),  # neither much nor nothing
        ({"effect": 0.04}, "idle"),
        ({"effect": -0.3}, None),  # it works against the answer: not idle
        ({"effect": None}, None),
        ({"effect": 0.0, "subject_effect": 0.4}, "carries"),
        ({"loss_change": 0.02, "loss_p_holm": 0.01}, "needed"),
        ({"loss_change": 0.02, "loss_p_holm": 0.2}, "idle"),
        ({"loss_change": -0.02, "loss_p_holm": 0.01}, "idle"),  # better without it
        ({"bleu_change": -0.5, "bleu_p_holm": 0.01}, "needed"),
        ({"bleu_change": 0.5, "bleu_p_holm": 0.01}, "idle"),
        ({"effect": 0.0, "loss_change": 0.02, "loss_p_holm": 0.01}, "needed"),
        ({"effect": 0.6, "loss_change": 0.02, "loss_p_holm": 0.9}, "carries"),
        ({"effect": 0.07, "loss_change": 0.0, "loss_p_holm": 1.0}, None),
        ({"effect": None, "loss_change": 0.0, "loss_p_holm": 1.0}, "idle"),
    ],
)
def test_verdicts(row, verdict) -> None:
    assert verdicts(table(**row)).get(str(HEAD)) == verdict


def test_what_was_not_measured_says_nothing() -> None:
    plain = HeadTable([Column("entropy")], {HEAD: {"entropy": 1.0}})
    assert verdicts(plain) == {}
    assert effect_columns(plain) == ablation_columns(plain) == []
    assert not needed({})


def test_all_other_heads_off_says_nothing_of_the_head() -> None:
    fact = f"ablation: {MODES[ALL_BUT_ONE]}"
    row = {"loss_change": 2.0, "loss_p_holm": 0.001}
    assert verdicts(table((fact,), **row)) == {}
    assert verdicts(table((f"ablation: {MODES['each']}",), **row))[str(HEAD)] == "needed"

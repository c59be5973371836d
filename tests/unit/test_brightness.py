"""Verdicts on heads: each follows from numbers planted in a table, none goes beyond them."""

from dataclasses import replace

import pytest

from seq2seq.analysis.brightness import (
    COLUMN,
    brightness_findings,
    effect_names,
    with_verdicts,
)
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.needed import OTHERS_OFF
from seq2seq.analysis.tables import Column, HeadTable

A, B, C = (HeadId("cross", 0, head) for head in range(3))


def table(**columns):
    rows = {
        head: {name: values[place] for name, values in columns.items()}
        for place, head in enumerate((A, B, C))
    }
    return HeadTable([Column(name) for name in columns], rows)


def verdicts(**columns):
    found = with_verdicts(table(**columns))
    assert found.columns[0] == COLUMN
    return [found.rows[head][COLUMN.name] for head in (A, B, C)]


def test_effects_of_all_probes_are_named():
    found = verdicts(
        confidence=[0.9, 0.2, 0.9],
        effect=[0.6, 0.0, 0.01],
        right_pairs=[0.9, 0.5, 0.2],
        subject_effect=[0.2, 0.31, -0.02],
    )
    assert found == ["bright and carries it 0.60, subject 0.20", "dim but carries subject 0.31",
                     "bright but idle"]  # fmt: skip


def test_what_was_traced_is_called_so_where_it_is_not_known():
    assert verdicts(confidence=[0.9] * 3, effect=[0.6, 0.07, 0.0]) == [
        "bright and carries the answer 0.60",
        "bright, of little effect",
        "bright but idle",
    ]
    assert effect_names(table(effect=[1, 1, 1], effect_low=[0, 0, 0])) == {"effect": "the answer"}


def test_a_loss_beyond_chance_is_a_need_and_one_within_is_none():
    found = verdicts(
        confidence=[0.9, 0.3, 0.6],
        loss_change=[0.5, 0.5, 0.5],
        loss_p_holm=[0.01, 0.01, 0.2],
        effect=[0.3, 0.0, 0.0],
    )
    assert found == ["bright and carries the answer 0.30 and is needed", "dim but is needed",
                     "bright but idle"]  # fmt: skip


def test_a_head_without_which_things_improve_is_not_needed():
    assert verdicts(
        confidence=[0.9] * 3, loss_change=[-0.5, -0.1, 0.1], loss_p_holm=[0.01, 0.01, 0.01]
    ) == ["bright but idle", "bright but idle", "bright and is needed"]
    assert verdicts(
        confidence=[0.1] * 3, bleu_change=[-5.0, 5.0, 0.0], bleu_p_holm=[0.01, 0.01, 1.0]
    ) == ["dim but is needed", "idle", "idle"]


@pytest.mark.parametrize("columns", [{"confidence": [0.9] * 3}, {"effect": [0.0] * 3}])
def test_weights_alone_or_effects_alone_say_nothing(columns):
    whole = table(**columns)
    assert with_verdicts(whole) == whole
    assert brightness_findings(whole) == []


def test_findings_list_the_most_confident_first_and_say_what_was_measured():
    found = with_verdicts(
        table(
            confidence=[0.6, 0.2, 0.9],
            effect=[0.0, 0.4, 0.0],
            loss_change=[0.1, 0.1, 0.1],
            loss_p_holm=[1.0, 1.0, 1.0],
        )
    )
    assert brightness_findings(found) == [
        "Bright but idle, that is, confident with no causal effect of 0.05 and no change of loss "
        "beyond chance: cross.0.2, cross.0.0.",
        "Not confident, yet something depends on them: cross.0.1.",
    ]


def test_all_other_heads_off_says_nothing_of_the_head():
    """What is lost when the others go is no need for the one that stays."""
    whole = table(confidence=[0.9] * 3, loss_change=[2.0] * 3, loss_p_holm=[0.01] * 3)
    alone = replace(whole, facts=[f"ablation: {OTHERS_OFF}"])
    assert with_verdicts(alone) == alone
    effects = table(effect=[0.3, 0.0, 0.0]).joined(alone)
    found = with_verdicts(replace(effects, facts=alone.facts))
    assert [found.rows[head][COLUMN.name] for head in (A, B, C)] == [
        "bright and carries the answer 0.30", "bright but idle", "bright but idle"
    ]  # fmt: skip
    assert "loss" not in " ".join(brightness_findings(found))


def test_gaps_stay_gaps():
    assert verdicts(confidence=[0.9, None, 0.9], effect=[None, 0.5, 0.2]) == [
        None,  # it was not swapped: nobody knows whether it is idle
        None,
        "bright and carries the answer 0.20",
    ]

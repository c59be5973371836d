"""Findings: each sentence follows from numbers planted in a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seq2seq.analysis.findings import findings, rank_correlation
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.needed import OTHERS_OFF
from seq2seq.analysis.tables import Column, HeadTable

HEADS = [HeadId("enc", 0, 0), HeadId("enc", 0, 1), HeadId("dec", 0, 0), HeadId("cross", 0, 0)]


def table(**columns):
    """A table of four heads with these columns."""
    rows = {
        head: {name: values[place] for name, values in columns.items()}
        for place, head in enumerate(HEADS)
    }
    return HeadTable([Column(name) for name in columns], rows)


def told(**columns):
    return " ".join(findings(table(**columns)))


def test_roles_are_counted():
    text = told(roles=["previous 0.95", "none", "previous 0.99; broad 0.93", "separator 0.7"])
    assert "3 of 4 heads have a role: previous (2), separator (1)." in text
    assert "None of the 4 heads has a role" in told(roles=["none"] * 4)


def test_copies():
    near = ["enc.0.1", "enc.0.0", "dec.0.1", "cross.0.1"]
    text = told(nearest=near, nearest_js=[0.01, 0.01, 0.3, 0.2])
    assert "2 of 4 heads have a near copy" in text
    assert "enc.0.0 and enc.0.1 (0.010 of 0.693 nats)" in text
    text = told(nearest=near, nearest_js=[0.21, 0.21, 0.3, 0.2])
    assert "cross.0.0 and cross.0.1 (0.200 of 0.693 nats): no head is a copy" in text


def test_importance_names_the_largest():
    text = told(importance=[0.001, 0.02, 0.0, 0.003])
    assert "listens most to enc.0.1 (0.0200), cross.0.0 (0.0030), enc.0.0 (0.0010)" in text


def test_loss_counts_only_what_is_more_than_chance():
    numbers = {"loss_change": [0.5, 0.001, -0.2, 2.0], "loss_p_holm": [0.01, 0.9, 0.02, 0.04]}
    text = told(**numbers, importance=[3.0, 1.0, 2.0, 4.0], confidence=[1.0, 2, 3, 0])
    assert "The loss changes by more than chance without 3 of 4 heads;" in text
    assert "rises most without cross.0.0 (+2.000), enc.0.0 (+0.500)" in text
    assert "Gradient importance and the loss without the head agree in rank to +0.80" in text
    assert "Confidence and the loss without the head agree in rank to −1.00" in text
    numbers["loss_p_holm"] = [1.0] * 4
    assert "No head raises the loss by more than chance" in told(**numbers)


def test_all_other_heads_off_is_not_said_to_be_this_head_off():
    numbers = {"loss_change": [0.5, 0.1, 0.2, 2.0], "loss_p_holm": [0.01] * 4}
    numbers |= {"bleu_change": [-5.0] * 4, "bleu_p_holm": [0.01] * 4, "importance": [1, 2, 3, 4]}
    alone = replace(table(**numbers), facts=[f"ablation: {OTHERS_OFF}"])
    assert findings(alone) == [
        "By gradient the loss listens most to cross.0.0 (4.0000), dec.0.0 (3.0000), enc.0.1 "
        "(2.0000) [nats/token].",
        "Left alone in its layer, enc.0.1 does best: the loss changes by +0.100 nats/token.",
    ]


def test_bleu():
    text = told(bleu_change=[-12.5, 0.3, -0.1, -30.0], bleu_p_holm=[0.01, 0.9, 0.6, 0.001])
    assert "BLEU changes by more than chance without 2 of 4 heads." in text
    assert "BLEU falls most without cross.0.0 (−30.0), enc.0.0 (−12.5)." in text
    text = told(bleu_change=[-1.0] * 4, bleu_p_holm=[0.2] * 4)
    assert "No single head changes BLEU by more than chance" in text


def test_a_table_without_such_columns_tells_nothing():
    assert findings(table(other=[1, 2, 3, 4])) == []


def ranked(*values):
    return dict(zip(HEADS, values, strict=False))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((1, 2, 3, 4), (10, 20, 30, 400), 1),
        ((1, 2, 3, 4), (4, 3, 2, 1), -1),
        ((1, 2, 3, 4), (2, 1, 4, 3), 0.6),
        # ranks 0.5 0.5 2 3 and 0 1 2 3: cov 4.5 / √(4.5 · 5)
        ((1, 1, 3, 4), (1, 2, 3, 4), 4.5 / (4.5 * 5) ** 0.5),
    ],
)
def test_rank_correlation(a, b, expected):
    assert rank_correlation(ranked(*a), ranked(*b)) == pytest.approx(expected)


def test_rank_correlation_needs_three_heads_that_differ():
    assert rank_correlation(ranked(1, 2), ranked(1, 2)) is None
    assert rank_correlation(ranked(1, 1, 1, 1), ranked(1, 2, 3, 4)) is None

"""What stands out in a table of heads, in sentences that claim no more than the numbers do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from seq2seq.analysis.brightness import brightness_findings
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.needed import LEVEL, ablation_columns
from seq2seq.analysis.roles import NONE, main_role
from seq2seq.analysis.similarity import ALIKE
from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import Array


def findings(table: HeadTable) -> list[str]:
    """Sentences on roles, redundancy, importance and ablation, as far as the table has them."""
    found: list[str] = []
    columns = {column.name for column in table.columns}
    for needed, describe in (
        ({"roles"}, _roles),
        ({"nearest", "nearest_js"}, _redundancy),
        ({"importance"}, _importance),
    ):
        if needed <= columns:
            found += describe(table)
    ablated = ablation_columns(table)
    if "loss_change" in ablated:
        found += _loss(table)
    elif "loss_change" in columns:
        found += _left_alone(table)
    if "bleu_change" in ablated:
        found += _bleu(table)
    return found + brightness_findings(table)


def rank_correlation(a: Mapping[HeadId, float], b: Mapping[HeadId, float]) -> float | None:
    """Spearman's rank correlation over the heads that both have; None where it is undefined."""
    heads = [head for head in a if head in b]
    if len(heads) < 3:
        return None
    x, y = (_ranks([values[head] for head in heads]) for values in (a, b))
    if x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: Sequence[float]) -> Array:
    """Ranks from 0; equal values share their mean rank."""
    array = np.asarray(values)
    below = (array[:, None] > array).sum(1)
    equal = (array[:, None] == array).sum(1)
    return below + (equal - 1) / 2


def _roles(table: HeadTable) -> list[str]:
    names = {head: main_role(text) for head, text in table.texts("roles").items()}
    counts = Counter(name for name in names.values() if name != NONE)
    if not counts:
        return [
            f"None of the {len(names)} heads has a role at the usual thresholds: each divides its "
            "attention in a way that no single rule describes."
        ]
    parts = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    return [f"{counts.total()} of {len(names)} heads have a role: {parts}."]


def _redundancy(table: HeadTable) -> list[str]:
    values = table.values("nearest_js")
    if not values:
        return []
    head = min(values, key=lambda h: values[h])
    pair = f"{head} and {table.rows[head]['nearest']} ({values[head]:.3f} of 0.693 nats)"
    close = sum(value < ALIKE for value in values.values())
    if not close:
        return [f"The two heads that attend most alike are {pair}: no head is a copy of another."]
    return [
        f"{close} of {len(values)} heads have a near copy (divergence below {ALIKE} nats); most "
        f"alike are {pair}."
    ]


def _importance(table: HeadTable) -> list[str]:
    values = table.values("importance")
    lines = [f"By gradient the loss listens most to {_top(values, 3, '.4f')} [nats/token]."]
    if "loss_change" in ablation_columns(table):
        lines += _agreement("Gradient importance", values, table.values("loss_change"))
    return lines


def _agreement(
    name: str, values: Mapping[HeadId, float], changes: Mapping[HeadId, float]
) -> list[str]:
    rank = rank_correlation(values, changes)
    if rank is None:
        return []
    text = f"{rank:+.2f}".replace("-", "−")
    return [f"{name} and the loss without the head agree in rank to {text} (Spearman)."]


def _loss(table: HeadTable) -> list[str]:
    values, p_values = table.values("loss_change"), table.values("loss_p_holm")
    sure = {h: v for h, v in values.items() if p_values[h] < LEVEL}
    worse = {h: v for h, v in sure.items() if v > 0}
    lines = [
        f"The loss changes by more than chance without {len(sure)} of {len(values)} heads; it "
        f"rises most without {_top(worse, 3, '+.3f')} [nats/token]."
        if worse
        else f"No head raises the loss by more than chance when it is off ({len(values)} tested)."
    ]
    if table.has("confidence"):
        lines += _agreement("Confidence", table.values("confidence"), values)
    return lines


def _left_alone(table: HeadTable) -> list[str]:
    """Of a table in which all other heads of a layer were off."""
    values = {head: -change for head, change in table.values("loss_change").items()}
    if not values:
        return []
    (head,) = _best(values, 1)
    return [
        f"Left alone in its layer, {head} does best: the loss changes by {-values[head]:+.3f} "
        "nats/token.".replace("-", "−")
    ]


def _bleu(table: HeadTable) -> list[str]:
    values, p_values = table.values("bleu_change"), table.values("bleu_p_holm")
    sure = {h: v for h, v in values.items() if p_values[h] < LEVEL}
    if not sure:
        return [
            f"No single head changes BLEU by more than chance when it is off ({len(values)} "
            "tested, Holm-corrected): what one loses, others make up for."
        ]
    worst = {head: -value for head, value in sure.items() if value < 0}
    lines = [f"BLEU changes by more than chance without {len(sure)} of {len(values)} heads."]
    if worst:
        names = ", ".join(f"{h} ({values[h]:+.1f})".replace("-", "−") for h in _best(worst, 3))
        lines.append(f"BLEU falls most without {names}.")
    return lines


def _best(values: Mapping[HeadId, float], count: int) -> list[HeadId]:
    return sorted(values, key=lambda head: -values[head])[:count]


def _top(values: Mapping[HeadId, float], count: int, form: str) -> str:
    return ", ".join(f"{head} ({values[head]:{form}})" for head in _best(values, count))

"""Whether anything depends on a head, by what was measured: one rule for pages and sentences.

Two kinds of measurement say so. Causal effects (`seq2seq trace`): the answer moves when the head's
output is swapped. Ablation (`seq2seq heads --ablate`): loss or BLEU is worse without the head,
beyond chance. How hard a head looks says nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from seq2seq.analysis.tables import HeadTable, Value

CARRIES = 0.1  # least effect of a head that is said to carry something
IDLE = 0.05  # most effect of a head that is said to carry nothing
LEVEL = 0.05  # of significance, after Holm's correction
LOSSES = (("loss_change", "loss_p_holm", 1), ("bleu_change", "bleu_p_holm", -1))
OTHERS_OFF = "all other heads of its layer off"  # an ablation that says nothing of the head itself


def effect_columns(table: HeadTable) -> list[str]:
    """The columns of causal effects: "effect", and "subject_effect" and the like."""
    names = [column.name for column in table.columns if table.has(column.name)]
    return [name for name in names if name == "effect" or name.endswith("_effect")]


def others_off(table: HeadTable) -> bool:
    """Whether a table's ablation left each head alone in its layer, instead of out."""
    return any(OTHERS_OFF in fact for fact in table.facts)


def ablation_columns(table: HeadTable) -> list[str]:
    """The columns of loss and BLEU without the head, if it alone was off."""
    if others_off(table):
        return []
    return [change for change, p, _ in LOSSES if table.has(change) and table.has(p)]


def needed(row: Mapping[str, Value]) -> bool:
    """Whether loss or BLEU is worse without the head, beyond chance."""
    return any(
        sign * _number(row.get(change)) > 0 and _number(row.get(p), 1.0) < LEVEL
        for change, p, sign in LOSSES
    )


def verdicts(table: HeadTable) -> dict[str, str]:
    """Head, as "cross.2.1" → what was found; heads between, or not measured, are left out.

    "carries": an answer moves when its output is swapped; else "needed": loss or BLEU is worse
    without it; "idle": whatever was measured, nothing depends on it.
    """
    effects, ablated = effect_columns(table), ablation_columns(table)
    found = {}
    for head in table.heads:
        row = table.rows[head]
        moved = [_number(row[name]) for name in effects if row.get(name) is not None]
        tested = any(row.get(name) is not None for name in ablated)
        if any(effect >= CARRIES for effect in moved):
            found[str(head)] = "carries"
        elif tested and needed(row):
            found[str(head)] = "needed"
        elif (moved or tested) and all(abs(effect) < IDLE for effect in moved):
            found[str(head)] = "idle"
    return found


def _number(value: Value, otherwise: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) else otherwise

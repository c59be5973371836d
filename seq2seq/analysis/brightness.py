"""Bright or needed: what a head's weights promise beside what depends on it, in a word or two.

It reads a table in which weights, ablation and causal effects stand side by side
(`HeadTable.joined`) and claims no more than is there: where neither ablation nor interchange was
measured, nothing is called idle.
"""

from __future__ import annotations

from dataclasses import replace

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.needed import CARRIES, IDLE, ablation_columns, needed
from seq2seq.analysis.tables import Column, HeadTable, Value

BRIGHT = 0.5  # least confidence: half of the weight on one word, on average
COLUMN = Column(
    "verdict", "", f"bright: confidence ≥ {BRIGHT:g}; idle: nothing that was measured depends on it"
)


def effect_names(table: HeadTable) -> dict[str, str]:
    """Column of causal effects → what it is about: "it", "subject", or the traced answer."""
    plain = "it" if table.has("right_pairs") else "the answer"
    return {
        column.name: column.name.removesuffix("effect").removesuffix("_") or plain
        for column in table.columns
        if column.name == "effect" or column.name.endswith("_effect")
    }


def with_verdicts(table: HeadTable) -> HeadTable:
    """The table with a column of verdicts in front; as it is if only weights were measured."""
    if not table.has("confidence") or not (effect_names(table) or ablation_columns(table)):
        return table
    rows = {head: {COLUMN.name: _verdict(table, head), **row} for head, row in table.rows.items()}
    return replace(table, columns=[COLUMN, *table.columns], rows=rows)


def brightness_findings(table: HeadTable) -> list[str]:
    """Sentences on heads whose looks and whose use differ."""
    if not table.columns or all(column.name != COLUMN.name for column in table.columns):
        return []
    texts = table.texts(COLUMN.name)
    confidence = table.values("confidence")
    idle = [head for head, text in texts.items() if text == "bright but idle"]
    dim = [head for head, text in texts.items() if text.startswith("dim but")]
    lines = []
    if idle:
        idle.sort(key=lambda head: -confidence[head])
        lines.append(
            f"Bright but idle, that is, confident with {_nothing(table)}: {_listed(idle)}."
        )
    if dim:
        lines.append(f"Not confident, yet something depends on them: {_listed(dim)}.")
    return lines


def _verdict(table: HeadTable, head: HeadId) -> str | None:
    row = table.rows[head]
    if row.get("confidence") is None:
        return None
    found = {name: row.get(key) for key, name in effect_names(table).items()}
    effects = {name: _number(effect) for name, effect in found.items() if effect is not None}
    tested = any(row.get(name) is not None for name in ablation_columns(table))
    if not effects and not tested:  # nothing was measured
        return None
    carried = [f"{name} {effect:.2f}" for name, effect in effects.items() if effect >= CARRIES]
    uses = [f"carries {', '.join(carried)}"] * bool(carried) + ["is needed"] * (
        tested and needed(row)
    )
    bright = _number(row["confidence"]) >= BRIGHT
    if uses:
        return f"{'bright and' if bright else 'dim but'} {' and '.join(uses)}"
    if any(abs(effect) >= IDLE for effect in effects.values()):
        return "bright, of little effect" if bright else "of little effect"
    return "bright but idle" if bright else "idle"


def _nothing(table: HeadTable) -> str:
    """What was measured and not found, in words."""
    effect = [f"no causal effect of {IDLE:g}"] * bool(effect_names(table))
    names = [change.split("_")[0] for change in ablation_columns(table)]
    names = ["BLEU" if name == "bleu" else name for name in names]
    changed = [f"no change of {' or '.join(names)} beyond chance"] * bool(names)
    return " and ".join([*effect, *changed])


def _listed(heads: list[HeadId], most: int = 8) -> str:
    more = f" and {len(heads) - most} more" if len(heads) > most else ""
    return ", ".join(map(str, heads[:most])) + more


def _number(value: Value, otherwise: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) else otherwise

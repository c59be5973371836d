"""What a page knows of heads over many sentences: statistics, evidence and roles."""

from __future__ import annotations

from seq2seq.analysis.roles import COLUMN as ROLES
from seq2seq.analysis.roles import NONE, main_role
from seq2seq.analysis.tables import HeadTable

# Columns of a table that say what depends on a head; the page prints them beside its weights.
EVIDENCE = ("importance", "loss_change", "bleu_change", "effect", "flips")


def of_heads(table: HeadTable | None) -> dict[str, object]:
    """Statistics, which of them are evidence, and roles, by names such as "cross.2.1"."""
    if table is None:
        return {"statistics": {}, "evidence": [], "roles": {}}
    found = table.statistics()
    roles: dict[str, str] = {}
    if any(column.name == ROLES.name for column in table.columns):
        texts = table.texts(ROLES.name)
        roles = {str(h): main_role(t) for h, t in texts.items() if main_role(t) not in ("", NONE)}
    # So named that nobody takes them for numbers of the sentence on display.
    names = {name: f"corpus: {table.column(name).header}" for name in found}
    return {
        "statistics": {names[name]: values for name, values in found.items()},
        "evidence": [names[name] for name in found if _is_evidence(name)],
        "roles": roles,
    }


def _is_evidence(name: str) -> bool:
    """Whether a column says what depends on a head: of a link's probe, the effect alone."""
    return name in EVIDENCE or name.endswith("_effect")

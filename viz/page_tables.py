"""What a page knows of heads over many sentences: statistics, evidence, marks and roles."""

from __future__ import annotations

from seq2seq.analysis.needed import (
    CARRIES,
    IDLE,
    LOSSES,
    ablation_columns,
    effect_columns,
    others_off,
    verdicts,
)
from seq2seq.analysis.roles import COLUMN as ROLES
from seq2seq.analysis.roles import NONE, main_role
from seq2seq.analysis.tables import HeadTable
from viz.evidence import measured_on

# Columns that say what depends on a head; the page prints them beside its weights, so named.
EVIDENCE = {
    "effect": "effect",
    "flips": "flips",
    "importance": "importance",
    "loss_change": "Δloss",
    "bleu_change": "ΔBLEU",
}
ABLATIONS = {change for change, _, _ in LOSSES}


def of_heads(table: HeadTable | None) -> dict[str, object]:
    """Statistics, which of them are evidence, and roles, by names such as "cross.2.1"."""
    if table is None:
        return {"statistics": {}, "evidence": [], "roles": {}}
    found = table.statistics()
    roles: dict[str, str] = {}
    if any(column.name == ROLES.name for column in table.columns):
        texts = table.texts(ROLES.name)
        roles = {str(h): main_role(t) for h, t in texts.items() if main_role(t) not in ("", NONE)}
    names = {name: _name(table, name) for name in found}
    return {
        "statistics": {names[name]: values for name, values in found.items()},
        "evidence": [names[name] for name in sorted(found, key=_rank) if _is_evidence(table, name)],
        "roles": roles,
    }


def _name(table: HeadTable, column: str) -> str:
    """What the page calls a column."""
    header, unit = table.column(column).header, table.column(column).unit
    if _is_evidence(table, column):
        name = EVIDENCE.get(column, column.replace("_", " "))
        return f"{name} [{unit}]" if unit and name != "ΔBLEU" else name
    # So named that nobody takes them for numbers of the sentence on display.
    return f"corpus: {header}"


def _is_evidence(table: HeadTable, name: str) -> bool:
    """Whether a column says what depends on a head: of a link's probe, the effect alone."""
    if name in ABLATIONS and others_off(table):
        return False
    return name in EVIDENCE or name.endswith("_effect")


def _rank(name: str) -> int:
    """Causal effects first, in whichever order tables were joined."""
    return list(EVIDENCE).index(name) if name in EVIDENCE else 1


def marks(table: HeadTable | None) -> dict[str, object]:
    """Which heads carry something, which are idle, what that means, where it was measured."""
    if table is None:
        return {"marks": {}, "meaning": {}, "measured": [], "hash": None}
    effects = [_name(table, name) for name in effect_columns(table)]
    losses = [EVIDENCE[name] for name in ablation_columns(table)]
    little = [f"{' and '.join(effects)} < {IDLE:g}"] * bool(effects)
    little += [f"{' and '.join(losses)} within chance"] * bool(losses)
    meaning = {
        "carries": f"{' or '.join(effects)} ≥ {CARRIES:g}" if effects else "",
        "needed": f"{' or '.join(losses)} worse without it, beyond chance" if losses else "",
        "idle": " and ".join(little),
    }
    return {
        "marks": verdicts(table),
        "meaning": {mark: text for mark, text in meaning.items() if text},
        "measured": list(table.facts),
        "hash": measured_on(table),
    }

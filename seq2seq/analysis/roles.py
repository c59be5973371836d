"""What heads are for, by how they look: positional, rare-token, separator, broad, or none of these.

The roles are those of Voita et al. 2019 and Clark et al. 2019. A head may have several, and each
comes with the number that it rests on. A role describes where a head looks; it does not say that
anything depends on it. That is for ablation and interchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable, Value

NONE = "none"
COLUMN = Column("roles", "", "what the head looks at, with the number that this rests on")


@dataclass(frozen=True)
class Thresholds:
    """From which number on a head has a role.

    Attributes:
        positional: rows whose maximum lies at one offset, of the rows that have it.
        rare: rows whose maximum is the rarest piece of the sentence.
        separator: mean weight on <s>, </s> and punctuation.
        broad: entropy / highest possible entropy.
        syntactic: by which a head beats the best fixed offset at finding a kind of link.
    """

    positional: float = 0.9
    rare: float = 0.5
    separator: float = 0.6
    broad: float = 0.9
    syntactic: float = 0.1


class Role(NamedTuple):
    """A role and what it rests on."""

    name: str
    evidence: float

    def __str__(self) -> str:
        return f"{self.name} {self.evidence:.2f}"


def detect(table: HeadTable, limits: Thresholds | None = None) -> dict[HeadId, list[Role]]:
    """The roles of every head, the strongest evidence first; an empty list for none.

    Args:
        table: with the columns of `seq2seq.analysis.statistics`.
        limits: thresholds other than the usual ones.
    """
    limits = limits or Thresholds()
    return {head: _roles(table.rows[head], limits) for head in table.heads}


def with_roles(
    table: HeadTable,
    limits: Thresholds | None = None,
    syntactic: Mapping[HeadId, list[Role]] | None = None,
) -> HeadTable:
    """The table with a column of roles in front: its own, and syntactic ones if they are given."""
    found = detect(table, limits)
    for head, roles in (syntactic or {}).items():
        found[head] = sorted(found[head] + roles, key=lambda role: -role.evidence)
    texts = {h: "; ".join(map(str, roles)) or NONE for h, roles in found.items()}
    rows = {head: {COLUMN.name: texts[head], **row} for head, row in table.rows.items()}
    return HeadTable([COLUMN, *table.columns], rows, table.facts)


def main_role(text: str) -> str:
    """The name of the first role in a cell of the column."""
    return text.split(";")[0].rsplit(" ", 1)[0] if text != NONE else NONE


def _roles(row: Mapping[str, Value], limits: Thresholds) -> list[Role]:
    number = _numbers(row)
    candidates = [
        (_position(number("offset")), number("offset_share"), limits.positional),
        ("rare token", number("rare"), limits.rare),
        ("separator", number("special_mass") + number("punctuation_mass"), limits.separator),
        ("broad", number("entropy_share"), limits.broad),
    ]
    found = [Role(name, value) for name, value, least in candidates if value >= least]
    return sorted(found, key=lambda role: -role.evidence)


def _numbers(row: Mapping[str, Value]) -> Callable[[str], float]:
    def number(name: str) -> float:
        value = row.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    return number


def _position(offset: float) -> str:
    names = {-1: "previous", 0: "itself", 1: "next"}
    return names.get(int(offset), f"offset {int(offset):+d}".replace("-", "−"))

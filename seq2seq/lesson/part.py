"""What a part of the lesson says: claims, each with the number that bears it out, and tables."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2seq.analysis.tables import Column, Value
from seq2seq.analysis.trace import Listing
from seq2seq.attention_maps import Array

NOISE = 1.1  # times that differ by less say nothing on a machine with other work


class Verdict(enum.StrEnum):
    """What the measurement says of a claim."""

    holds = "holds"
    partly = "holds with a condition"
    open = "not decided here"
    fails = "does not hold here"

    @property
    def sign(self) -> str:
        """One character for it."""
        signs = {Verdict.holds: "✓", Verdict.partly: "~", Verdict.open: "?", Verdict.fails: "✗"}
        return signs[self]


@dataclass(frozen=True)
class Claim:
    """One sentence, and what was measured of it.

    Attributes:
        says: the claim.
        measured: the numbers, from the project's own modules.
        verdict: what they say of the claim.
        look: where to look in the picture or the table.
    """

    says: str
    measured: str
    verdict: Verdict = Verdict.holds
    look: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a part, with a name for its file and a title for people."""

    name: str
    title: str
    listing: Listing


@dataclass(frozen=True)
class Part:
    """One part of the lesson.

    Attributes:
        name: as the command line calls it.
        title: for people.
        about: one sentence: what is looked at.
        claims: in the order of the lesson.
        tables: what the numbers were taken from.
        facts: where the numbers come from, a line each.
    """

    name: str
    title: str
    about: str
    claims: Sequence[Claim]
    tables: Sequence[Table] = field(default=())
    facts: Sequence[str] = field(default=())

    def to_text(self) -> str:
        """The part as people read it in a terminal."""
        lines = [f"== {self.title}", self.about, ""]
        for claim in self.claims:
            lines += [f"{claim.verdict.sign} {claim.says}", f"    {claim.measured}"]
        for table in self.tables:
            lines += ["", table.title, *aligned(table.listing)]
        return "\n".join([*lines, *(["", *self.facts] if self.facts else []), ""])


def check(holds: bool, otherwise: Verdict = Verdict.fails) -> Verdict:
    """The verdict of a claim that was checked."""
    return Verdict.holds if holds else otherwise


def table(
    name: str, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Value]]
) -> Table:
    """A table of a part."""
    return Table(name, title, Listing(columns, rows))


def aligned(listing: Listing) -> list[str]:
    """The table with columns as wide as they need to be, numbers on the right."""
    cells = [[column.header for column in listing.columns]]
    for row in listing.rows:
        cells.append([cell(c, v) for c, v in zip(listing.columns, row, strict=True)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        any(isinstance(row[place], int | float) for row in listing.rows)
        for place in range(len(widths))
    ]
    return [
        "  "
        + "  ".join(
            text.rjust(width) if numeric else text.ljust(width)
            for text, width, numeric in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]


def cell(column: Column, value: Value) -> str:
    """A cell as people read it, with commas in long whole numbers."""
    return f"{value:,}" if isinstance(value, int) and value >= 1000 else column.show(value)


def matrix(values: Array, digits: int = 4) -> str:
    """A matrix in one line, as "[0.6698 0.3302; 0.3302 0.6698]".

    >>> import numpy as np
    >>> matrix(np.eye(2))
    '[1 0; 0 1]'
    """
    rows = (" ".join(number(value, digits) for value in row) for row in values.tolist())
    return f"[{'; '.join(rows)}]"


def number(value: float, digits: int = 4) -> str:
    """A number with at most so many decimals; whole numbers without any.

    >>> number(0.66976), number(1.0), number(-0.5)
    ('0.6698', '1', '−0.5000')
    """
    text = f"{value:.0f}" if value == round(value) else f"{value:.{digits}f}"
    return text.replace("-", "−")


def shape(sizes: Sequence[int]) -> str:
    """Sizes as "4 × 512"."""
    return " × ".join(map(str, sizes))

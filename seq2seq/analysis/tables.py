"""Tables with one row for each head, as CSV for programs and Markdown for people.

Every table says in its first lines where it comes from, and every column has a unit. What several
analyses found (weights, gradients, ablation, interchange) is set side by side by `joined`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from seq2seq.analysis.head_id import HeadId
from seq2seq.errors import UserError

Value = float | int | str | None
"""What a cell holds; None: this head has no such number."""

KEYS = ("kind", "layer", "head")
_HEADER = re.compile(r"(?P<name>.+?)(?: \[(?P<unit>[^\]]*)\])?")


@dataclass(frozen=True)
class Column:
    """What stands in a column.

    Attributes:
        name: short, for the header.
        unit: such as "nats"; empty where there is none.
        meaning: what it says, in one line.
        digits: decimals where people read it; CSV holds nine significant digits.
    """

    name: str
    unit: str = ""
    meaning: str = ""
    digits: int = 3

    @property
    def header(self) -> str:
        """The name with its unit, as `entropy [nats]`."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def title(self) -> str:
        """The header as people write, as `loss change [nats/token]`."""
        return self.header.replace("_", " ", self.name.count("_"))

    def show(self, value: Value) -> str:
        """A value as people read it; nothing for None."""
        if value is None:
            return ""
        if isinstance(value, float):
            return f"{value:.{self.digits}f}".replace("-", "−") if value else "0"
        return str(value)


@dataclass(frozen=True)
class HeadTable:
    """Numbers of heads.

    Attributes:
        columns: in order, without kind, layer and head.
        rows: head → column name → value; a column that a row lacks is None.
        facts: where the numbers come from, a line each.
    """

    columns: Sequence[Column]
    rows: Mapping[HeadId, Mapping[str, Value]]
    facts: Sequence[str] = field(default=())

    @property
    def heads(self) -> list[HeadId]:
        """All heads: enc, dec, cross; by layer; by number."""
        return sorted(self.rows, key=lambda head: head.rank)

    def column(self, name: str) -> Column:
        """The description of a column.

        Raises:
            UserError: there is none of that name; lists those there are.
        """
        for column in self.columns:
            if column.name == name:
                return column
        names = ", ".join(column.name for column in self.columns)
        raise UserError(f"The table has no column {name!r}: it has {names}.")

    def has(self, name: str) -> bool:
        """Whether a column of that name exists and is not empty."""
        return any(c.name == name for c in self.columns) and bool(self.values(name))

    def values(self, name: str) -> dict[HeadId, float]:
        """A column's numbers, by head; heads without one are left out.

        Raises:
            UserError: no such column.
        """
        self.column(name)
        found = {head: self.rows[head].get(name) for head in self.heads}
        return {h: float(v) for h, v in found.items() if isinstance(v, int | float)}

    def statistics(self) -> dict[str, dict[str, float]]:
        """Every column of numbers: name → head, as "cross.2.1" → number."""
        return {
            column.name: {str(head): value for head, value in self.values(column.name).items()}
            for column in self.columns
            if self.has(column.name)
        }

    def texts(self, name: str) -> dict[HeadId, str]:
        """A column as people read it, by head.

        Raises:
            UserError: no such column.
        """
        column = self.column(name)
        return {head: column.show(self.rows[head].get(name)) for head in self.heads}

    def joined(self, *others: HeadTable) -> HeadTable:
        """The columns of several tables side by side, for all heads of any of them.

        Raises:
            UserError: two have a column of the same name.
        """
        columns, facts = list(self.columns), list(self.facts)
        rows: dict[HeadId, dict[str, Value]] = {h: dict(row) for h, row in self.rows.items()}
        for table in others:
            twice = {c.name for c in columns} & {c.name for c in table.columns}
            if twice:
                raise UserError(f"Two tables have a column {sorted(twice)[0]!r}: join only one.")
            columns += table.columns
            facts += [fact for fact in table.facts if fact not in facts]
            names = {column.name for column in table.columns}  # rows may hold more, see `only`
            for head, row in table.rows.items():
                found = {name: value for name, value in row.items() if name in names}
                rows.setdefault(head, {}).update(found)
        return replace(self, columns=columns, rows=rows, facts=facts)

    def only(self, names: Collection[str]) -> HeadTable:
        """The table with only these columns, in the table's order."""
        return replace(self, columns=[c for c in self.columns if c.name in names])

    def to_csv(self) -> str:
        """The facts as lines of "# …", a header with units, a row for each head."""
        out = io.StringIO()
        out.writelines(f"# {fact}\n" for fact in self.facts)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*KEYS, *(column.header for column in self.columns)])
        for head in self.heads:
            row = self.rows[head]
            writer.writerow([*head, *(plain_cell(row.get(column.name)) for column in self.columns)])
        return out.getvalue()

    def to_markdown(self) -> str:
        """The facts, the table with a blank cell for no number, and what the columns mean."""
        lines = [f"{fact}  " for fact in self.facts] + [""]
        headers = [*KEYS, *(column.header for column in self.columns)]
        lines += [_line(headers), "|" + "---|" * 3 + "---:|" * len(self.columns)]
        for head in self.heads:
            row = self.rows[head]
            cells = [c.show(row.get(c.name)) for c in self.columns]
            lines.append(_line([*map(str, head), *cells]))
        meanings = [f"- **{c.header}**: {c.meaning}" for c in self.columns if c.meaning]
        return "\n".join([*lines, "", *meanings, ""])


def read_table(text: str, name: str) -> HeadTable:
    """Read what `to_csv` wrote, or any CSV with columns kind, layer and head.

    Args:
        text: the content of the file.
        name: of the file, for messages.

    Raises:
        UserError: not such a table.
    """
    lines = text.split("\n")
    facts = [line[1:].strip() for line in lines if line.startswith("#")]
    rows = list(csv.reader(line for line in lines if line and not line.startswith("#")))
    if not rows or tuple(rows[0][:3]) != KEYS:
        raise UserError(f"{name} is no table of heads: its columns must begin {', '.join(KEYS)}.")
    columns = [_column(header) for header in rows[0][3:]]
    table: dict[HeadId, dict[str, Value]] = {}
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(rows[0]):
            raise UserError(f"{name}, row {number}: {len(row)} cells, but {len(rows[0])} columns.")
        head = HeadId.parse(".".join(row[:3]))
        cells = zip(columns, row[3:], strict=True)
        table[head] = {column.name: _parsed(cell) for column, cell in cells}
    return HeadTable(columns, table, facts)


def to_float(value: float) -> float | None:
    """A plain float for a cell; None for what is no number."""
    return float(value) if math.isfinite(value) else None


def _column(header: str) -> Column:
    found = _HEADER.fullmatch(header)
    return Column(found["name"], found["unit"] or "") if found else Column(header)


def _parsed(cell: str) -> Value:
    if not cell:
        return None
    try:
        return int(cell) if re.fullmatch(r"-?\d+", cell) else to_float(float(cell))
    except ValueError:
        return cell


def plain_cell(value: Value) -> str:
    """A cell of a CSV file: nine significant digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

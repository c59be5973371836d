"""History: the numbers of every head after ever more updates, and when its role began.

"Emerge" is taken literally and carefully. A role has a threshold (`seq2seq.analysis.roles`); it
began at the first snapshot from which on the head passes it in every later one. So much is certain
and no more: that it was not there at the snapshot before, not what happened between the two; and a
role that is there before training is a gift of the initial weights, not learnt.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.roles import NONE, Thresholds, detect
from seq2seq.analysis.tables import KEYS, Column, HeadTable, Value, plain_cell
from seq2seq.errors import UserError

ROLES = (
    Column("role", "", "the head's strongest role at the last snapshot"),
    Column("evidence", "", "the number that the role rests on, at the last snapshot", 2),
    Column("since", "updates", "the first snapshot from which on the head keeps this role", 0),
    Column("not_at", "updates", "the snapshot before, at which it lacked it; blank: never", 0),
)
"""The columns of `emergence`."""


@dataclass(frozen=True)
class History:
    """Tables of the same heads, one for each of some updates.

    Attributes:
        updates: how many updates had been done, rising.
        tables: of seq2seq.analysis.statistics, as many.
        facts: where the numbers come from, a line each.
    """

    updates: Sequence[int]
    tables: Sequence[HeadTable]
    facts: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        """Hold it to its rules.

        Raises:
            UserError: nothing at all, updates that do not rise, or tables of other heads.
        """
        if not self.updates or len(self.updates) != len(self.tables):
            raise UserError("A history needs a table of heads for each of its updates.")
        if any(a >= b for a, b in zip(self.updates, self.updates[1:], strict=False)):
            raise UserError("The updates of a history must rise.")
        for update, table in zip(self.updates, self.tables, strict=True):
            if table.heads != self.heads:
                raise UserError(
                    f"The heads after update {update} are not those after update "
                    f"{self.updates[0]}: the snapshots are of different models."
                )

    @property
    def heads(self) -> list[HeadId]:
        """All heads, in order."""
        return self.tables[0].heads

    def column(self, name: str) -> Column:
        """The description of a column.

        Raises:
            UserError: there is none of that name; lists those there are.
        """
        return self.tables[0].column(name)

    def values(self, name: str) -> dict[HeadId, list[float | None]]:
        """A column's numbers: for each head that ever has one, by update.

        Raises:
            UserError: no such column.
        """
        found = [table.values(name) for table in self.tables]
        heads = [head for head in self.heads if any(head in values for values in found)]
        return {head: [values.get(head) for values in found] for head in heads}

    def to_csv(self) -> str:
        """The facts as lines of "# …", a header with units, a row for each update and head."""
        out = io.StringIO()
        out.writelines(f"# {fact}\n" for fact in self.facts)
        writer = csv.writer(out, lineterminator="\n")
        columns = self.tables[0].columns
        writer.writerow(["update", *KEYS, *(column.header for column in columns)])
        for update, table in zip(self.updates, self.tables, strict=True):
            for head in table.heads:
                cells = [plain_cell(table.rows[head].get(column.name)) for column in columns]
                writer.writerow([update, *head, *cells])
        return out.getvalue()


def emergence(history: History, limits: Thresholds | None = None) -> HeadTable:
    """Since when every head has the role that it has in the end.

    Args:
        history: with the columns of `seq2seq.analysis.statistics`.
        limits: thresholds other than the usual ones.
    """
    limits = limits or Thresholds()
    least = " · ".join(f"{name} {value:g}" for name, value in vars(limits).items())
    found = [detect(table, limits) for table in history.tables]
    rows: dict[HeadId, dict[str, Value]] = {}
    for head in history.heads:
        if not found[-1][head]:
            rows[head] = {"role": NONE}
            continue
        name, evidence = found[-1][head][0]
        had = [any(role.name == name for role in roles[head]) for roles in found]
        first = len(had) - had[::-1].index(False) if False in had else 0
        rows[head] = {"role": name, "evidence": evidence, "since": history.updates[first]}
        if first:
            rows[head]["not_at"] = history.updates[first - 1]
    return HeadTable(ROLES, rows, [*history.facts, f"least evidence of a role: {least}"])

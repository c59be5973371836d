"""What is known of a model's heads: tables that `heads` and `trace` left in its run.

They are taken only if they were measured on the very weights that are looked at, as the first lines
of each table say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from seq2seq.analysis.tables import HeadTable, read_table
from seq2seq.errors import UserError

FOLDERS = ("heads", "trace")  # of the commands that write tables into a run
TABLE = "heads.csv"
_WEIGHTS = re.compile(r"\bweights ([0-9a-f]{12})\b")
_WITHOUT = "without "  # begins a fact that names a head which was off


def gather(
    run: Path, weights: str, without: Collection[str] = ()
) -> tuple[HeadTable | None, list[str]]:
    """The newest table of each command that fits, side by side, and sentences on what was found.

    Args:
        run: folder of a training run.
        weights: hash of the weights that are looked at.
        without: heads that are switched off, as "cross.2.1".
    """
    table: HeadTable | None = None
    taken, notes = list[str](), list[str]()
    for folder in FOLDERS:
        found = dict(_tables(run, folder, notes))
        fitting = [p for p, t in found.items() if _fits(t, weights, without)]
        if fitting:
            new = found[fitting[0]]
            known = {column.name for column in table.columns} if table else set()
            more = new.only({column.name for column in new.columns} - known)
            table = table.joined(more) if table else new
            taken.append(str(fitting[0]))
        elif found:
            which = "heads off" if any(measured_on(t) == weights for t in found.values()) else None
            path, what = next(iter(found)), which or "weights"
            notes.append(f"{path} was measured with other {what}: measure again to see it here")
    if taken:
        notes.insert(0, f"effects and statistics of heads are taken from {', '.join(taken)}")
    return table, notes


def measured_on(table: HeadTable) -> str | None:
    """The hash of the weights that a table was measured on, if it says."""
    found = (_WEIGHTS.search(fact) for fact in table.facts)
    return next((match[1] for match in found if match), None)


def off_in(table: HeadTable) -> set[str]:
    """The heads that were switched off when a table was measured, if it says."""
    return {fact.removeprefix(_WITHOUT) for fact in table.facts if fact.startswith(_WITHOUT)}


def read(path: str) -> HeadTable:
    """The table that --join names.

    Raises:
        UserError: it cannot be read, or is none.
    """
    try:
        return read_table(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--join: {path} cannot be read ({error}).") from None


def check_heads_off(table: HeadTable, without: Collection[str], path: str) -> None:
    """Refuse to set numbers of a model with other heads off beside others.

    Raises:
        UserError: says which.
    """
    off = off_in(table)
    if off != set(without):
        theirs, ours = (", ".join(sorted(heads)) or "none" for heads in (off, without))
        raise UserError(
            f"--join: {path} was measured with other heads off ({theirs}) than here ({ours}): "
            "make both with the same --without-heads."
        )


def _tables(run: Path, folder: str, notes: list[str]) -> Iterator[tuple[Path, HeadTable]]:
    """The tables of a command, the newest first; what cannot be read is noted."""
    for path in sorted(run.glob(f"{folder}*/{TABLE}"), key=_number, reverse=True):
        if not re.fullmatch(rf"{folder}(-\d+)?", path.parent.name):
            continue
        try:
            yield path, read_table(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError, UserError) as error:
            notes.append(f"{path} is left aside: {error}")


def _number(path: Path) -> int:
    """The number of a report: 1 in trace, 2 in trace-2."""
    digits = path.parent.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 1


def _fits(table: HeadTable, weights: str, without: Collection[str]) -> bool:
    return measured_on(table) == weights and off_in(table) == set(without)

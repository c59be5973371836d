"""Snapshots of a run: its attention and the statistics of its heads, after ever more updates.

RUN/snapshots/step_00000500.npz holds the maps of a few sentences, step_00000500.csv the numbers of
every head over many. Each file appears whole or not at all.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seq2seq.analysis.tables import HeadTable, read_table
from seq2seq.attention_maps import Array, AttentionMaps, read_arrays
from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole

FOLDER = "snapshots"  # inside a run folder
_NAME = re.compile(r"step_([0-9]{8,})\.(npz|csv)")


class Snapshots:
    """The snapshots in a folder; an absent folder holds none.

    Args:
        folder: such as RUN/snapshots.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def updates(self) -> list[int]:
        """After how many updates there is a whole snapshot, in order."""
        files = self._files()
        return sorted(
            {update for update, _ in files if {(update, "npz"), (update, "csv")} <= set(files)}
        )

    def write(self, update: int, records: Sequence[AttentionMaps], table: HeadTable) -> int:
        """Keep a snapshot; returns how many bytes it takes.

        Raises:
            UserError: it cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"Cannot make {self.folder}: {error.strerror}.") from None
        contents = {"csv": table.to_csv().encode("utf-8"), "npz": pack(records)}
        for extension, content in contents.items():
            write_whole(content, self._path(update, extension))
        return sum(map(len, contents.values()))

    def records(self, update: int) -> list[AttentionMaps]:
        """The sentences of a snapshot.

        Raises:
            UserError: missing or damaged.
        """
        path = self._path(update, "npz")
        return unpack(read_arrays(path), path)

    def table(self, update: int) -> HeadTable:
        """The numbers of every head in a snapshot.

        Raises:
            UserError: missing or damaged.
        """
        path = self._path(update, "csv")
        try:
            return read_table(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read ({error}).") from None

    def forget_after(self, update: int) -> None:
        """Delete the snapshots of later updates, and what a killed process left half written."""
        for (later, _), path in self._files().items():
            if later > update:
                path.unlink()
        for path in self.folder.glob(".step_*.tmp"):
            path.unlink()

    def _path(self, update: int, extension: str) -> Path:
        return self.folder / f"step_{update:08d}.{extension}"

    def _files(self) -> dict[tuple[int, str], Path]:
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.glob("step_*"))
        return {(int(name[1]), name[2]): path for name, path in found if name}


def pack(records: Sequence[AttentionMaps]) -> bytes:
    """Several records as one compressed .npz file: the arrays of record i are named "i/…"."""
    arrays = {
        f"{number}/{name}": array
        for number, maps in enumerate(records)
        for name, array in maps.to_arrays().items()
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(arrays: dict[str, Array], name: str | Path) -> list[AttentionMaps]:
    """The records that `pack` put together, checked; `name` of the file is for messages.

    Raises:
        UserError: no such file, or a record breaks an invariant.
    """
    parts: dict[str, dict[str, Array]] = {}
    for key, array in arrays.items():
        number, _, field = key.partition("/")
        parts.setdefault(number, {})[field] = array
    return [AttentionMaps.from_arrays(part, name) for part in parts.values()]

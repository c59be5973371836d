"""Pages as files: sentences are gathered until a page is full, and no file is written over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import AttentionMaps
from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole
from viz.page import MAX_MB, bind
from viz.page_data import Entry, entry

NAME = "attn"


class Binder:
    """Gathers sentences and writes them as few pages as the size limit allows.

    Memory holds one page at most, however many sentences come.

    Args:
        folder: where the pages lie.
        paired: each sentence comes as two records, A and B.
        table: numbers of heads.
        start: what pages open on.
        max_mb: of one page.
    """

    def __init__(
        self,
        folder: Path,
        *,
        paired: bool = False,
        table: HeadTable | None = None,
        start: Mapping[str, str] | None = None,
        max_mb: float = MAX_MB,
    ) -> None:
        self.folder, self.paired, self.table, self.start = folder, paired, table, start
        self.max_mb = max_mb
        self._entries: list[Entry] = []
        self._empty = len(bind([], table=table, start=start))
        self._size = 0.0

    def add(self, *records: AttentionMaps) -> list[Path]:
        """Take one sentence; returns the page that became full by it, if one did.

        Raises:
            UserError: the sentence alone is too large for a page, or a file cannot be written.
        """
        entries = [entry(maps) for maps in records]
        size = sum(one.size for one in entries)
        written = []
        if self._entries and self._empty + self._size + size > self.max_mb * 1e6:
            written = self.finish()
        self._entries += entries
        self._size += size
        return written

    def finish(self) -> list[Path]:
        """Write what is left; returns its page.

        Raises:
            UserError: as `add`.
        """
        if not self._entries:
            return []
        page = bind(
            self._entries,
            paired=self.paired,
            table=self.table,
            start=self.start,
            max_mb=self.max_mb,
        )
        self._entries, self._size = [], 0.0
        return [place_page(self.folder, page)]


def place_page(folder: Path, page: str) -> Path:
    """Write a page as attn.html, or attn_2.html … where that is another page.

    Raises:
        UserError: the folder cannot be made or written.
    """
    content = page.encode("utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}.") from None
    number, path = 1, folder / f"{NAME}.html"
    while path.exists() and path.read_bytes() != content:
        number += 1
        path = folder / f"{NAME}_{number}.html"
    if not path.exists():
        write_whole(content, path)
    return path

r"""Reading text files line by line and pair by pair, so that line i stays line i.

A line ends at "\n" and nowhere else, as `wc -l` counts. Text-mode files and `str.splitlines` also
break at U+2028, vertical tabs and other characters that real corpora contain, and every pair after
such a break would be misaligned without a word. So files are read as bytes, one line at a time;
nothing here holds more than one line in memory.
"""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from seq2seq.errors import UserError

Pair = tuple[str, str]

STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"  # invisible, but not white space to Python
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: str | Path, option: str | None = None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 text file, plain or gzip (told apart by content), in order.

    A "\r" before the "\n" and a byte-order mark before the first line are removed; every other
    character stays inside its line. A last line without "\n" counts.

    Args:
        path: the file, or "-" for standard input (plain text only).
        option: the option that named the file, for error messages.

    Raises:
        UserError: at once if the file is missing or a folder; while reading if it is not UTF-8
            (with line number and byte offset within the line) or a damaged gzip file.
    """
    check_file(path, option)
    return _decoded(path, option)


def count_lines(path: str | Path, option: str | None = None) -> int:
    r"""The number of lines that `read_lines` yields: `wc -l`, plus one if the last has no "\n"."""
    check_file(path, option)
    return sum(1 for _ in _raw_lines(path, option))


def is_blank(text: str) -> bool:
    """Whether a line shows nothing: white space, no-break and zero-width spaces only."""
    return all(character.isspace() or character in ZERO_WIDTH for character in text)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    r"""Write lines as UTF-8, each ended by "\n" on every system; returns their number."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


@dataclass(frozen=True)
class PairFiles:
    """Sentence pairs in two parallel files, or in one TSV (`target` is None); read anew each time.

    Attributes:
        source: the source-language file, or the TSV "source TAB target".
        target: the target-language file.
        options: the options that named them, for error messages.
    """

    source: str
    target: str | None = None
    options: tuple[str, ...] = ("source", "target")

    def __str__(self) -> str:
        """The file names, as shown to the user."""
        return self.source if self.target is None else f"{self.source} + {self.target}"

    def __iter__(self) -> Iterator[Pair]:
        """Yield the pairs in order.

        Raises:
            UserError: the files have different numbers of lines (both are counted), a TSV line has
                not exactly one tab, both sides are standard input, or whatever `read_lines` raises.
        """
        if self.source == self.target == STDIN:  # its lines would go to either side in turn
            raise UserError(f"{' and '.join(self.options)} cannot both be standard input.")
        if self.target is None:
            yield from _tsv_pairs(self.source, self.options[0])
            return
        sources = read_lines(self.source, self.options[0])
        targets = read_lines(self.target, self.options[1])
        for source, target in zip_longest(sources, targets):
            if source is None or target is None:
                raise UserError(
                    f"{self.source} has {count_lines(self.source)} lines but {self.target} has "
                    f"{count_lines(self.target)}: line i of one must translate line i of the other."
                )
            yield source, target

    def check(self) -> None:
        """Refuse, before any work, files that are missing or that cannot be read several times."""
        for path, option in zip((self.source, self.target), self.options, strict=False):
            if path is None:
                continue
            check_file(path, option)
            if path == STDIN or not Path(path).is_file():
                raise UserError(
                    f"{option}: {path} is a stream, but training text is read several times; "
                    "save it to a file first."
                )
            if Path(path).stat().st_size == 0:
                raise UserError(f"{option}: {path} is empty; it needs one sentence a line.")


def check_file(path: str | Path, option: str | None = None) -> None:
    """Raise a UserError that names option and path unless the path can be opened for reading."""
    if str(path) == STDIN:
        return
    path = Path(path)
    prefix = f"{option}: " if option else ""
    if path.is_dir():
        raise UserError(f"{prefix}{path} is a folder, but a text file is needed.")
    if not path.exists():
        raise UserError(f"{prefix}{path} does not exist (looked from {Path.cwd()}).")
    try:
        if path.is_file():
            path.open("rb").close()
    except OSError as error:
        raise UserError(f"{prefix}{path} cannot be read: {error.strerror}.") from None


def check_new_folder(path: Path, option: str) -> None:
    """Raise a UserError unless `path` is free for new files: absent, or an empty folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{option}: {path} exists already; name another folder or remove it first.")


def _decoded(path: str | Path, option: str | None) -> Iterator[str]:
    for number, raw in enumerate(_raw_lines(path, option), start=1):
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            prefix = f"{option}: " if option else ""
            raise UserError(
                f"{prefix}{path}, line {number}, byte {error.start + 1}: not UTF-8 "
                f"(0x{raw[error.start]:02x}); {_advice(number, raw)}."
            ) from None


def _advice(number: int, raw: bytes) -> str:
    if number == 1 and raw.startswith(UTF16_BOMS):
        return "it looks like UTF-16: convert it with iconv -f UTF-16 -t UTF-8"
    if number == 1 and raw.startswith(GZIP_MAGIC):
        return "it looks like gzip: pipe it through zcat"
    return "convert the file to UTF-8, for instance with iconv -f LATIN1 -t UTF-8"


def _raw_lines(path: str | Path, option: str | None) -> Iterator[bytes]:
    """The lines as bytes, without line ends and without the byte-order mark."""
    prefix = f"{option}: " if option else ""
    try:
        with _open(path) as stream:
            first = True
            for raw in stream:
                if first:
                    first = False
                    raw = raw.removeprefix(BOM)
                    if not raw:  # nothing but the mark: an editor's empty file
                        continue
                yield raw.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{prefix}{path} is a damaged gzip file ({error}).") from None


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[Iterable[bytes]]:
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as stream:
        # A named pipe cannot be rewound, so only regular files are looked into.
        zipped = Path(path).is_file() and stream.read(2) == GZIP_MAGIC
        if zipped or stream.seekable():
            stream.seek(0)
        yield gzip.GzipFile(fileobj=stream, mode="rb") if zipped else stream


def _tsv_pairs(path: str, option: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path, option), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{option}: {path}, line {number} has {len(columns)} "
                f"column{'' if len(columns) == 1 else 's'}; each line must be source TAB target, "
                "with exactly one tab."
            )
        yield columns[0], columns[1]

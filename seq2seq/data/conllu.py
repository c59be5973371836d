"""Dependency trees from CoNLL-U files, read strictly: what is not understood is named, not guessed.

The format: https://universaldependencies.org/format.html. A token such as "don't" (line `2-3`) may
hold several words; links inside it cannot be seen from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2seq.data.lines import read_lines
from seq2seq.errors import UserError

COLUMNS = 10
_EMPTY = re.compile(r"\d+\.\d+")  # a word that was left out, of enhanced dependencies
_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class Tree:
    """A sentence with its dependencies.

    Attributes:
        tokens: what is written, in order; spaces within one are removed.
        links: (relation, token of the head, token of the dependent), by index, without the root
            and without links within a token. Of a relation such as `nsubj:pass` only what stands
            before the colon.
    """

    tokens: tuple[str, ...]
    links: tuple[tuple[str, int, int], ...]

    @property
    def letters(self) -> str:
        """The sentence without white space."""
        return "".join(self.tokens)


@dataclass(frozen=True)
class _Word:
    line: int
    token: int
    head: int
    relation: str


def read_trees(path: str | Path, option: str | None = None) -> list[Tree]:
    """All sentences of a CoNLL-U file, plain or gzip.

    Args:
        path: the file.
        option: the option that named it, for messages.

    Raises:
        UserError: not such a file (with the number of the line), or no sentence in it.
    """
    trees = list(parse_trees(read_lines(path, option), str(path)))
    if not trees:
        raise UserError(f"{path} holds no sentence.")
    return trees


def parse_trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """The sentences of lines in CoNLL-U format; `name` of the file for messages.

    Raises:
        UserError: a line that is none of the format.
    """
    block: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            continue
        if line.strip():
            cells = line.split("\t")
            if len(cells) != COLUMNS:
                raise UserError(
                    f"{name}, line {number}: {len(cells)} columns between tabs, but CoNLL-U has "
                    f"{COLUMNS}."
                )
            block.append((number, cells))
        elif block:
            yield _tree(block, name)
            block = []
    if block:
        yield _tree(block, name)


def _tree(block: list[tuple[int, list[str]]], name: str) -> Tree:
    tokens: list[str] = []
    words: list[_Word] = []
    covered = 0  # words up to this number belong to the last token
    for line, cells in block:
        span = _RANGE.fullmatch(cells[0])
        if _EMPTY.fullmatch(cells[0]):
            continue
        if span:
            if int(span[1]) != len(words) + 1 or int(span[2]) <= int(span[1]):
                raise UserError(f"{name}, line {line}: no words {cells[0]} follow here.")
            tokens.append("".join(cells[1].split()))
            covered = int(span[2])
            continue
        if cells[0] != str(len(words) + 1):
            raise UserError(
                f"{name}, line {line}: the word has number {cells[0]!r}, expected {len(words) + 1}."
            )
        if len(words) >= covered:
            tokens.append("".join(cells[1].split()))
        words.append(_Word(line, len(tokens) - 1, _head(cells[6], line, name), cells[7]))
    if covered > len(words):
        raise UserError(f"{name}, line {block[-1][0]}: words up to {covered} are missing.")
    return Tree(tuple(tokens), tuple(_links(words, name)))


def _head(cell: str, line: int, name: str) -> int:
    if not (cell.isascii() and cell.isdecimal()):
        raise UserError(
            f"{name}, line {line}: {cell!r} is no head (column 7): the file must hold "
            "dependencies, not only words."
        )
    return int(cell)


def _links(words: list[_Word], name: str) -> Iterator[tuple[str, int, int]]:
    for word in words:
        if word.head > len(words):
            raise UserError(
                f"{name}, line {word.line}: the head is word {word.head} of {len(words)}."
            )
        head = words[word.head - 1].token
        if word.head and head != word.token:
            yield word.relation.partition(":")[0], head, word.token

"""Sentence pairs as ids: the source, and a target that is given or that the model finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from seq2seq.config import BOS, EOS
from seq2seq.data.lines import is_blank
from seq2seq.errors import UserError


class PieceTokenizer(Protocol):
    """What capture needs of a tokenizer; ids come without begin and end of sentence."""

    @property
    def target_vocab(self) -> int:
        """Number of target pieces."""

    def encode_source(self, texts: list[str]) -> list[list[int]]:
        """Piece ids of source texts."""

    def encode_target(self, texts: list[str]) -> list[list[int]]:
        """Piece ids of target texts."""

    def source_pieces(self, ids: list[int]) -> list[str]:
        """The pieces that source ids stand for; control ids as <s> and </s>."""

    def target_pieces(self, ids: list[int]) -> list[str]:
        """The pieces that target ids stand for; control ids as <s> and </s>."""


class Translated(Protocol):
    """What capture needs of a translation."""

    @property
    def text(self) -> str:
        """Detokenised."""

    @property
    def tokens(self) -> list[str]:
        """Its pieces and, last, `</s>`; nothing for a blank line."""

    @property
    def hit_limit(self) -> bool:
        """Whether it ended for its length, so that its end was not the model's choice."""

    @property
    def cut(self) -> bool:
        """Whether the end of the source was left out."""


Translate = Callable[[list[str]], Sequence[Translated]]


@dataclass(frozen=True)
class Pair:
    """One sentence pair as ids, ready for the model."""

    source: list[int]  # pieces, EOS
    target: list[int]  # pieces, and EOS unless the hypothesis was cut
    text: dict[str, str]
    how: str  # "forced" for a given target, "decoded" for the model's own

    @property
    def target_in(self) -> list[int]:
        """What the decoder reads: BOS, then the target shifted by one."""
        return [BOS, *self.target[:-1]]


def read_pairs(
    tokenizer: PieceTokenizer,
    sources: Iterable[str],
    targets: Iterable[str] | None,
    translate: Translate | None,
    batch: int,
) -> Iterator[Pair]:
    """Pairs in input order; sources are read `batch` at a time so that translation is fast."""
    left = iter(sources)
    right = None if targets is None else iter(targets)
    while texts := list(islice(left, batch)):
        if right is not None:
            found = _given(tokenizer, list(islice(right, len(texts))))
        elif translate is not None:
            found = _translated(tokenizer, translate(texts))
        if len(found) < len(texts):
            raise UserError("There are fewer target sentences than sources: give one for each.")
        ids = tokenizer.encode_source(["" if is_blank(text) else text for text in texts])
        for text, pieces, (target, target_ids, how) in zip(texts, ids, found, strict=True):
            yield Pair([*pieces, EOS], target_ids, {"source": text, "target": target}, how)
    if right is not None and next(right, None) is not None:
        raise UserError("There are more target sentences than sources: give one for each.")


def _given(tokenizer: PieceTokenizer, texts: list[str]) -> list[tuple[str, list[int], str]]:
    ids = tokenizer.encode_target(["" if is_blank(text) else text for text in texts])
    return [(text, [*pieces, EOS], "forced") for text, pieces in zip(texts, ids, strict=True)]


def _translated(
    tokenizer: PieceTokenizer, translations: Sequence[Translated]
) -> list[tuple[str, list[int], str]]:
    """The pieces that search chose, which may differ from those of the text tokenized anew."""
    names = tokenizer.target_pieces(list(range(tokenizer.target_vocab)))
    ids = {piece: i for i, piece in enumerate(names)}
    found = []
    for translation in translations:
        if translation.cut:
            raise UserError(
                "A source sentence is longer than the translator reads, and its end was left out: "
                f"split it into shorter sentences (its translation is {translation.text[:40]!r} …)."
            )
        target = [ids[piece] for piece in translation.tokens] or [EOS]
        if translation.hit_limit and len(target) > 1:
            target = target[:-1]  # no row for an end of sentence that the model did not choose
        found.append((translation.text, target, "decoded"))
    return found

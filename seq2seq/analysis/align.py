"""Word alignments from cross-attention, and how far they agree with a gold alignment.

Row t of a cross map belongs to the query that *reads* y_{t-1} and *predicts* y_t. So the source
word that y_t belongs to may be read off either of two rows (Kobayashi et al. 2020; Chen et al.
2020): in mode "out" the row that predicts y_t, in mode "in" the next one, which reads it.

Pieces become words first: the sum over the pieces of a source word, the mean over those of a target
word. Each target word is then linked to the source word with the largest weight.

Letters: T target positions, S source positions, with the end of sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from seq2seq.analysis.words import is_unspaced, merge, spell, word_starts
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.choices import Normalization
from seq2seq.data.lines import is_blank
from seq2seq.data.tokenizer import normalise
from seq2seq.errors import UserError

MODES = ("out", "in")
NULL, IGNORE = "null", "ignore"
EOS_RULES = (NULL, IGNORE)

Links = frozenset[tuple[int, int]]
"""(source word, target word), from 0."""
Span = tuple[int, int]
"""Pieces first … last + 1 of a word."""

_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")


@dataclass(frozen=True)
class Gold:
    """The right alignment of one sentence pair.

    Attributes:
        sure: links that must be found.
        possible: links that may be found; the sure ones are among them, whatever was given.
    """

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        """Count what is sure as possible, too."""
        object.__setattr__(self, "possible", self.possible | self.sure)

    @classmethod
    def exact(cls, links: Links) -> Gold:
        """A gold alignment whose links are all sure."""
        return cls(links, links)


def parse_gold(line: str, where: str = "gold", *, one_indexed: bool = False) -> Gold:
    """Read `0-0 1-2 2p1`: source-target, "-" sure, "p" possible.

    Args:
        line: the links of one sentence pair; empty: none.
        where: file and line, for the message.
        one_indexed: the first word is 1.

    Raises:
        UserError: something that is no link, or a word 0 where the first is 1.
    """
    found: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise UserError(
                f"{where}: {word!r} is no link: write source-target such as 0-2, or 0p2 if it is "
                "only possible."
            )
        link = int(match[1]) - one_indexed, int(match[3]) - one_indexed
        if min(link) < 0:
            raise UserError(f"{where}: {word} names a word 0, so words are not counted from 1.")
        found[match[2]].add(link)
    return Gold(frozenset(found["-"]), frozenset(found["p"]))


def pharaoh(links: Links) -> str:
    """The links as one line `0-0 1-2`, by target word."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links, key=lambda link: (link[1], link[0])))


@dataclass
class Tally:
    """Counts over sentences, for error rate, precision and recall (Och and Ney 2003)."""

    found: int = 0  # |A|
    sure: int = 0  # |S|
    sure_found: int = 0  # |A ∩ S|
    possible_found: int = 0  # |A ∩ P|

    def add(self, links: Links, gold: Gold) -> None:
        """Count one sentence."""
        self.found += len(links)
        self.sure += len(gold.sure)
        self.sure_found += len(links & gold.sure)
        self.possible_found += len(links & gold.possible)

    @property
    def aer(self) -> float:
        """Alignment error rate 1 − (|A∩S| + |A∩P|) / (|A| + |S|); 1 for no link at all.

        Raises:
            UserError: neither a link nor a sure link to find.
        """
        if not self.found + self.sure:
            raise UserError("The gold alignment has no sure link, so there is nothing to score.")
        return 1 - (self.sure_found + self.possible_found) / (self.found + self.sure)

    @property
    def precision(self) -> float | None:
        """Of the links found, how many are possible; None for no link."""
        return self.possible_found / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """Of the sure links, how many are found; None if there is none."""
        return self.sure_found / self.sure if self.sure else None


@dataclass(frozen=True)
class Words:
    """Which pieces make which word.

    Attributes:
        source: the pieces of each source word, control tokens left out.
        target: the pieces of each target word.
        by_pieces: sides whose script has no spaces, so that each piece counts as a word.
        notice: why the words cannot be numbered as in the text; empty if they can.
    """

    source: list[Span]
    target: list[Span]
    by_pieces: tuple[str, ...] = ()
    notice: str = ""

    @property
    def usable(self) -> bool:
        """Whether the words can be numbered as in the text."""
        return not self.notice


def split_words(text: str, marks: str = "") -> list[str]:
    """The words of a text: split at spaces, and each of `marks` is a word of its own.

    Spaces are what they are to the tokenizer: also tabs and line separators, but not the no-break
    space. A line that shows nothing has no words.
    """
    if is_blank(text):
        return []
    marks = re.escape(marks)
    pattern = rf"[^ {marks}]+|[{marks}]" if marks else "[^ ]+"
    return re.findall(pattern, normalise(text, Normalization.identity))


def words_of(maps: AttentionMaps, marks: str = "") -> Words:
    """The words of a record of pieces, numbered as in its text.

    A sentence without spaces, in a script that has none, keeps its pieces as words.

    Args:
        maps: of pieces.
        marks: characters that are words of their own, such as ".,?" in the embedded grammar.
    """
    spans, notices, unspaced = [], [], []
    for side, name in (("src", "source"), ("tgt_out", "target")):
        pieces, control = maps.labels(side), maps.special[side]
        wanted = len(split_words(maps.text[name], marks))
        free = [p for p, c in zip(pieces, control, strict=True) if not c]
        if wanted == 1 and is_unspaced(free):
            found = [(i, i + 1) for i, c in enumerate(control) if not c]
            unspaced.append(name)
        else:
            found = _spans(pieces, control, marks)
            if len(found) != wanted:
                notices.append(f"the {name} has {wanted} words, but its pieces make {len(found)}")
        spans.append(found)
    return Words(spans[0], spans[1], tuple(unspaced), "; ".join(notices))


def _spans(pieces: Sequence[str], control: Array, marks: str) -> list[Span]:
    found = []
    for start, end in pairwise(word_starts(pieces, control)):
        if control[start]:
            continue
        is_mark = [_is_mark(piece, marks) for piece in pieces[start:end]]
        cuts = [i for i in range(1, end - start) if is_mark[i] or is_mark[i - 1]]
        found += [(start + a, start + b) for a, b in pairwise([0, *cuts, end - start])]
    return found


def _is_mark(piece: str, marks: str) -> bool:
    text = spell([piece])
    return len(text) == 1 and text in marks


def word_weights(weights: Array, words: Words, mode: str) -> Array:
    """A cross map by words: [target words, source words + 1], the last column the end of sentence.

    A hypothesis that was cut at the length limit has no row that reads its last piece; in mode
    "in", a last word of one piece is then left out.

    Args:
        weights: [T, S] by pieces.
        words: of the sentence.
        mode: "out" or "in".

    Raises:
        UserError: another mode.
    """
    if mode not in MODES:
        raise UserError(f"The mode of alignment is {' or '.join(MODES)}, not {mode!r}.")
    length = words.target[-1][1] if words.target else 0
    shift = mode == "in"
    rows = weights[int(shift) : length + shift]
    starts = [a for a, _ in words.target if a < len(rows)]
    firsts = [a for a, _ in words.source]
    last = words.source[-1][1] if words.source else 0
    if not starts or last >= weights.shape[1]:
        return np.zeros((0, len(words.source) + 1), weights.dtype)
    return merge(rows[None], [*starts, len(rows)], [*firsts, last, weights.shape[1]])[0]


def hard(weights: Array, words: Words, *, mode: str = "out", eos: str = NULL) -> Links:
    """Link every target word to the source word with the largest weight.

    Args:
        weights: [T, S] of one head, or the mean of several.
        words: of the sentence.
        mode: "out": the rows that predict the word's pieces; "in": those that read them.
        eos: "null": no link where the end of sentence has more weight than every word; "ignore":
            the end of sentence does not count.

    Raises:
        UserError: another mode or rule.
    """
    if eos not in EOS_RULES:
        raise UserError(f"The rule for the end of sentence is {' or '.join(EOS_RULES)}, not {eos}.")
    table = word_weights(weights, words, mode)
    if not words.source or not words.usable:
        return frozenset()
    best = (table if eos == NULL else table[:, :-1]).argmax(-1)
    return frozenset((int(s), t) for t, s in enumerate(best) if s < len(words.source))


def check_range(gold: Gold, words: tuple[int, int], where: str) -> None:
    """Insist that gold links name words that exist.

    Raises:
        UserError: one does not.
    """
    for s, t in gold.possible:
        if s >= words[0] or t >= words[1]:
            raise UserError(
                f"{where}: the link {s}-{t} (counted from 0) names a word that is not there: the "
                f"sentences have {words[0]} and {words[1]} words. If your file counts from 1, say "
                "--one-indexed."
            )

"""Which heads look along links between words (subject, object, attribute, …): weights only.

From one word's row: does the other word of the link get more weight than any further word?
Encoder heads are asked about links of the source, from the row of the word; decoder heads about
links of the target, from the row that writes the later word. Cross heads look from one language
into the other: that is alignment. Voita et al. 2019, section 5.2; Clark et al. 2019, section 4.2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from seq2seq.analysis.capture import capture_each
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervals import wilson
from seq2seq.analysis.minimal_pair import word_pieces
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.tables import Column, Value
from seq2seq.analysis.trace import Listing
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.data.grammar import GrammarPair, words
from seq2seq.model.transformer import Transformer

TO_HEAD, TO_DEPENDENT = "to head", "to dependent"
SIDES = {"enc": "source", "dec": "target"}
COLUMNS = (
    Column("link"),
    Column("direction", "", "from the dependent to its head (noun, verb), or back"),
    Column("kind", "", "enc: links of the source; dec: of the target, from the row that writes"),
    Column("best", "", "the head of this kind that is right most often"),
    Column("right", "", "share of links whose other word gets the most weight of all words"),
    Column("low", "", "lower end of its 95 % interval (Wilson); the best of many is flattered"),
    Column("high", "", "upper end of its 95 % interval"),
    Column("offset", "", "the best fixed offset, in words"),
    Column("offset_right", "", "share of links that lie at that offset"),
    Column("links", "", "how many were asked about"),
)


class Question(NamedTuple):
    """What heads of a kind are asked."""

    link: str
    direction: str
    kind: str


@dataclass(frozen=True)
class Parsed:
    """The words of a sentence and the links among them.

    Attributes:
        words: in order; together they spell the sentence without its spaces.
        links: (name, number of the head word, number of the dependent word).
    """

    words: Sequence[str]
    links: Sequence[tuple[str, int, int]]


Annotation = Mapping[str, Parsed]
"""Of a sentence pair: "source" and "target" → its words and links, as far as they are known."""


@dataclass
class LinkCounts:
    """How often each head finds the other word of a link, over a stream of records.

    Attributes:
        itself: whether a head may also choose the asking word, and is then wrong.
        sentences: counted so far.
        hits: question → head → links found.
        offsets: question → offset in words → links that lie there.
    """

    itself: bool = False
    sentences: int = 0
    hits: dict[Question, Counter[HeadId]] = field(default_factory=lambda: defaultdict(Counter))
    offsets: dict[Question, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    _heads: dict[str, list[HeadId]] = field(default_factory=lambda: defaultdict(list))

    def add(self, maps: AttentionMaps, annotation: Annotation) -> bool:
        """Count one sentence; False if its pieces spell other words than the annotation."""
        found = {}
        for kind, side in SIDES.items():
            if side in annotation and maps.layers(kind):
                read = maps.src if kind == "enc" else maps.tgt_in
                control = maps.special["src" if kind == "enc" else "tgt_in"]
                pieces = ["" if c else p for p, c in zip(read, control, strict=True)]
                positions = word_pieces(pieces, annotation[side].words)
                if positions is None:
                    return False
                found[kind] = positions
        for kind, positions in found.items():
            self._count(kind, maps, positions, annotation[SIDES[kind]].links)
        self.sentences += 1
        return True

    def count(self, question: Question) -> int:
        """How many links were asked about."""
        return self.offsets[question].total()

    def shares(self, question: Question) -> dict[HeadId, float]:
        """The links that each head found, of all that were asked about."""
        total = self.count(question)
        return {head: self.hits[question][head] / total for head in self._heads[question.kind]}

    def best_offset(self, question: Question) -> tuple[int, float]:
        """The fixed offset, in words, at which most links lie, and its share of them."""
        offset, hits = self.offsets[question].most_common(1)[0]
        return offset, hits / self.count(question)

    def _count(
        self,
        kind: str,
        maps: AttentionMaps,
        positions: list[list[int]],
        links: Sequence[tuple[str, int, int]],
    ) -> None:
        asked = list(_questions(kind, links))
        for question, start, answer in asked:
            self.offsets[question][answer - start] += 1
        layers = zip(maps.layer_ids[kind], maps.layers(kind), maps.head_ids[kind], strict=True)
        for layer, weights, numbers in layers:
            heads = [HeadId(kind, layer, number) for number in numbers]
            self._heads[kind] += [head for head in heads if head not in self._heads[kind]]
            received = np.stack([weights[:, :, at].sum(-1) for at in positions], -1)  # [H, q, w]
            for question, start, answer in asked:
                right = self._chosen(received, kind, positions[start], start) == answer
                for head, hit in zip(heads, right.tolist(), strict=True):
                    self.hits[question][head] += hit

    def _chosen(self, received: Array, kind: str, pieces: list[int], word: int) -> Array:
        """The word that each head [H] gives most weight, from a word's row."""
        # A decoder row reads one token and writes the next: the word is written one row earlier.
        row = received[:, pieces].mean(1) if kind == "enc" else received[:, pieces[0] - 1].copy()
        if not self.itself:
            row[:, word] = -1
        return np.asarray(row.argmax(-1))


def probe_links(
    model: Transformer, tokenizer: PieceTokenizer, pairs: Iterable[GrammarPair]
) -> Listing:
    """The best head for every link and direction, beside the best fixed offset.

    Args:
        model: a Transformer; left as it was.
        tokenizer: makes pieces of text.
        pairs: of the grammar; those that its pieces do not spell are left out.
    """
    counts = LinkCounts()
    sentences = list(pairs)
    records = capture_each(
        model, tokenizer, (p.source for p in sentences), (p.target for p in sentences)
    )
    for maps, pair in zip(records, sentences, strict=True):
        counts.add(maps, grammar_annotation(pair))
    rows = [_row(counts, question) for question in sorted(counts.offsets)]
    return Listing(COLUMNS, rows, [f"{counts.sentences} sentences of the embedded grammar"])


def grammar_annotation(
    pair: GrammarPair, names: Mapping[str, str] | None = None
) -> dict[str, Parsed]:
    """What the grammar knows of both sides; `names` gives its links other names."""
    names = names or {}
    return {
        side: Parsed(
            words(text),
            [(names.get(li.kind, li.kind), li.head, li.dependent) for li in pair.links
             if li.side == side],
        )
        for side, text in (("source", pair.source), ("target", pair.target))
    }  # fmt: skip


def _questions(
    kind: str, links: Sequence[tuple[str, int, int]]
) -> Iterator[tuple[Question, int, int]]:
    """Question, word whose row is asked, word that should be found."""
    for name, head, dependent in links:
        for direction, asked, answer in (
            (TO_HEAD, dependent, head),
            (TO_DEPENDENT, head, dependent),
        ):
            if kind == "enc" or answer < asked:  # the decoder sees only what is written
                yield Question(name, direction, kind), asked, answer


def _row(counts: LinkCounts, question: Question) -> list[Value]:
    shares = counts.shares(question)
    best = max(shares, key=lambda head: shares[head])
    low, high = wilson(counts.hits[question][best], counts.count(question))
    offset, at_offset = counts.best_offset(question)
    asked = counts.count(question)
    return [*question, str(best), shares[best], low, high, offset, at_offset, asked]

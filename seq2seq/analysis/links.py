"""The grammar probe: which heads look along grammatical links (subject, object, attribute, …).

For each link of the embedded grammar, from one word's row: does the other word get more weight than
any further word of the sentence? Encoder heads are asked about the English links, from the row
of the word; decoder heads about the German ones, from the row that writes the later word. Cross
heads look from one language into the other: that is alignment. Compare Voita et al. 2019, section
5.2, and Clark et al. 2019, section 4.2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.analysis.contrast import padded
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervals import wilson
from seq2seq.analysis.intervene import attentions, head_numbers
from seq2seq.analysis.minimal_pair import word_pieces
from seq2seq.analysis.observe import undisturbed
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.tables import Column, Value
from seq2seq.analysis.trace import Listing
from seq2seq.config import BOS, EOS
from seq2seq.data.grammar import GrammarPair, words
from seq2seq.model.transformer import Transformer

BATCH = 64  # sentences in one pass
TO_HEAD, TO_DEPENDENT = "to head", "to dependent"
COLUMNS = (
    Column("link"),
    Column("direction", "", "from the dependent to its head (noun, verb), or back"),
    Column("kind", "", "enc: the English links; dec: the German ones, from the row that writes"),
    Column("best", "", "the head of this kind that is right most often"),
    Column("right", "", "share of links whose other word gets the most weight of all words"),
    Column("low", "", "lower end of its 95 % interval (Wilson); the best of many is flattered"),
    Column("high", "", "upper end of its 95 % interval"),
    Column("offset", "", "the best fixed offset, in words"),
    Column("offset_right", "", "share of links that lie at that offset"),
    Column("links", "", "how many were asked about"),
)

Question = tuple[str, str, str]
"""Link, direction, and kind of attention."""


@dataclass(frozen=True)
class _Sentence:
    pair: GrammarPair
    source: list[int]
    target_in: list[int]
    source_words: list[list[int]]  # positions of each word's pieces
    target_words: list[list[int]]  # the same in `target_in`


def probe_links(
    model: Transformer, tokenizer: PieceTokenizer, pairs: Iterable[GrammarPair]
) -> Listing:
    """The best head for every link and direction, beside the best fixed offset.

    Args:
        model: a Transformer; left as it was.
        tokenizer: makes pieces of text.
        pairs: of the grammar; those that its pieces do not spell are left out.
    """
    hits: dict[Question, Counter[HeadId]] = defaultdict(Counter)
    offsets: dict[Question, Counter[int]] = defaultdict(Counter)
    sentences = [s for s in (_sentence(tokenizer, pair) for pair in pairs) if s is not None]
    for start in range(0, len(sentences), BATCH):
        _count(model, sentences[start : start + BATCH], hits, offsets)
    rows = [_row(question, hits[question], offsets[question]) for question in sorted(offsets)]
    return Listing(COLUMNS, rows, [f"{len(sentences)} sentences of the embedded grammar"])


def _sentence(tokenizer: PieceTokenizer, pair: GrammarPair) -> _Sentence | None:
    source = tokenizer.encode_source([pair.source])[0]
    target = tokenizer.encode_target([pair.target])[0]
    spelled = word_pieces(tokenizer.source_pieces(source), words(pair.source))
    written = word_pieces(tokenizer.target_pieces(target), words(pair.target))
    if spelled is None or written is None:
        return None
    read = [[place + 1 for place in places] for places in written]  # behind BOS
    return _Sentence(pair, [*source, EOS], [BOS, *target], spelled, read)


def _count(
    model: Transformer,
    batch: list[_Sentence],
    hits: dict[Question, Counter[HeadId]],
    offsets: dict[Question, Counter[int]],
) -> None:
    device = next(model.parameters()).device
    source = padded([s.source for s in batch], max(len(s.source) for s in batch), device)
    length = max(len(s.target_in) for s in batch)
    with undisturbed(model):
        found = model.attention_weights(
            source, padded([s.target_in for s in batch], length, device)
        )
    layers = {"enc": found.encoder, "dec": found.decoder}
    for row, sentence in enumerate(batch):
        for question, asked, answer in _questions(sentence.pair):
            offsets[question][answer - asked] += 1
        for (kind, layer), attention in attentions(model).items():
            if kind == "cross":
                continue
            chosen = _most(layers[kind][layer][row], kind, sentence)  # [H, words]
            for question, asked, answer in _questions(sentence.pair):
                if question[2] == kind:
                    right = (chosen[asked] == answer).tolist()
                    for head, hit in zip(head_numbers(attention), right, strict=True):
                        hits[question][HeadId(kind, layer, head)] += hit


def _most(weights: Tensor, kind: str, sentence: _Sentence) -> list[Tensor]:
    """For each word, the other word that each head [H] gives most weight, itself left out."""
    places = sentence.source_words if kind == "enc" else sentence.target_words
    received = torch.stack([weights[:, :, at].sum(-1) for at in places], -1)  # [H, queries, words]
    found = []
    for word, at in enumerate(places):
        queries = at if kind == "enc" else [at[0] - 1]  # the row that writes its first piece
        row = received[:, queries].mean(1).clone()
        row[:, word] = -1
        found.append(row.argmax(-1).cpu())
    return found


def _questions(pair: GrammarPair) -> Iterator[tuple[Question, int, int]]:
    """Question, word whose row is asked, word that should be found."""
    for link in pair.links:
        kind = "enc" if link.side == "source" else "dec"
        for direction, asked, answer in (
            (TO_HEAD, link.dependent, link.head),
            (TO_DEPENDENT, link.head, link.dependent),
        ):
            if kind == "enc" or answer < asked:  # the decoder sees only what is written
                yield (link.kind, direction, kind), asked, answer


def _row(question: Question, hits: Counter[HeadId], offsets: Counter[int]) -> list[Value]:
    count = offsets.total()
    best = max(hits, key=lambda head: hits[head])
    low, high = wilson(hits[best], count)
    offset, at_offset = offsets.most_common(1)[0]
    share = hits[best] / count
    return [*question, str(best), share, low, high, offset, at_offset / count, count]

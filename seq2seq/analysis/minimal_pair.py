"""Minimal pairs as ids, with places that have names: what probes ask about.

The two sentences of a pair have as many pieces, word by word, so that a position is the same word
in both. `both_ways` makes of n pairs 2n contrasts: all of them, and then all turned round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.analysis.contrast import Contrast, contrast, padded
from seq2seq.analysis.head_id import Place
from seq2seq.analysis.observe import undisturbed
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.words import spell
from seq2seq.config import EOS
from seq2seq.data.grammar import GrammarPair, words
from seq2seq.model.transformer import Transformer

BATCH = 128  # sentences in one pass
BEGIN, END, ELSEWHERE = "<s>", "the end", "elsewhere"  # the end: the full stop and </s>

Places = Mapping[str, list[int]]
"""Name of a place → its positions."""


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences that differ in a word, up to where their translations differ.

    Attributes:
        contrast: A and B as ids.
        source: places in both sources; every position has one.
        target: places in what the decoder reads.
        text: of A and B.
        source_words: positions of each word of both sources.
        target_words: positions of each word that the decoder has read.
    """

    contrast: Contrast
    source: Places
    target: Places
    text: tuple[str, str]
    source_words: Sequence[list[int]]
    target_words: Sequence[list[int]]

    @classmethod
    def of(
        cls, found: Spelled, source: Places, target: Places, text: tuple[str, str]
    ) -> MinimalPair:
        """The pair with these places, those of the begin and the end, and one for the rest."""
        last = [*found.source[-1], len(found.contrast.source) - 1]
        length = len(found.target)
        while length and found.target[length - 1][-1] > found.row:
            length -= 1
        return cls(
            found.contrast,
            _with_rest({**source, END: last}, len(found.contrast.source)),
            _with_rest({**target, BEGIN: [0]}, found.row + 1),
            text,
            found.source,
            found.target[:length],
        )


@dataclass(frozen=True)
class Spelled:
    """A pair of the grammar as ids, with the positions of its words.

    Attributes:
        contrast: A and B as ids.
        source: positions of each word in both sources.
        target: positions of each word of A's translation in `target_in`, as far as it reaches.
        row: the last position of `target_in`, whose row writes the answer.
        answer: the first word in which the translations differ.
    """

    contrast: Contrast
    source: list[list[int]]
    target: list[list[int]]
    row: int
    answer: int


def spelled(tokenizer: PieceTokenizer, a: GrammarPair, b: GrammarPair) -> Spelled | None:
    """Two sentences as ids; None if their words are not of as many pieces in both."""
    sources = tokenizer.encode_source([a.source, b.source])
    targets = tokenizer.encode_target([a.target, b.target])
    first, second = (
        word_pieces(tokenizer.source_pieces(ids), words(pair.source))
        for ids, pair in zip(sources, (a, b), strict=True)
    )
    written = word_pieces(tokenizer.target_pieces(targets[0]), words(a.target))
    if first is None or first != second or written is None:
        return None
    found = contrast(*([*ids, EOS] for ids in (*sources, *targets)))
    row = len(found.target_in) - 1
    both = zip(words(a.target), words(b.target), strict=False)
    answer = next(word for word, (x, y) in enumerate(both) if x != y)
    read = [[place + 1 for place in pieces] for pieces in written]  # behind BOS
    return Spelled(found, first, read, row, answer)


def word_pieces(pieces: Sequence[str], parts: Sequence[str]) -> list[list[int]] | None:
    """Which pieces spell each word; None if they do not spell these words."""
    letters = [index for index, piece in enumerate(pieces) for _ in spell([piece])]
    if "".join(spell([piece]) for piece in pieces) != "".join(parts):
        return None
    found, start = [], 0
    for part in parts:
        found.append(sorted(set(letters[start : start + len(part)])))
        start += len(part)
    return found


def _with_rest(named: Places, length: int) -> Places:
    """The places, and one more for all positions below `length` that are in none."""
    taken = {position for positions in named.values() for position in positions}
    return {**named, ELSEWHERE: [at for at in range(length) if at not in taken]}


def both_ways(pairs: Sequence[MinimalPair]) -> list[Contrast]:
    """Every contrast, and then every one turned round."""
    return [pair.contrast for pair in pairs] + [pair.contrast.turned for pair in pairs]


def places(pairs: Sequence[MinimalPair]) -> dict[str, dict[str, list[list[int]]]]:
    """Places of `both_ways`, as `trace_places` takes them."""
    found = {"source": [pair.source for pair in pairs], "target": [pair.target for pair in pairs]}
    return {
        side: {name: [place[name] for place in both] * 2 for name in both[0]}
        for side, both in found.items()
    }


@dataclass(frozen=True)
class PlaceWeights:
    """Attention between places, for every sentence of `both_ways`.

    Attributes:
        names: "source" and "target" → names of the places, in order.
        layers: (kind, layer) → [2n, H, query places, key places]: the mean over the positions of
            the query, the sum over those of the key. Queries of encoder heads are places of the
            source, of others those of the target; keys of decoder heads are places of the target.
    """

    names: Mapping[str, list[str]]
    layers: Mapping[Place, Tensor]

    def between(self, place: Place, query: str, key: str) -> Tensor:
        """Weights [2n, H] from one place to another."""
        kind = place[0]
        row = self.names[query_side(kind)].index(query)
        return self.layers[place][:, :, row, self.names[key_side(kind)].index(key)]

    def row(self, place: Place, query: str) -> dict[str, Tensor]:
        """Weights [2n, H] from one place to every place, by name."""
        return {key: self.between(place, query, key) for key in self.names[key_side(place[0])]}


def query_side(kind: str) -> str:
    """Of which side the queries of a kind of attention are."""
    return "source" if kind == "enc" else "target"


def key_side(kind: str) -> str:
    """Of which side the keys of a kind of attention are."""
    return "target" if kind == "dec" else "source"


def place_weights(model: Transformer, pairs: Sequence[MinimalPair]) -> PlaceWeights:
    """What all heads attend to, by places.

    Args:
        model: a Transformer; left as it was.
        pairs: all with the same names of places.
    """
    contrasts, found = both_ways(pairs), places(pairs)
    parts: dict[Place, list[Tensor]] = {}
    for start in range(0, len(contrasts), BATCH):
        chunk = slice(start, start + BATCH)
        for place, weights in _weights(model, contrasts[chunk]).items():
            queries, keys = query_side(place[0]), key_side(place[0])
            sums = _indicator(found[keys], chunk, weights.shape[3])
            means = _indicator(found[queries], chunk, weights.shape[2])
            means = means / means.sum(-1, keepdim=True).clamp(min=1)
            by_place = torch.einsum("nqt,nhts,nks->nhqk", means, weights, sums)
            parts.setdefault(place, []).append(by_place)
    names = {side: list(named) for side, named in found.items()}
    return PlaceWeights(names, {place: torch.cat(chunks) for place, chunks in parts.items()})


def favourites(
    model: Transformer, pairs: Sequence[MinimalPair], rows: Mapping[str, str]
) -> dict[Place, Tensor]:
    """Which word gets the most weight of all words but the asking one.

    Args:
        model: a Transformer; left as it was.
        pairs: all with the same names of places.
        rows: kind → name of the place that is asked; a kind that is missing is left out.

    Returns:
        (kind, layer) → the word's number [2n, H], for every sentence of `both_ways`.
    """
    contrasts = both_ways(pairs)
    parts: dict[Place, list[Tensor]] = {}
    for start in range(0, len(contrasts), BATCH):
        for place, weights in _weights(model, contrasts[start : start + BATCH]).items():
            if place[0] not in rows:
                continue
            chosen = [
                _favourite(layer, pairs[(start + number) % len(pairs)], place[0], rows[place[0]])
                for number, layer in enumerate(weights)
            ]
            parts.setdefault(place, []).append(torch.stack(chosen))
    return {place: torch.cat(chunks) for place, chunks in parts.items()}


def _favourite(weights: Tensor, pair: MinimalPair, kind: str, row: str) -> Tensor:
    """[H, queries, keys] → [H]."""
    queries = (pair.source if kind == "enc" else pair.target)[row]
    spoken = pair.target_words if kind == "dec" else pair.source_words
    asked = weights[:, queries].mean(1)  # [H, keys]
    received = torch.stack([asked[:, at].sum(-1) for at in spoken], -1)  # [H, words]
    if kind == "enc":
        received[:, spoken.index(queries)] = -1
    return received.argmax(-1)


def _indicator(named: Mapping[str, list[list[int]]], chunk: slice, length: int) -> Tensor:
    """[N, places, length]: 1 where a position belongs to a place."""
    rows = list(zip(*(at[chunk] for at in named.values()), strict=True))
    found = torch.zeros(len(rows), len(named), length)
    for number, row in enumerate(rows):
        for index, positions in enumerate(row):
            found[number, index, positions] = 1
    return found


def _weights(model: Transformer, contrasts: Sequence[Contrast]) -> dict[Place, Tensor]:
    device = next(model.parameters()).device
    source = padded([c.source for c in contrasts], max(len(c.source) for c in contrasts), device)
    length = max(len(c.target_in) for c in contrasts)
    target_in = padded([c.target_in for c in contrasts], length, device)
    with undisturbed(model):
        found = model.attention_weights(source, target_in)
    kinds = {"enc": found.encoder, "dec": found.decoder, "cross": found.cross}
    return {
        (kind, layer): weights.float().cpu()
        for kind, layers in kinds.items()
        for layer, weights in enumerate(layers)
    }

"""Probes of grammatical links: which heads look at the word that decides a form?

What the probe of "it" is to pronouns, for subject, object, adjective and separable prefix. The one
word that differs within a pair decides a form of the translation; `asked` is the word whose form
that is. Encoder heads are asked from there, cross heads from the row that writes the answer. A
decoder head could only look at what is written: of these links, at the verb of a separated prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.intervals import wilson
from seq2seq.analysis.intervene import attentions, head_numbers
from seq2seq.analysis.minimal_pair import (
    MinimalPair,
    PlaceWeights,
    favourites,
    key_side,
    place_weights,
    spelled,
)
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import KINDS
from seq2seq.data.grammar import GrammarPair, words
from seq2seq.model.transformer import Transformer

ROW, VERB = "answer's row", "written verb"


class LinkProbe(NamedTuple):
    """What a probe calls the words of its pairs.

    Attributes:
        decider: the word that differs.
        asked: the word whose translation it decides; "" if that is the same word.
        what: in words, as in "heads decide …".
    """

    decider: str
    asked: str
    what: str


PROBES = {
    "subject": LinkProbe("subject", "verb", "the verb's number"),
    "object": LinkProbe("verb", "article", "the object's case"),
    "adjective": LinkProbe("noun", "adjective", "the adjective's ending"),
    "particle": LinkProbe("particle", "", "the separable prefix"),
}
"""Name → probe; the names are those of `link_sentences.LINKS`."""

COLUMNS = (
    Column("right", "", "share of sentences in which the deciding word gets the most weight"),
    Column("right_low", "", "lower end of its 95 % interval (Wilson)"),
    Column("right_high", "", "upper end of its 95 % interval"),
    Column("looks_at", "", "where the asked row puts most of its weight"),
)


def probe_pairs(
    tokenizer: PieceTokenizer,
    link: str,
    pairs: Iterable[tuple[GrammarPair, GrammarPair]],
    count: int | None = None,
) -> list[MinimalPair]:
    """Minimal pairs as ids; those whose words are not of as many pieces in both are left out.

    Args:
        tokenizer: makes pieces of text.
        link: of `PROBES`.
        pairs: of `link_pairs`.
        count: stop when so many are found.
    """
    found = (_probe_pair(tokenizer, PROBES[link], a, b) for a, b in pairs)
    return list(islice((pair for pair in found if pair is not None), count))


def looks(model: Transformer, link: str, pairs: Sequence[MinimalPair]) -> HeadTable:
    """How reliably every head looks at the word that decides; the best offset is in the facts.

    Args:
        model: a Transformer; left as it was.
        link: of `PROBES`.
        pairs: at least one.
    """
    found = place_weights(model, pairs)
    asked = {kind: query for kind in KINDS if (query := _question(link, kind)[0])}
    chosen = favourites(model, pairs, asked)
    rows: dict[HeadId, dict[str, Value]] = {}
    for place in found.layers:
        query, key = _question(link, place[0])
        for index, head in enumerate(head_numbers(attentions(model)[place])):
            row: dict[str, Value] = {}
            if query:
                row = _right(chosen[place][:, index], _answers(pairs, place[0], key))
                row["looks_at"] = _most(found, place, index, query)
            rows[HeadId(*place, head)] = row
    return HeadTable(COLUMNS, rows, [_baseline(link, pairs)])


def _answers(pairs: Sequence[MinimalPair], kind: str, key: str) -> Tensor:
    """The number of the word that should be found, for every sentence of `both_ways`."""
    if kind == "dec":
        found = [pair.target_words.index(pair.target[key]) for pair in pairs]
    else:
        found = [pair.source_words.index(pair.source[key]) for pair in pairs]
    return torch.tensor(found * 2)


def _right(chosen: Tensor, answers: Tensor) -> dict[str, Value]:
    hits = int((chosen == answers).sum())
    low, high = wilson(hits, len(answers))
    return {"right": hits / len(answers), "right_low": low, "right_high": high}


def _most(found: PlaceWeights, place: Place, index: int, query: str) -> str:
    """The place that gets most of the weight, and its mean."""
    names = found.names[key_side(place[0])]
    means = {name: float(found.between(place, query, name)[:, index].mean()) for name in names}
    most = max(names, key=lambda name: means[name])
    return f"{most} {means[most]:.2f}"


def _baseline(link: str, pairs: Sequence[MinimalPair]) -> str:
    """What a fixed offset reaches from the asked word to the deciding one, in words."""
    probe = PROBES[link]
    if not probe.asked:
        return "blind rule: none, for the word that decides is the word that is translated"
    offsets = Counter(
        pair.source_words.index(pair.source[probe.decider])
        - pair.source_words.index(pair.source[probe.asked])
        for pair in pairs
    )
    offset, hits = offsets.most_common(1)[0]
    text = f"{offset:+d}".replace("-", "−")
    return (
        f"blind rule: {probe.decider} at offset {text} from {probe.asked} in "
        f"{hits / len(pairs):.2f} of the sentences"
    )


def _probe_pair(
    tokenizer: PieceTokenizer, probe: LinkProbe, a: GrammarPair, b: GrammarPair
) -> MinimalPair | None:
    found = spelled(tokenizer, a, b)
    if found is None:
        return None
    both = zip(words(a.source), words(b.source), strict=True)
    decider = next(place for place, (x, y) in enumerate(both) if x != y)
    source = {probe.decider: found.source[decider]}
    target = {ROW: [found.row]}
    if probe.asked == "article":  # that of the object
        source["object"] = found.source[_dependent(a, "object")]
    if probe.asked:
        asked = min(word for word, written in a.alignment if written == found.answer)
        source[probe.asked] = found.source[asked]
    else:
        verb = next(li.head for li in a.links if (li.kind, li.side) == ("particle", "target"))
        target[VERB] = found.target[verb]
    return MinimalPair.of(found, source, target, (a.source, b.source))


def _dependent(pair: GrammarPair, kind: str) -> int:
    """The English word that is linked so to its head."""
    return next(li.dependent for li in pair.links if (li.kind, li.side) == (kind, "source"))


def _question(link: str, kind: str) -> tuple[str, str]:
    """From which place heads of a kind are asked, and what they should look at; "" if nowhere."""
    probe = PROBES[link]
    if kind == "enc":
        return probe.asked, probe.decider
    if kind == "cross":
        return ROW, probe.decider
    return (ROW, VERB) if not probe.asked else ("", "")

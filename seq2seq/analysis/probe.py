"""The reference probe: which heads look from "it" to what it means, on sentences made for that.

The pairs differ in the last word alone, which turns the antecedent and with it the German pronoun:
"The database rejected the request because it was slow / long." A head that follows position, or
always takes the nearest noun, is right in one sentence of a pair and wrong in the other.

The row of "it" counts for encoder heads (candidates: the source nouns), the row that predicts the
pronoun for cross heads (source nouns) and for decoder heads (target nouns, already written, with
their articles: these show the gender).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor

from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.intervals import wilson
from seq2seq.analysis.intervene import attentions, head_numbers
from seq2seq.analysis.minimal_pair import (
    MinimalPair,
    PlaceWeights,
    place_weights,
    spelled,
)
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.data.grammar import GrammarPair
from seq2seq.model.transformer import Transformer

FIRST, SECOND, IT, PREDICATE = "first noun", "second noun", "it", "predicate"
PRONOUN = "pronoun's row"

COLUMNS = (
    Column("right", "", "share of sentences in which the antecedent gets more weight"),
    Column("right_pairs", "", "share of pairs with both sentences right; chance is 0.25"),
    Column("right_low", "", "lower end of its 95 % interval (Wilson)"),
    Column("right_high", "", "upper end of its 95 % interval"),
    Column("antecedent", "", "mean weight on the antecedent, from it or the pronoun's row"),
    Column("rival", "", "mean weight on the other noun"),
    Column("looks_at", "", "where that row puts most of its weight"),
)


def pronoun_pairs(
    tokenizer: PieceTokenizer,
    pairs: Iterable[tuple[GrammarPair, GrammarPair]],
    count: int | None = None,
) -> list[MinimalPair]:
    """Minimal pairs as ids; those whose words are not of as many pieces in both are left out.

    `first noun` is the antecedent in A, `second noun` in B.

    Args:
        tokenizer: makes pieces of text.
        pairs: of `minimal_pairs`.
        count: stop when so many are found.
    """
    found = (_pronoun_pair(tokenizer, a, b) for a, b in pairs)
    return list(islice((pair for pair in found if pair is not None), count))


def preferences(model: Transformer, pairs: Sequence[MinimalPair]) -> HeadTable:
    """How reliably every head prefers the antecedent; positional heads score 0 in `right_pairs`.

    Args:
        model: a Transformer; left as it was.
        pairs: at least one.
    """
    found = place_weights(model, pairs)
    rows: dict[HeadId, dict[str, Value]] = {}
    for place in found.layers:
        for index, head in enumerate(head_numbers(attentions(model)[place])):
            name = HeadId(*place, head)
            rows[name] = _score(found, name, index, len(pairs))
    return HeadTable(COLUMNS, rows, [_baselines(pairs)])


def _pronoun_pair(tokenizer: PieceTokenizer, a: GrammarPair, b: GrammarPair) -> MinimalPair | None:
    found = spelled(tokenizer, a, b)
    if found is None:
        return None
    it, first = _antecedent(a, "source")
    pronoun, first_target = _antecedent(a, "target")
    if found.answer != pronoun:  # something before the pronoun differs
        return None
    source = {
        FIRST: found.source[first],
        SECOND: found.source[_antecedent(b, "source")[1]],
        "conjunction": found.source[it - 1],
        IT: found.source[it],
        PREDICATE: found.source[-2],
    }
    second_target = _antecedent(b, "target")[1]
    target = {
        FIRST: found.target[first_target - 1] + found.target[first_target],
        SECOND: found.target[second_target - 1] + found.target[second_target],
        PRONOUN: [found.row],
    }
    return MinimalPair.of(found, source, target, (a.source, b.source))


def _antecedent(pair: GrammarPair, side: str) -> tuple[int, int]:
    """The words of the pronoun and of the noun that it means."""
    link = next(link for link in pair.links if (link.kind, link.side) == ("antecedent", side))
    return link.dependent, link.head


def oriented(found: PlaceWeights, place: Place, query: str) -> dict[str, Tensor]:
    """Weights [2n, H] from a place to every place, the nouns by what they are to the sentence.

    In the first n sentences the first noun is the antecedent, in the others the second.
    """
    row = found.row(place, query)
    first, second = row.pop(FIRST), row.pop(SECOND)
    half = len(first) // 2
    antecedent = torch.cat([first[:half], second[half:]])
    rival = torch.cat([second[:half], first[half:]])
    return {"antecedent": antecedent, "rival": rival, **row}


def _score(found: PlaceWeights, head: HeadId, index: int, count: int) -> dict[str, Value]:
    """The row of a head from its weights on all first and then all second sentences."""
    row = oriented(found, head.place, IT if head.kind == "enc" else PRONOUN)
    weights = {name: w[:, index] for name, w in row.items()}
    right = weights["antecedent"] > weights["rival"]
    both = int((right[:count] & right[count:]).sum())
    low, high = wilson(both, count)
    means = {name: float(w.mean()) for name, w in weights.items()}
    most = max(means, key=lambda name: means[name])
    return {
        "right": float(right.double().mean()),
        "right_pairs": both / count,
        "right_low": low,
        "right_high": high,
        "antecedent": means["antecedent"],
        "rival": means["rival"],
        "looks_at": f"{most} {means[most]:.2f}",
    }


def _baselines(pairs: Sequence[MinimalPair]) -> str:
    """What blind rules reach on the same sentences, in words."""
    nearest, offsets = 0, Counter[int]()
    for pair in pairs:
        it, first, second = (pair.source[name][0] for name in (IT, FIRST, SECOND))
        distances = [abs(it - first), abs(it - second)]
        nearest += (distances[0] < distances[1]) + (distances[1] < distances[0])
        offsets.update([it - first, it - second])
    offset, hits = offsets.most_common(1)[0]
    total = 2 * len(pairs)
    return (
        f"blind rules: the nearest noun is right in {nearest / total:.2f} of the sentences and 0 "
        f"of the pairs, offset −{offset} in {hits / total:.2f} and 0, chance in 0.50 and 0.25"
    )

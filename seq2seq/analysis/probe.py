"""The reference probe: which heads look from "it" to what it means, on sentences made for that.

The pairs differ in the last word alone, which turns the antecedent and with it the German pronoun:
"The database rejected the request because it was slow / long." A head that follows position, or
always takes the nearest noun, is right in one sentence of a pair and wrong in the other.

The row of "it" counts for encoder heads (candidates: the source nouns), the row that predicts the
pronoun for cross heads (source nouns) and for decoder heads (target nouns, already written).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.interchange import Contrast, contrast, padded
from seq2seq.analysis.intervene import all_heads, attentions, head_numbers
from seq2seq.analysis.observe import undisturbed
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.analysis.trace import wilson
from seq2seq.analysis.words import spell
from seq2seq.config import EOS
from seq2seq.data.grammar import GrammarPair, words
from seq2seq.model.transformer import AttentionWeights, Transformer

BATCH = 128  # sentences in one pass
FIRST, SECOND, IT, PREDICATE = "first noun", "second noun", "it", "predicate"
PRONOUN, ELSEWHERE = "pronoun's row", "elsewhere"

Places = Mapping[str, list[int]]
"""Name of a place → its positions."""

COLUMNS = (
    Column("right", "", "share of sentences in which the antecedent gets more weight"),
    Column("right_pairs", "", "share of pairs with both sentences right; chance is 0.25"),
    Column("right_low", "", "lower end of its 95 % interval (Wilson)"),
    Column("right_high", "", "upper end of its 95 % interval"),
    Column("antecedent", "", "mean weight on the antecedent, from it or the pronoun's row"),
    Column("rival", "", "mean weight on the other noun"),
    Column("looks_at", "", "where that row puts most of its weight"),
)


@dataclass(frozen=True)
class PronounPair:
    """A minimal pair as ids; `first noun` is the antecedent in A, `second noun` in B.

    Attributes:
        contrast: A and B up to the pronoun.
        source: places in both sources.
        target: places in what the decoder reads.
        text: of A and B.
    """

    contrast: Contrast
    source: Places
    target: Places
    text: tuple[str, str]


def pronoun_pairs(
    tokenizer: PieceTokenizer,
    pairs: Iterable[tuple[GrammarPair, GrammarPair]],
    count: int | None = None,
) -> list[PronounPair]:
    """Minimal pairs as ids; those whose words are not of as many pieces in both are left out.

    Args:
        tokenizer: makes pieces of text.
        pairs: of `minimal_pairs`.
        count: stop when so many are found.
    """
    found = (_pronoun_pair(tokenizer, a, b) for a, b in pairs)
    return list(islice((pair for pair in found if pair is not None), count))


def both_ways(pairs: Sequence[PronounPair]) -> list[Contrast]:
    """Every contrast, and then every one turned round."""
    return [pair.contrast for pair in pairs] + [pair.contrast.turned for pair in pairs]


def places(pairs: Sequence[PronounPair]) -> dict[str, dict[str, list[list[int]]]]:
    """Places of `both_ways`, as `trace_places` takes them."""
    found = {"source": [pair.source for pair in pairs], "target": [pair.target for pair in pairs]}
    return {
        side: {name: [place[name] for place in both] * 2 for name in both[0]}
        for side, both in found.items()
    }


def preferences(model: Transformer, pairs: Sequence[PronounPair]) -> HeadTable:
    """How reliably every head prefers the antecedent; positional heads score 0 in `right_pairs`.

    Args:
        model: a Transformer; left as it was.
        pairs: at least one.
    """
    masses: dict[HeadId, list[dict[str, float]]] = {head: [] for head in all_heads(model)}
    contrasts = both_ways(pairs)
    for start in range(0, len(contrasts), BATCH):
        chunk = contrasts[start : start + BATCH]
        found = _weights(model, chunk)
        for row in range(len(chunk)):
            _add(model, masses, found, row, pairs[(start + row) % len(pairs)])
    rows = {head: _score(found, len(pairs)) for head, found in masses.items()}
    return HeadTable(COLUMNS, rows, [_baselines(pairs)])


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


def _pronoun_pair(tokenizer: PieceTokenizer, a: GrammarPair, b: GrammarPair) -> PronounPair | None:
    sources = tokenizer.encode_source([a.source, b.source])
    targets = tokenizer.encode_target([a.target, b.target])
    spelled, twin = (
        word_pieces(tokenizer.source_pieces(ids), words(pair.source))
        for ids, pair in zip(sources, (a, b), strict=True)
    )
    written = word_pieces(tokenizer.target_pieces(targets[0]), words(a.target))
    if spelled is None or spelled != twin or written is None:
        return None
    it, first = _antecedent(a, "source")
    pronoun, first_target = _antecedent(a, "target")
    found = contrast(*([*ids, EOS] for ids in (*sources, *targets)))
    last = len(found.target_in) - 1
    # Adding 1: the decoder reads BOS before the first piece.
    nouns = [[p + 1 for p in written[i]] for i in (first_target, _antecedent(b, "target")[1])]
    if last not in written[pronoun]:  # something before the pronoun differs
        return None
    source = {
        FIRST: spelled[first],
        SECOND: spelled[_antecedent(b, "source")[1]],
        "conjunction": spelled[it - 1],
        IT: spelled[it],
        PREDICATE: spelled[-2],
    }
    target = {FIRST: nouns[0], SECOND: nouns[1], PRONOUN: [last]}
    return PronounPair(
        found,
        {**source, ELSEWHERE: _others(source, len(found.source))},
        {**target, ELSEWHERE: _others(target, last + 1)},
        (a.source, b.source),
    )


def _antecedent(pair: GrammarPair, side: str) -> tuple[int, int]:
    """The words of the pronoun and of the noun that it means."""
    link = next(link for link in pair.links if (link.kind, link.side) == ("antecedent", side))
    return link.dependent, link.head


def _others(named: Places, length: int) -> list[int]:
    taken = {position for positions in named.values() for position in positions}
    return [position for position in range(length) if position not in taken]


def _weights(model: Transformer, contrasts: Sequence[Contrast]) -> AttentionWeights:
    device = next(model.parameters()).device
    source = padded([c.source for c in contrasts], max(len(c.source) for c in contrasts), device)
    length = max(len(c.target_in) for c in contrasts)
    target_in = padded([c.target_in for c in contrasts], length, device)
    with undisturbed(model):
        return model.attention_weights(source, target_in)


def _add(
    model: Transformer,
    masses: dict[HeadId, list[dict[str, float]]],
    found: AttentionWeights,
    row: int,
    pair: PronounPair,
) -> None:
    """Add the weights of sentence `row` of a batch, summed over the places of its pair."""
    by_kind = {"enc": found.encoder, "dec": found.decoder, "cross": found.cross}
    for (kind, layer), attention in attentions(model).items():
        queries = pair.source[IT] if kind == "enc" else pair.target[PRONOUN]
        named = pair.target if kind == "dec" else pair.source
        weights: Tensor = by_kind[kind][layer][row][:, queries].mean(1)  # [H, keys]
        sums = torch.stack([weights[:, at].sum(-1) for at in named.values()], 1).tolist()
        for head, values in zip(head_numbers(attention), sums, strict=True):
            masses[HeadId(kind, layer, head)].append(dict(zip(named, values, strict=True)))


def _score(found: list[dict[str, float]], count: int) -> dict[str, Value]:
    """The row of a head from its masses on all first and then all second sentences."""
    as_first, as_second = found[:count], found[count:]
    first = [mass[FIRST] > mass[SECOND] for mass in as_first]
    second = [mass[SECOND] > mass[FIRST] for mass in as_second]
    both = sum(a and b for a, b in zip(first, second, strict=True))
    low, high = wilson(both, count)
    # By what a noun is to the sentence, not by its place.
    named = [{**m, FIRST: m[FIRST], SECOND: m[SECOND]} for m in as_first]
    named += [{**m, FIRST: m[SECOND], SECOND: m[FIRST]} for m in as_second]
    means = {name: sum(m[name] for m in named) / len(named) for name in named[0]}
    most = max(means, key=lambda name: means[name])
    label = {FIRST: "antecedent", SECOND: "rival"}.get(most, most)
    return {
        "right": (sum(first) + sum(second)) / (2 * count),
        "right_pairs": both / count,
        "right_low": low,
        "right_high": high,
        "antecedent": means[FIRST],
        "rival": means[SECOND],
        "looks_at": f"{label} {means[most]:.2f}",
    }


def _baselines(pairs: Sequence[PronounPair]) -> str:
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

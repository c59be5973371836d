"""What every head looks at, over a whole corpus.

Rows are queries, columns are keys. Means are over all rows of all sentences, so that long sentences
count for more; rows of control tokens are left out, for their attention says little about words.
Only sums are kept: memory does not grow with the number of sentences.

Letters: N heads of a layer, R rows, K keys.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.heads import entropy
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import KINDS, Array, AttentionError, AttentionMaps
from seq2seq.errors import UserError

REACH = 64  # offsets further away than this are counted for no offset
FIRST, SAMPLE = 10, 200  # variability: the first tokens of the first sentences that have so many
COMMON = 500  # rare-token rows: only in sentences with a piece that is not among the most common

COLUMNS = (
    Column("rows", "queries", "how many rows the means are over", 0),
    Column("entropy", "nats", "mean over rows of −Σ a ln a (Clark et al. 2019)", 2),
    Column("entropy_share", "of maximum", "mean of a row's entropy / ln of the keys it may see", 2),
    Column("uniform_entropy", "nats", "what `entropy` of a uniform head would be", 2),
    Column(
        "confidence", "weight", "mean of a row's largest weight on a word (Voita et al. 2019)", 2
    ),
    Column("distance", "tokens", "mean of Σ a |query − key| (Vig and Belinkov 2019)", 1),
    Column(
        "previous", "of rows", "rows whose maximum is the token before, of those that have it", 2
    ),
    Column("itself", "of rows", "rows whose maximum is the token itself", 2),
    Column("next", "of rows", "rows whose maximum is the token after, of those that may see it", 2),
    Column("previous_mass", "weight", "mean weight on the token before", 2),
    Column("itself_mass", "weight", "mean weight on the token itself", 2),
    Column("next_mass", "weight", "mean weight on the token after", 2),
    Column("offset", "tokens", "the most common key − query of a row's maximum", 0),
    Column("offset_share", "of rows", "rows whose maximum lies there, of those that have it", 2),
    Column("special_mass", "weight", "mean weight on <s> and </s>", 2),
    Column("punctuation_mass", "weight", "mean weight on punctuation", 2),
    Column("special_mass_of_special", "weight", "the same of the rows of <s> and </s>", 2),
    Column("rare", "of rows", "rows whose maximum is the sentence's rarest word piece", 2),
    Column("variability", "0 to 1", "how far maps differ by sentence (Vig and Belinkov 2019)", 2),
)
"""The columns of `HeadStatistics.table`."""


class HeadStatistics:
    """Statistics of every head over a stream of records.

    Args:
        special_rows: also count the rows of control tokens.
        ranks: source piece → how many pieces are more common; None: no column `rare`.
    """

    def __init__(
        self, *, special_rows: bool = False, ranks: Mapping[str, int] | None = None
    ) -> None:
        self.special_rows = special_rows
        self.ranks = ranks
        self.sentences = 0
        self._layers: dict[Place, _Layer] = {}

    def add(self, maps: AttentionMaps) -> None:
        """Count one sentence.

        Raises:
            AttentionError: its heads are not those of the sentences before.
        """
        self.sentences += 1
        for kind in KINDS:
            if not maps.layers(kind):
                continue
            shape = _shape(maps, kind, self.special_rows, self.ranks)
            for layer, weights, heads in zip(
                maps.layer_ids[kind], maps.layers(kind), maps.head_ids[kind], strict=True
            ):
                sums = self._layers.setdefault((kind, layer), _Layer(list(heads)))
                if sums.heads != list(heads):
                    raise AttentionError(
                        f"{kind} layer {layer} has heads {heads} in sentence {self.sentences}, but "
                        f"{sums.heads} before: the records are of different models."
                    )
                sums.add(weights, shape)

    def table(self, facts: Iterable[str] = ()) -> HeadTable:
        """All numbers, with a row for each head.

        Raises:
            UserError: nothing was counted.
        """
        if not self._layers:
            raise UserError("There is no sentence to take statistics of heads from.")
        rows = {
            HeadId(kind, layer, head): row
            for (kind, layer), sums in self._layers.items()
            for head, row in sums.rows().items()
        }
        kept = [c for c in COLUMNS if c.name != "rare" or self.ranks is not None]
        return HeadTable(kept, rows, list(facts))


@dataclass(frozen=True)
class _Shape:
    """What the maps of one kind in one sentence share."""

    rows: Array  # [R] places of the queries that count
    control_rows: Array  # [C] places of the others
    last: Array  # [R] the last key that each of these rows may see
    control: Array  # bool [K]
    punctuation: Array  # bool [K]
    rarest: Array | None  # bool [K], in sentences with a piece that is rare enough
    is_self: bool
    start: int  # the first query that is no control token


def _shape(
    maps: AttentionMaps, kind: str, special_rows: bool, ranks: Mapping[str, int] | None
) -> _Shape:
    query_control = maps.special[maps.query_side(kind)]
    control = maps.special[maps.key_side(kind)]
    keys = maps.labels(maps.key_side(kind))
    counted = np.ones_like(query_control) if special_rows else ~query_control
    rows = np.flatnonzero(counted)
    rarest = None
    if ranks is not None and kind != "dec":
        found = np.array(
            [-1 if c else ranks.get(k, len(ranks)) for k, c in zip(keys, control, strict=True)]
        )
        rarest = (found == found.max()) & ~control if found.max() >= COMMON else None
    return _Shape(
        rows=rows,
        control_rows=np.flatnonzero(query_control),
        last=rows if kind == "dec" else np.full_like(rows, len(keys) - 1),
        control=control,
        punctuation=np.array([is_punctuation(key) for key in keys]) & ~control,
        rarest=rarest,
        is_self=kind != "cross",
        start=int(query_control.argmin()),
    )


def is_punctuation(piece: str) -> bool:
    """Whether a piece or word is nothing but punctuation, "▁" aside."""
    text = piece.replace("▁", "")
    return bool(text) and all(unicodedata.category(char)[0] == "P" for char in text)


@dataclass
class _Layer:
    """Sums over the sentences so far for the heads of one attention."""

    heads: list[int]
    sums: dict[str, Array] = field(default_factory=dict)  # name → [N]
    counts: Counter[str] = field(default_factory=Counter)  # name → values summed
    hits: Array = field(init=False)  # [N, offsets] row maxima at each offset
    starts: Array = field(init=False)  # [offsets + 1] changes of the rows that have each offset
    blocks: list[Array] = field(default_factory=list)  # [N, FIRST, keys] of the first sentences

    def __post_init__(self) -> None:
        self.hits = np.zeros((len(self.heads), 2 * REACH + 1), dtype=np.int64)
        self.starts = np.zeros(2 * REACH + 2, dtype=np.int64)

    def add(self, weights: Array, shape: _Shape) -> None:
        """Count the maps [N, queries, keys] of one sentence."""
        rows = weights[:, shape.rows].astype(np.float64)  # [N, R, K]
        words = np.where(shape.control, 0, rows)
        entropies = entropy(rows)
        most = np.log(shape.last + 1.0)  # [R]
        choice = shape.last > 0
        self._pool("entropy", entropies)
        self._pool("entropy_share", entropies[:, choice] / most[choice])
        self._pool("uniform_entropy", np.broadcast_to(most, entropies.shape))
        self._pool("confidence", words.max(-1))
        self._pool("special_mass", rows[..., shape.control].sum(-1))
        self._pool("punctuation_mass", rows[..., shape.punctuation].sum(-1))
        others = weights[:, shape.control_rows][..., shape.control]
        self._pool("special_mass_of_special", others.sum(-1, dtype=np.float64))
        maxima = rows.argmax(-1)  # [N, R]
        if shape.rarest is not None:
            self._pool("rare", shape.rarest[maxima])
        if shape.is_self:
            self._add_offsets(rows, maxima, shape)
        self._add_block(weights, shape)

    def _pool(self, name: str, values: Array) -> None:
        """Sum [N, n] values of n rows."""
        self.sums[name] = self.sums.get(name, 0) + values.sum(1)
        self.counts[name] += values.shape[1]

    def _add_offsets(self, rows: Array, maxima: Array, shape: _Shape) -> None:
        places = np.arange(rows.shape[-1])
        self._pool("distance", (rows * np.abs(places - shape.rows[:, None])).sum(-1))
        offsets = maxima - shape.rows
        near = np.abs(offsets) <= REACH
        head, row = np.nonzero(near)
        np.add.at(self.hits, (head, offsets[head, row] + REACH), 1)
        np.add.at(self.starts, np.maximum(-shape.rows, -REACH) + REACH, 1)
        np.add.at(self.starts, np.minimum(shape.last - shape.rows, REACH) + REACH + 1, -1)
        for name, offset in (("previous_mass", -1), ("itself_mass", 0), ("next_mass", 1)):
            targets = shape.rows + offset
            valid = np.flatnonzero((targets >= 0) & (targets <= shape.last))
            self._pool(name, rows[:, valid, targets[valid]])

    def _add_block(self, weights: Array, shape: _Shape) -> None:
        end = shape.start + FIRST
        long_enough = np.count_nonzero(shape.rows < end) >= FIRST and weights.shape[2] >= end
        if long_enough and len(self.blocks) < SAMPLE:
            self.blocks.append(weights[:, shape.start : end, :end].copy())

    def rows(self) -> dict[int, dict[str, Value]]:
        """Column → value, for each head."""
        table: dict[int, dict[str, Value]] = {}
        for place, head in enumerate(self.heads):
            row: dict[str, Value] = {"rows": self.counts["entropy"]}
            for name, total in self.sums.items():
                if self.counts[name]:
                    row[name] = float(total[place] / self.counts[name])
            table[head] = row | self._offsets(place)
        for head, value in (
            zip(self.heads, variability(self.blocks), strict=True) if self.blocks else ()
        ):
            table[head]["variability"] = value
        return table

    def _offsets(self, place: int) -> dict[str, Value]:
        chances = self.starts.cumsum()[:-1]
        hits = self.hits[place]
        if not hits.any():
            return {}
        shares = np.divide(hits, chances, where=chances > 0, out=np.zeros(len(hits)))
        order = np.lexsort((np.arange(len(hits)), np.abs(np.arange(len(hits)) - REACH), -hits))
        best = int(order[0])
        found: dict[str, Value] = {"offset": best - REACH, "offset_share": float(shares[best])}
        for name, offset in (("previous", -1), ("itself", 0), ("next", 1)):
            if chances[REACH + offset]:  # no row of causal attention sees the next token
                found[name] = float(shares[REACH + offset])
        return found


def variability(blocks: list[Array]) -> list[float]:
    """Σ |A − Ā| / 2 Σ A over the maps A [N, R, K] of several sentences, for each of the N heads."""
    stack = np.stack(blocks).astype(np.float64)  # [sentences, N, R, K]
    spread = np.abs(stack - stack.mean(0)).sum((0, 2, 3))
    mass = stack.sum((0, 2, 3))
    return [float(s / (2 * m)) if m > 0 else 0.0 for s, m in zip(spread, mass, strict=True)]

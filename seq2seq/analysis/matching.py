"""Which head of one model is which of another: heads have no order, so they are matched by looks.

Two models read the same pieces; for every pair of heads of one layer the Jensen-Shannon divergence
of their rows is averaged, and the heads are paired so that the sum over all pairs is least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.similarity import js
from seq2seq.attention_maps import KINDS, Array, AttentionMaps
from seq2seq.errors import UserError


def assign(cost: Array) -> list[int]:
    """The column for each row so that no column is taken twice and the sum is least.

    The Hungarian method with potentials (Kuhn 1955, Munkres 1957): rows come in one by one, each by
    the shortest path of exchanges. O(rows² · columns).

    Args:
        cost: [rows, columns], with at least as many columns as rows.

    >>> assign(np.array([[1.0, 2.0], [1.0, 9.0]]))
    [1, 0]
    """
    rows, columns = cost.shape
    if rows > columns:
        raise ValueError(f"{rows} rows cannot have {columns} columns")
    of_row, of_column = np.zeros(rows), np.zeros(columns)  # potentials
    owner = np.full(columns, -1)  # the row that has a column
    for new in range(rows):
        shortest, before = np.full(columns, np.inf), np.full(columns, -1)
        done = np.zeros(columns, dtype=bool)
        row, column, length = new, -1, 0.0
        while True:
            way = length + cost[row] - of_row[row] - of_column
            closer = ~done & (way < shortest)
            shortest[closer], before[closer] = way[closer], column
            column = int(np.where(done, np.inf, shortest).argmin())
            length = float(shortest[column])
            done[column] = True
            if owner[column] < 0:
                break
            row = int(owner[column])
        of_row[new] += length
        reached = done & (owner >= 0)
        of_row[owner[reached]] += length - shortest[reached]
        of_column[done] -= length - shortest[done]
        while column >= 0:  # hand every column on the way to the row before it
            earlier = int(before[column])
            owner[column] = new if earlier < 0 else owner[earlier]
            column = earlier
    found = {int(row): column for column, row in enumerate(owner) if row >= 0}
    return [found[row] for row in range(rows)]


@dataclass(frozen=True)
class Matching:
    """The heads of one layer in two models, and how they go together.

    Attributes:
        first: heads of the model with no more heads.
        second: heads of the other.
        divergence: [first, second], mean Jensen-Shannon divergence in nats.
        partner: for each of `first`, its place in `second`.
    """

    first: Sequence[HeadId]
    second: Sequence[HeadId]
    divergence: Array
    partner: Sequence[int]

    @property
    def matched(self) -> list[float]:
        """Divergence of each pair."""
        return [float(self.divergence[i, j]) for i, j in enumerate(self.partner)]

    @property
    def by_number(self) -> list[float]:
        """Divergence of the heads of one number."""
        return [float(self.divergence[i, i]) for i in range(len(self.first))]


def match(pairs: Iterable[tuple[AttentionMaps, AttentionMaps]]) -> dict[Place, Matching]:
    """Match the heads of two models, layer by layer.

    Args:
        pairs: records of the same sentence pairs, by the one model and by the other; the first must
            have no more heads in any layer.

    Raises:
        UserError: the records have different pieces or layers, or the first has more heads.
    """
    sums: dict[Place, Array] = {}
    rows: dict[Place, int] = {}
    heads: Mapping[Place, tuple[list[HeadId], list[HeadId]]] = {}
    for a, b in pairs:
        if (a.src, a.tgt_in) != (b.src, b.tgt_in):
            raise UserError(
                "The two runs cut text into different pieces, so their maps cannot be laid on each "
                "other: train both with the same tokenizer options."
            )
        heads = _heads(a, b)
        for kind, layer in heads:
            counted = ~a.special[a.query_side(kind)]
            first, second = (maps.layer(kind, layer)[0][:, counted] for maps in (a, b))
            values = js(first[:, None].astype(np.float64), second[None].astype(np.float64))
            sums[kind, layer] = sums.get((kind, layer), 0) + values.sum(-1)  # [first, second]
            rows[kind, layer] = rows.get((kind, layer), 0) + int(counted.sum())
    found = {}
    for place, (first_heads, second_heads) in heads.items():
        mean = sums[place] / max(rows[place], 1)
        found[place] = Matching(first_heads, second_heads, mean, assign(mean))
    return found


def _heads(a: AttentionMaps, b: AttentionMaps) -> dict[Place, tuple[list[HeadId], list[HeadId]]]:
    if a.layer_ids != b.layer_ids:
        raise UserError("The two runs have different layers: match runs of the same depth.")
    found = {}
    for kind in KINDS:
        for place, layer in enumerate(a.layer_ids[kind]):
            first, second = (
                [HeadId(kind, layer, head) for head in maps.head_ids[kind][place]]
                for maps in (a, b)
            )
            if len(first) > len(second):
                raise UserError("Name the run with fewer heads first.")
            found[kind, layer] = (first, second)
    return found

"""How alike heads are: Jensen-Shannon divergence, and groups and maps made of it.

JS(P, Q) = ½ KL(P‖M) + ½ KL(Q‖M) with M = ½ (P + Q), in nats, from 0 (equal) to ln 2 (nothing in
common), after Clark et al. 2019. Each pair of heads of one kind is compared row by row on the same
sentences, and the rows of all sentences are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import KINDS, Array, AttentionError, AttentionMaps
from seq2seq.errors import UserError

MOST = float(np.log(2))  # nats: two heads that never look at the same key
ALIKE = 0.05  # nats: heads of one group differ on average by less
_TINY = 1e-300  # stands for 0 in the logarithm; 0 · ln of it is 0

COLUMNS = (
    Column("nearest", "head", "the head of the same kind whose maps are most alike"),
    Column("nearest_js", "nats", "their Jensen-Shannon divergence, 0 to 0.693", 3),
    Column("mean_js", "nats", "mean divergence from the other heads of the kind", 3),
    Column("group", "", f"heads with one number differ on average by less than {ALIKE} nats", 0),
)


def js(p: Array, q: Array) -> Array:
    """Jensen-Shannon divergence of rows, in nats: [..., keys] twice → [...].

    >>> round(float(js(np.array([1.0, 0.0]), np.array([0.0, 1.0]))), 4)
    0.6931
    """
    mixture = _entropy((p + q) / 2)
    return np.maximum(mixture - (_entropy(p) + _entropy(q)) / 2, 0.0)


def _entropy(p: Array) -> Array:
    return -(p * np.log(np.maximum(p, _TINY))).sum(-1)


@dataclass(frozen=True, eq=False)
class Distances:
    """Mean divergence of every pair of heads of one kind, `matrix` [N, N], symmetric."""

    heads: list[HeadId]
    matrix: Array

    def order(self) -> list[int]:
        """Places of the heads so that heads alike stand side by side (leaves of the tree)."""
        return leaves(linkage(self.matrix), len(self.heads))

    def to_csv(self, facts: Sequence[str] = ()) -> str:
        """The matrix as CSV, in nats: facts as lines of "# …", then a row for each head."""
        names = [str(head) for head in self.heads]
        lines = [f"# {fact}" for fact in facts] + [",".join(["JS [nats]", *names])]
        lines += [
            ",".join([name, *(f"{value:.9g}" for value in row)])
            for name, row in zip(names, self.matrix.tolist(), strict=True)
        ]
        return "\n".join([*lines, ""])

    def groups(self, below: float = ALIKE) -> dict[HeadId, int]:
        """Group numbers, from 0 in the order of heads; most heads are alone in theirs."""
        return dict(zip(self.heads, cut(linkage(self.matrix), len(self.heads), below), strict=True))


class Similarity:
    """Compares all heads of each kind over a stream of records; memory stays the same."""

    def __init__(self) -> None:
        self._sums: dict[str, Array] = {}
        self._rows: dict[str, int] = {}
        self._heads: dict[str, list[HeadId]] = {}

    def add(self, maps: AttentionMaps) -> None:
        """Count one sentence, without the rows of control tokens.

        Raises:
            AttentionError: its heads are not those of the sentences before.
        """
        for kind in KINDS:
            heads = [
                HeadId(kind, layer, head)
                for layer, ids in zip(maps.layer_ids[kind], maps.head_ids[kind], strict=True)
                for head in ids
            ]
            if not heads:  # not captured, or all of them removed
                continue
            if self._heads.setdefault(kind, heads) != heads:
                raise AttentionError(f"The records of {kind} are of different models.")
            rows = ~maps.special[maps.query_side(kind)]
            weights = np.concatenate([w[:, rows] for w in maps.layers(kind)])
            self._sums[kind] = self._sums.get(kind, 0) + _pairwise(weights.astype(np.float64))
            self._rows[kind] = self._rows.get(kind, 0) + weights.shape[1]

    def distances(self) -> dict[str, Distances]:
        """The mean over all rows, by kind."""
        return {
            kind: Distances(heads, self._sums[kind] / max(self._rows[kind], 1))
            for kind, heads in self._heads.items()
        }


def _pairwise(weights: Array) -> Array:
    """JS of all pairs of [N, R, K], summed over rows: [N, N]."""
    count = len(weights)
    entropies = _entropy(weights)  # [N, R]
    total = np.zeros((count, count))
    for first in range(count - 1):
        others = slice(first + 1, None)
        mixture = _entropy((weights[first] + weights[others]) / 2)
        values = mixture - (entropies[first] + entropies[others]) / 2
        total[first, others] = np.maximum(values, 0).sum(-1)
    return total + total.T


def table(distances: Mapping[str, Distances], below: float = ALIKE) -> HeadTable:
    """For each head the nearest other one, the mean divergence, and its group."""
    rows: dict[HeadId, dict[str, Value]] = {}
    for found in distances.values():
        groups = found.groups(below)
        for place, head in enumerate(found.heads):
            others = np.delete(np.arange(len(found.heads)), place)
            row: dict[str, Value] = {"group": groups[head]}
            if len(others):
                nearest = int(others[found.matrix[place, others].argmin()])
                row |= {
                    "nearest": str(found.heads[nearest]),
                    "nearest_js": float(found.matrix[place, nearest]),
                    "mean_js": float(found.matrix[place, others].mean()),
                }
            rows[head] = row
    return HeadTable(COLUMNS, rows)


class Merge(NamedTuple):
    """Two clusters that become one; clusters 0 … n-1 are single heads, n + i is of merge i."""

    left: int
    right: int
    distance: float


def linkage(matrix: Array) -> list[Merge]:
    """Average linkage: join the two clusters with the smallest mean distance, until one is left.

    Ties go to the clusters that come first, so that the same matrix always gives the same tree.
    """
    count = len(matrix)
    work = np.array(matrix, dtype=np.float64)
    np.fill_diagonal(work, np.inf)
    names, sizes = list(range(count)), [1] * count
    merges: list[Merge] = []
    for number in range(count - 1):
        left, right = sorted(divmod(int(work.argmin()), count))
        merges.append(Merge(names[left], names[right], float(work[left, right])))
        mean = sizes[left] * work[left] + sizes[right] * work[right]
        sizes[left] += sizes[right]
        names[left] = count + number
        work[left] = work[:, left] = mean / sizes[left]
        work[left, left] = np.inf
        work[right] = work[:, right] = np.inf
    return merges


def leaves(merges: Sequence[Merge], count: int) -> list[int]:
    """The places 0 … count-1 in the order in which the tree lists them."""

    def below(name: int) -> list[int]:
        if name < count:
            return [name]
        merge = merges[name - count]
        return below(merge.left) + below(merge.right)

    return below(count + len(merges) - 1) if count else []


def cut(merges: Sequence[Merge], count: int, below: float) -> list[int]:
    """Group numbers of the places when only merges below a distance are made."""
    group = list(range(count))
    members = {place: [place] for place in range(count)}
    for number, merge in enumerate(merges):
        joined = members[merge.left] + members[merge.right]
        members[count + number] = joined
        if merge.distance < below:
            for place in joined:
                group[place] = min(joined)
    names = {name: number for number, name in enumerate(sorted(set(group)))}
    return [names[name] for name in group]


class Plane(NamedTuple):
    """Heads as points: `points` [N, 2], and how much of the distances the plane shows, 0 to 1."""

    points: Array
    share: float


def mds(matrix: Array) -> Plane:
    """Classical multidimensional scaling: points whose distances come near those of a matrix.

    The two leading eigenvectors of -½ J D² J with J = I - 1/n, each with its largest entry
    positive. (Clark et al. 2019 used SMACOF, which starts at random; this gives the same points
    every time.)

    Args:
        matrix: [N, N] distances.

    Raises:
        UserError: not a symmetric matrix of finite numbers.
    """
    distances = np.asarray(matrix, dtype=np.float64)
    count = len(distances)
    if distances.shape != (count, count) or not np.isfinite(distances).all():
        raise UserError("Distances must be a square matrix of finite numbers.")
    if not np.allclose(distances, distances.T):
        raise UserError("Distances must be the same in both directions, but they are not.")
    centring = np.eye(count) - 1 / max(count, 1)
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    points = np.zeros((count, 2))
    for axis, place in enumerate(range(count - 1, max(count - 3, -1), -1)):
        vector = vectors[:, place]
        # The largest entry, the first of nearly equal ones, decides the sign.
        largest = np.flatnonzero(np.abs(vector) > np.abs(vector).max() - 1e-9)[0]
        points[:, axis] = vector * np.sign(vector[largest]) * np.sqrt(max(values[place], 0.0))
    total = np.abs(values).sum()
    return Plane(points, float(np.maximum(values[-2:], 0).sum() / total) if total > 0 else 1.0)

"""Rollout over many sentences: what a position holds after each layer, on average.

Only rows of words count. The target's and the source's part of a decoder position are looked at one
by one, each as a whole of 1, because how they share is fixed by the rule (see `rollout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seq2seq.analysis.head_id import Place
from seq2seq.analysis.rollout import decoder_rollout, rollout
from seq2seq.attention_maps import KINDS, Array, AttentionMaps

PARTS = {
    "enc": ("itself", "neighbours", "other words", "markers"),
    "dec": ("itself", "previous", "earlier words", "markers"),
    "cross": ("strongest word", "other words", "markers"),
}
"""Kind → what its shares are of. "Neighbours" are the tokens at both sides, "markers" <s>, </s>."""


class RolloutShares:
    """Adds up records as they come; memory stays the same."""

    def __init__(self) -> None:
        self._sums: dict[Place, Array] = {}
        self._rows: dict[Place, int] = {}

    def add(self, maps: AttentionMaps) -> None:
        """Count a sentence: a record of pieces with all its layers.

        Raises:
            UserError: a layer is missing.
        """
        decoder = decoder_rollout(maps)
        reached = {
            "enc": rollout(maps),
            "dec": [after.target for after in decoder],
            "cross": [after.source for after in decoder],
        }
        for kind in KINDS:
            words = ~maps.special[maps.query_side(kind)]
            markers = maps.special[maps.key_side(kind)]
            for layer, held in zip(maps.layer_ids[kind], reached[kind], strict=True):
                rows = held / np.maximum(held.sum(-1, keepdims=True), np.finfo(float).tiny)
                parts = _cross(rows, markers) if kind == "cross" else _own(rows, markers, kind)
                place = (kind, layer)
                self._sums[place] = self._sums.get(place, 0.0) + parts[words].sum(0)
                self._rows[place] = self._rows.get(place, 0) + int(words.sum())

    def shares(self) -> dict[Place, dict[str, float]]:
        """Kind and layer → part → its mean share; they sum to 1, or 0 where nothing arrived."""
        return {
            (kind, layer): dict(zip(PARTS[kind], (total / rows).tolist(), strict=True))
            for (kind, layer), total in sorted(self._sums.items(), key=_rank)
            if (rows := self._rows[kind, layer])
        }

    def to_csv(self, facts: Sequence[str] = ()) -> str:
        """The shares as CSV: facts as lines of "# …", then a line for each layer and part."""
        return "\n".join([*(f"# {fact}" for fact in facts), *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "kind,layer,part,share"
        for (kind, layer), parts in self.shares().items():
            for part, share in parts.items():
                yield f"{kind},{layer},{part},{share:.9g}"


def _rank(item: tuple[Place, Array]) -> tuple[int, int]:
    (kind, layer), _ = item
    return KINDS.index(kind), layer


def _own(rows: Array, markers: Array, kind: str) -> Array:
    """[positions, parts] of self-attention."""
    places = np.arange(len(rows))
    distance = places - places[:, None]  # key - query
    near = np.abs(distance) == 1 if kind == "enc" else distance == -1
    itself, words = distance == 0, ~markers
    groups = (
        itself & words,
        near & words,
        ~itself & ~near & words,
        np.broadcast_to(markers, rows.shape),
    )
    return np.stack([np.where(group, rows, 0).sum(-1) for group in groups], -1)


def _cross(rows: Array, markers: Array) -> Array:
    """[queries, parts] of what came from the source."""
    of_words = np.where(markers, 0, rows)
    strongest = of_words.max(-1)
    return np.stack([strongest, of_words.sum(-1) - strongest, rows[:, markers].sum(-1)], -1)

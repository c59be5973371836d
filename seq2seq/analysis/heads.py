"""What a head does in one sentence, in three numbers: how broad, which offset, how much on markers.

Rows are queries, columns are keys. Rows of control tokens are left out of the means (unless there
are no others), for their attention says little about words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from seq2seq.attention_maps import Array, AttentionMaps


@dataclass(frozen=True)
class HeadSummary:
    """One head in one sentence."""

    entropy: float  # mean over rows, in nats
    special: float  # mean attention mass on control tokens
    offset: int | None  # key - query of the most common row maximum; None for cross-attention
    offset_share: float  # rows whose maximum lies there / rows where that key may be seen


def entropy(weights: Array) -> Array:
    """Entropy of each row, -Σ a ln a in nats with 0 ln 0 = 0; [..., keys] → [...]."""
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return -(weights * logs).sum(-1)


def main_offset(weights: Array, rows: list[int], *, causal: bool) -> tuple[int, float]:
    """The most common key - query of the row maxima of [queries, keys], and its share.

    The share counts only rows that may see the key at that offset: a head that looks at the
    previous token has share 1, though row 0 has no previous one.
    """
    offsets = Counter(int(weights[i].argmax()) - i for i in rows)
    offset, count = min(offsets.items(), key=lambda item: (-item[1], abs(item[0]), item[0]))
    last = [i if causal else weights.shape[1] - 1 for i in rows]
    possible = sum(0 <= i + offset <= end for i, end in zip(rows, last, strict=True))
    return offset, count / possible


def summarise(maps: AttentionMaps, kind: str, layer: int) -> dict[int, HeadSummary]:
    """The summary of every head of a layer, by the head's number.

    Raises:
        AttentionError: the record holds no such layer.
    """
    weights, heads = maps.layer(kind, layer)
    control = maps.special[maps.query_side(kind)]
    rows = np.flatnonzero(~control).tolist() or list(range(len(control)))
    keys = maps.special[maps.key_side(kind)]
    summaries = {}
    for head, matrix in zip(heads, weights, strict=True):
        offset, share = None, 0.0
        if kind != "cross":
            offset, share = main_offset(matrix, rows, causal=kind == "dec")
        summaries[head] = HeadSummary(
            entropy=float(entropy(matrix[rows]).mean()),
            special=float(matrix[rows][:, keys].sum(-1).mean()),
            offset=offset,
            offset_share=share,
        )
    return summaries

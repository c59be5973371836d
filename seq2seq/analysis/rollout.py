"""Rollout: how much of each input token may have reached a position through all layers.

Abnar and Zuidema 2020: a layer replaces a position by a mixture, r of itself (the residual
connection) and 1 − r of what its heads attend to on average. Multiplied over the layers, the
mixtures are a distribution over input tokens. Values, W_O, norms and feed-forward layers are
ignored: rollout says what could flow, not what did.

NumPy only. Letters: S source positions, T target positions; r = 0.5 unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.attention_maps import KIND_NAMES, Array, AttentionMaps
from seq2seq.errors import UserError

RESIDUAL = 0.5


@dataclass(frozen=True)
class Reached:
    """What a decoder's positions hold after a layer; row t of both together sums to 1.

    Attributes:
        source: of each source token, [T, S].
        target: of each target token read, [T, T]; nothing of later ones.
    """

    source: Array
    target: Array


def rollout(maps: AttentionMaps, kind: str = "enc", residual: float = RESIDUAL) -> list[Array]:
    """How much of every input token may have reached every position, after each layer.

    Ã = (1 − r) · mean over heads of A + r · I, and R_l = Ã_l R_{l−1}. Rows sum to 1. In the decoder
    only its own attention is followed, not what comes in from the source: see `decoder_rollout`.

    Args:
        maps: a record with all layers of the kind.
        kind: "enc" or "dec".
        residual: r, the share of the residual connection.

    Returns:
        R_1 … R_L, each [positions, positions], rows = positions after layer l, columns = inputs.

    Raises:
        UserError: cross-attention, which has no position of its own to go on from; a layer is
            missing; or a residual outside 0 … 1.
    """
    if kind == "cross":
        raise UserError(
            "Rollout follows self-attention, enc or dec: for cross, take decoder_rollout."
        )
    reached = np.eye(_positions(maps, kind))
    found = []
    for weights in _all_layers(maps, kind, residual):
        reached = _mixed(weights, reached, reached, residual)
        found.append(reached)
    return found


def decoder_rollout(maps: AttentionMaps, residual: float = RESIDUAL) -> list[Reached]:
    """What reached the decoder's positions from both sides, after each of its layers.

    A position begins as the token read there: C_0 = 0 of the source, D_0 = I of the target. Each
    sub-layer mixes as in `rollout`. Self-attention: C ← Ã C, D ← Ã D. Cross-attention reads the
    encoder's last layer, which holds E = R_L of the source: C ← r C + (1 − r) X E, D ← r D, where X
    is the mean over heads of the cross-attention weights.

    Args:
        maps: a record with all layers of all three kinds.
        residual: r, the share of the residual connection.

    Raises:
        UserError: a layer is missing, or a residual outside 0 … 1.
    """
    encoded = rollout(maps, "enc", residual)
    memory = encoded[-1] if encoded else np.eye(_positions(maps, "enc"))
    target = np.eye(_positions(maps, "dec"))
    source = np.zeros((len(target), len(memory)))
    found = []
    own, cross = (_all_layers(maps, kind, residual) for kind in ("dec", "cross"))
    for self_weights, cross_weights in zip(own, cross, strict=True):
        source = _mixed(self_weights, source, source, residual)
        target = _mixed(self_weights, target, target, residual)
        if len(cross_weights):  # else all its heads are pruned, and only the residual is left
            source = _mixed(cross_weights, memory, source, residual)
            target = residual * target
        found.append(Reached(source, target))
    return found


def _mixed(weights: Array, read: Array, own: Array, residual: float) -> Array:
    """Share r of what a position holds itself, 1 − r of what its heads [H, queries, keys] read."""
    if not len(weights):  # all heads of the layer are pruned
        return own
    return residual * own + (1 - residual) * (weights.mean(0, dtype=np.float64) @ read)


def _positions(maps: AttentionMaps, kind: str) -> int:
    return len(maps.labels(maps.key_side(kind)))


def _all_layers(maps: AttentionMaps, kind: str, residual: float) -> Sequence[Array]:
    if not 0 <= residual <= 1:
        raise UserError(f"The residual share of rollout is {residual:g}, but must be 0 to 1.")
    layers, ids = maps.layers(kind), maps.layer_ids[kind]
    depth = maps.meta.get("depth", {}).get(kind, len(ids))
    if not layers or ids != list(range(depth)):
        raise UserError(
            f"Rollout needs all layers of {KIND_NAMES[kind]}; the record holds {ids or 'none'}."
        )
    return layers

"""What weights leave out, beside the weights: norms of what is added, and rollout (figure F15)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from matplotlib.figure import Figure

from seq2seq.analysis.quantities import NAMES, NORM, ROLLOUT, norm_record, rollout_record
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UserError
from viz.panels import Panel, layer_title, panels
from viz.sheet import heading, provenance
from viz.style import Look, change_scale, drawing, weight_scale
from viz.view import require_record, view

MAX_HEADS = 4
COLUMNS = 4  # layers side by side
SHARE = "norm share − α"
LEAST = 0.1  # of the colours' reach, so that what hardly differs looks so
MEANINGS = {
    "enc": "how much of each source token may have reached a position of the encoder",
    "dec": "how much of each target token read may be in a position of the decoder; "
    "the rest of a row came from the source",
    "cross": "how much of each source token may be in a position of the decoder; "
    "the rest of a row came from the target read so far",
}


def weight_vs_norm(
    maps: AttentionMaps,
    kind: str,
    layer: int,
    heads: Collection[int] | None = None,
    look: Look | None = None,
    *,
    words: bool = False,
) -> Figure:
    """F15: of each head α, ‖α f(x)‖, and where the norm gives a key more or less than the weight.

    The third map is the norm as a share of its row, minus α: purple where much weight adds little.
    Beside them stands the rollout up to this layer, which knows no single heads.

    Args:
        maps: the record, of pieces, with norms and with all layers.
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        heads: their numbers, at most `MAX_HEADS`; None: all of the layer.
        look: a reader's choices.
        words: whether to draw words instead of pieces.

    Raises:
        UserError: no norms; no such kind, layer or head; too many heads; no record.
    """
    require_record(maps)
    numbers = maps.select([kind], [layer], heads).layer(kind, layer)[1]
    if not 1 <= len(numbers) <= MAX_HEADS:
        raise UserError(
            f"Norms show 1 to {MAX_HEADS} heads at once, not {len(numbers)}: name some of them."
        )
    rolled = rollout_record(maps)
    if words:
        maps, rolled = to_words(maps), to_words(rolled)
    normed = norm_record(maps)
    alphas, norms = (
        np.array([one.head(kind, layer, number) for number in numbers]) for one in (maps, normed)
    )
    shares = norms / np.maximum(norms.sum(-1, keepdims=True), np.finfo(norms.dtype).tiny)
    with drawing():
        shared = view(maps, kind, [alphas], look or Look())
        sqrt = shared.scale.shape != "linear"
        lengths = weight_scale(sqrt, float(norms.max()) or 1.0, NAMES[NORM])
        change = change_scale(max(float(np.abs(shares - alphas).max()), LEAST), SHARE)
        rows = [
            [
                Panel(alpha, f"head {number}: α"),
                Panel(norm, f"head {number}: {NAMES[NORM]}", _sums(norm), lengths),
                Panel(share - alpha, f"head {number}: {SHARE}", _apart(share, alpha), change),
            ]
            for number, alpha, norm, share in zip(numbers, alphas, norms, shares, strict=True)
        ]
        reached = rolled.head(kind, layer, 0)
        rows[0].append(Panel(reached, f"rollout to layer {layer}", _kept(reached, kind)))
        title = f"{layer_title(maps, kind, layer)}: weights, norms and rollout"
        notes = ["norm: the length of what a key adds to the output (Kobayashi et al. 2020)"]
        return panels(shared, rows, title, provenance(maps), notes=notes)


def rollout(maps: AttentionMaps, kind: str, look: Look | None = None) -> Figure:
    """F15: what reached each position, layer by layer.

    Args:
        maps: of `seq2seq.analysis.quantities.rollout_record`, of pieces or made words.
        kind: "enc", "dec" or "cross"; the maps of the last two are parts of the same rows.
        look: a reader's choices.

    Raises:
        UserError: not a record of rollout, no such kind, or no layer of it.
    """
    require_record(maps)
    if maps.meta.get("quantity") != ROLLOUT:
        raise UserError("A picture of rollout needs a record of it: see rollout_record.")
    layers = [weights[0] for weights in maps.layers(kind)]
    names = [f"after layer {number}" for number in maps.layer_ids[kind]]
    if not layers:
        raise UserError(f"The record holds no {heading(kind)}, so there is nothing to draw.")
    drawn = [
        Panel(reached, name, _kept(reached, kind))
        for name, reached in zip(names, layers, strict=True)
    ]
    with drawing():
        shared = view(maps, kind, [np.array(layers)], look or Look())
        rows = [drawn[i : i + COLUMNS] for i in range(0, len(drawn), COLUMNS)]
        title = f"{heading(kind)}, rollout through {len(layers)} layers"
        return panels(shared, rows, title, provenance(maps), notes=[MEANINGS[kind]])


def _sums(norm: Array) -> str:
    sums = norm.sum(-1)
    return f"a row adds up to mean {sums.mean():.2f} max {sums.max():.2f}"


def _apart(share: Array, alpha: Array) -> str:
    apart = 0.5 * np.abs(share - alpha).sum(-1)
    return f"a row differs by mean {apart.mean():.2f} max {apart.max():.2f} of its mass"


def _kept(reached: Array, kind: str) -> str:
    if kind == "enc":
        return f"of itself: mean {np.diagonal(reached).mean():.2f}"
    side = "source" if kind == "cross" else "target"
    return f"of the {side}: {reached.sum(-1).mean():.2f}"  # equal in every row: 1 − r^l, or r^l

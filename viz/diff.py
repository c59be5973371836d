"""Two sentences, or one in two models: A, B, and B − A of some heads (figure F14)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from seq2seq.analysis.compare import moved, overlay
from seq2seq.analysis.quantities import WEIGHT, quantity
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UnfitError, UserError
from viz.labels import PAIRED_COLUMNS, Label, clip
from viz.panels import Panel, layer_title, panels
from viz.sheet import provenance
from viz.style import Look, Scale, change_scale, drawing
from viz.view import View, require_record, view

MAX_HEADS = 4
NUMBERS_UP_TO = 12  # tokens, and only for a single head
CHANGE = "B − A"
LEAST = 0.1  # of the colours' reach, so that what hardly differs looks so


def diff(
    a: AttentionMaps,
    b: AttentionMaps,
    kind: str,
    layer: int,
    heads: Collection[int] | None = None,
    look: Look | None = None,
) -> Figure:
    """F14: for each head A, B, and B − A, purple where B looks less and orange where it looks more.

    Where tokens differ, both are named. See `seq2seq.analysis.compare.overlay` for what can be
    compared.

    Args:
        a: one record.
        b: the other.
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        heads: their numbers, at most `MAX_HEADS`; None: all of the layer.
        look: a reader's choices.

    Raises:
        UserError: no such kind, layer or head in A; too many heads; no record.
        UnfitError: B has no such layer or head, or they cannot be laid over each other.
    """
    require_record(a)
    require_record(b)
    a, b = overlay(a, b, kind)
    ours, numbers = a.select([kind], [layer], heads).layer(kind, layer)
    theirs = _same_heads(b, kind, layer, numbers)
    if not 1 <= len(numbers) <= MAX_HEADS:
        raise UserError(
            f"Differences show 1 to {MAX_HEADS} heads at once, not {len(numbers)}: name some."
        )
    with drawing():
        shared = _both(a, b, kind, [ours, theirs], look or Look())
        most = max(float(np.abs(theirs - ours).max()), LEAST * shared.scale.top)
        change = change_scale(most, CHANGE)
        rows = [
            _row(change, number, one, other, weights=quantity(a) == WEIGHT)
            for number, one, other in zip(numbers, ours, theirs, strict=True)
        ]
        few = len(numbers) == 1 and max(ours.shape[1:]) <= NUMBERS_UP_TO
        title = f"{layer_title(a, kind, layer)}: A, B, and B − A"
        return panels(shared, rows, title, _origins(a, b), notes=_sentences(a, b), numbers=few)


def _same_heads(maps: AttentionMaps, kind: str, layer: int, numbers: list[int]) -> Array:
    """The same heads of B, in the same order.

    Raises:
        UnfitError: B lacks the layer or one of them.
    """
    try:
        return np.array([maps.head(kind, layer, number) for number in numbers])
    except UserError as error:
        raise UnfitError(f"B cannot be set beside A: {error}") from None


def _row(change: Scale, number: int, ours: Array, theirs: Array, *, weights: bool) -> list[Panel]:
    apart = np.abs(theirs - ours)
    facts = f"largest {apart.max():.2f}"
    if weights:  # a row is a distribution
        apart = moved(ours, theirs)
        facts = f"a row moves mean {apart.mean():.2f} max {apart.max():.2f} of its mass"
    return [
        Panel(ours, f"head {number}: A"),
        Panel(theirs, f"head {number}: B"),
        Panel(theirs - ours, f"head {number}: {CHANGE}", facts, change),
    ]


def _both(a: AttentionMaps, b: AttentionMaps, kind: str, weights: list[Array], look: Look) -> View:
    """A view of both: tokens that differ are both named."""
    sides = (a.query_side(kind), a.key_side(kind), "tgt_in", "tgt_out")
    texts = [[*one.text.values(), *(t for s in sides for t in one.labels(s))] for one in (a, b)]
    texts = [[*text, *provenance(one)] for text, one in zip(texts, (a, b), strict=True)]
    ours, theirs = view(a, kind, weights, look, texts[1]), view(b, kind, weights, look, texts[0])
    return replace(
        ours,
        rows=list(map(_named, ours.rows, theirs.rows)),
        columns=list(map(_named, ours.columns, theirs.columns)),
    )


def _named(one: Label, other: Label) -> Label:
    if one.full == other.full:
        return one
    shown = [clip(label.shown, PAIRED_COLUMNS) for label in (one, other)]
    full = f"{one.full} | {other.full}"
    return Label(full, " | ".join(shown), one.special and other.special)


def _sentences(a: AttentionMaps, b: AttentionMaps) -> list[str]:
    """What A and B are, where they are not the same pair of sentences."""
    texts = [f"{maps.text.get('source', '')} → {maps.text.get('target', '')}" for maps in (a, b)]
    if texts[0] == texts[1]:
        return texts[:1]
    return [f"{name}: {text}" for name, text in zip("AB", texts, strict=True)]


def _origins(a: AttentionMaps, b: AttentionMaps) -> list[str]:
    """Where the weights come from, once where both come from the same model."""
    ours, theirs = provenance(a), provenance(b)
    if ours == theirs:
        return ours
    return [f"{name}: {line}" for name, lines in (("A", ours), ("B", theirs)) for line in lines]

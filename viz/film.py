"""Film strips (F13): the maps of one head, or of all heads of a layer, while the model learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UserError
from viz.evolution import count
from viz.grid import TILE_GAP, in_rows, sentences, tile
from viz.heatmap import paint
from viz.labels import extent
from viz.panels import Panel, layer_title, panels, sheet_of
from viz.sheet import BAR_SPACE, MAX_BAR, MIN_BAR, Line, provenance
from viz.style import TEXT_PT, Look, drawing
from viz.view import view

FRAMES = 8  # of a strip, at most


def film(
    records: Sequence[AttentionMaps],
    kind: str,
    layer: int,
    head: int | None = None,
    look: Look | None = None,
    *,
    most: int = FRAMES,
) -> Figure:
    """F13: one sentence after ever more updates; a large map for a head, small ones for a layer.

    Of many records the first, the last and those between are drawn that divide the way which the
    maps go from the first to the last into about equal parts.

    Args:
        records: of one sentence, in order of updates ("step" in their meta).
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        head: the head's number; None: all heads of the layer.
        look: a reader's choices.
        most: maps side by side.

    Raises:
        UserError: fewer than two records, records of other tokens, no such kind, layer or head.
    """
    if len(records) < 2:
        raise UserError("A film strip needs two updates at least, and there is only one.")
    if any((one.src, one.tgt_out) != (records[0].src, records[0].tgt_out) for one in records):
        raise UserError("A film strip needs one sentence with the same tokens at every update.")
    heads = records[0].layer(kind, layer)[1] if head is None else [head]
    frames = [np.stack([one.head(kind, layer, h) for h in heads]) for one in records]  # [H, Q, K]
    chosen = milestones(frames, most)
    updates = [records[i].meta.get("step", 0) for i in chosen]
    own = ("step", "weights_hash")  # of one update only
    meta = {name: fact for name, fact in records[-1].meta.items() if name not in own}
    maps = replace(records[-1], meta=meta)
    frames = [frames[i] for i in chosen]
    title = f"{layer_title(maps, kind, layer)}, while learning"
    with drawing():
        shared = view(maps, kind, frames, look or Look())
        if head is not None:
            drawn = [Panel(f[0], after(u)) for f, u in zip(frames, updates, strict=True)]
            title = title.replace(", while", f", head {head}, while")
            return panels(shared, in_rows(drawn), title, provenance(maps))
        names = [f"head {h}" for h in heads]
        width, height = tile(shared)
        left = extent(names, TEXT_PT, shared.families) + 0.1
        width = max(width, extent([count(u) for u in updates], TEXT_PT, shared.families))
        top = 2 * Line("", TEXT_PT).height
        across = left + len(frames) * (width + TILE_GAP)
        down = len(heads) * (height + TILE_GAP) - TILE_GAP
        bar = min(max(down, MIN_BAR), MAX_BAR)
        body = (across + BAR_SPACE, top + max(down, bar))
        page = sheet_of(shared, body, title, provenance(maps), sentences(maps))
        page.text(left, 0, Line("updates", TEXT_PT))
        for column, (frame, update) in enumerate(zip(frames, updates, strict=True)):
            x = left + column * (width + TILE_GAP)
            page.text(x + width / 2, top / 2, Line(count(update), TEXT_PT), align="center")
            for row, (name, weights) in enumerate(zip(names, frame, strict=True)):
                y = top + row * (height + TILE_GAP)
                if column == 0:
                    page.text(0, y + height / 2 - TEXT_PT / 144, Line(name, TEXT_PT))
                axes = page.axes(x, y, width, height)
                axes.set_label(f"{name} update {update}")
                paint(axes, weights, shared, thumbnail=True)
        page.colour_bar(across + 0.1, top, bar, shared.scale)
        return page.figure


def after(update: int) -> str:
    """When a map is from, in words."""
    if not update:
        return "before training"
    return f"after {update} update{'' if update == 1 else 's'}"


def milestones(frames: Sequence[Array], most: int) -> list[int]:
    """Places of the first, the last, and those between that divide the change into equal parts.

    The change from one frame to the next is Σ |difference|; so a strip does not spend its frames
    on the many snapshots of a time when nothing moved.
    """
    last = len(frames) - 1
    if last < most:
        return list(range(last + 1))
    steps = [float(np.abs(b - a).sum()) for a, b in pairwise(frames)]
    way = np.concatenate([[0.0], np.cumsum(steps)])
    if way[-1] == 0:
        way = np.arange(last + 1.0)
    chosen = [0]
    for part in range(1, most - 1):
        nearest = int(np.abs(way - way[-1] * part / (most - 1)).argmin())
        # Frames stay apart, and enough are left for the parts that follow.
        chosen.append(min(max(nearest, chosen[-1] + 1), last - (most - 1 - part)))
    return [*chosen, last]

"""Pictures of several maps: all heads of a layer (F1), one head (F3), all of a kind (F2)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from seq2seq.analysis.heads import HeadSummary
from seq2seq.attention_maps import KIND_NAMES, Array, AttentionMaps
from seq2seq.errors import UserError
from viz.heatmap import paint
from viz.labels import extent
from viz.panels import Panel, count, layer_title, panels, sheet_of
from viz.sheet import BAR_SPACE, MAX_BAR, MIN_BAR, Line, heading, provenance
from viz.style import GREY, TEXT_PT, Look, drawing
from viz.view import View, require_record, view

COLUMNS = 4  # heads side by side
NUMBERS_UP_TO = 12  # tokens; cells of larger maps are too small for digits
TILE, TILE_GAP = 0.95, 0.12  # inches of a thumbnail

Summaries = Mapping[int, HeadSummary]


def layer(
    maps: AttentionMaps,
    kind: str,
    layer: int,
    look: Look | None = None,
    summaries: Summaries | None = None,
) -> Figure:
    """F1: all heads of one layer that the record holds, four to a row, on one colour scale.

    Args:
        maps: the record.
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        look: a reader's choices.
        summaries: numbers to print under each head (seq2seq.analysis.heads.summarise).

    Raises:
        UserError: no such kind or layer, or one without heads; no record.
    """
    require_record(maps)
    weights, heads = _heads_of(maps, kind, layer)
    drawn = [
        Panel(matrix, f"head {number}", _facts(number, summaries))
        for number, matrix in zip(heads, weights, strict=True)
    ]
    title = f"{layer_title(maps, kind, layer)}, {count(len(heads), 'head')}"
    with drawing():
        shared = view(maps, kind, [weights], look or Look())
        return panels(shared, in_rows(drawn), title, provenance(maps))


def head(
    maps: AttentionMaps,
    kind: str,
    layer: int,
    head: int,
    look: Look | None = None,
    summaries: Summaries | None = None,
) -> Figure:
    """F3: one head, with the weights written into the cells of short sentences.

    Args:
        maps: the record.
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        head: the head's number in the model.
        look: a reader's choices.
        summaries: numbers to print under the head.

    Raises:
        UserError: no such kind, layer or head; no record.
    """
    require_record(maps)
    weights = maps.head(kind, layer, head)
    title = f"{layer_title(maps, kind, layer)}, head {head}"
    panel = Panel(weights, facts=_facts(head, summaries))
    with drawing():
        shared = view(maps, kind, [weights[None]], look or Look())
        few = max(weights.shape) <= NUMBERS_UP_TO
        return panels(shared, [[panel]], title, provenance(maps), numbers=few)


def average(maps: AttentionMaps, kind: str, layer: int, look: Look | None = None) -> Figure:
    """F4: the mean over the heads of a layer, and beside it how much they disagree.

    Args:
        maps: the record.
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        look: a reader's choices.

    Raises:
        UserError: no such kind or layer, or one without heads; no record.
    """
    require_record(maps)
    weights, heads = _heads_of(maps, kind, layer)
    drawn = [
        Panel(weights.mean(0), "mean", "hides what single heads do"),
        Panel(weights.std(0), "standard deviation", "where the heads disagree"),
    ]
    title = f"{layer_title(maps, kind, layer)}, mean of {count(len(heads), 'head')}"
    with drawing():
        shared = view(maps, kind, [weights], look or Look())
        return panels(shared, in_rows(drawn), title, provenance(maps))


def overview(maps: AttentionMaps, kind: str, look: Look | None = None) -> Figure:
    """F2: thumbnails of every head of every layer of one kind, rows = layers, columns = heads.

    A head that the model no longer has leaves its place empty, so that numbers stay in line.

    Args:
        maps: the record.
        kind: "enc", "dec" or "cross".
        look: a reader's choices.

    Raises:
        UserError: no such kind, or the record holds none of its layers; no record.
    """
    require_record(maps)
    layers, heads = maps.layers(kind), sorted({h for ids in maps.head_ids[kind] for h in ids})
    if not heads:
        raise UserError(f"The record holds no {KIND_NAMES[kind]}, so there is nothing to draw.")
    held = sum(map(len, maps.head_ids[kind]))
    is_full = held == len(layers) * len(heads)
    times = f"× {count(len(heads), 'head')}" if is_full else f"with {count(held, 'head')}"
    title = f"{heading(kind)}, {count(len(layers), 'layer')} {times}"
    with drawing():
        shared = view(maps, kind, layers, look or Look())
        width, height = tile(shared)
        left = extent([f"layer {i}" for i in maps.layer_ids[kind]], TEXT_PT, shared.families) + 0.1
        top = Line("", TEXT_PT).height
        across = left + len(heads) * (width + TILE_GAP)
        down = len(layers) * (height + TILE_GAP) - TILE_GAP
        bar = min(max(down, MIN_BAR), MAX_BAR)
        body = (across + BAR_SPACE, top + max(down, bar))
        sheet = sheet_of(shared, body, title, provenance(maps), sentences(maps))
        for column, number in enumerate(heads):
            x = left + column * (width + TILE_GAP) + width / 2
            sheet.text(x, 0, Line(f"head {number}", TEXT_PT), align="center")
        for row, (index, weights) in enumerate(zip(maps.layer_ids[kind], layers, strict=True)):
            y = top + row * (height + TILE_GAP)
            sheet.text(0, y + height / 2 - TEXT_PT / 144, Line(f"layer {index}", TEXT_PT))
            here = maps.head_ids[kind][row]
            for number in set(heads) - set(here):
                x = left + heads.index(number) * (width + TILE_GAP) + width / 2
                sheet.text(x, y + height / 2 - TEXT_PT / 144, Line("–", TEXT_PT, GREY), "center")
            for number, matrix in zip(here, weights, strict=True):
                x = left + heads.index(number) * (width + TILE_GAP)
                axes = sheet.axes(x, y, width, height)
                axes.set_label(f"layer {index} head {number}")
                paint(axes, matrix, shared, thumbnail=True)
        sheet.colour_bar(across + 0.1, top, bar, shared.scale)
        return sheet.figure


def _heads_of(maps: AttentionMaps, kind: str, layer: int) -> tuple[Array, list[int]]:
    weights, heads = maps.layer(kind, layer)
    if not heads:
        raise UserError(f"{heading(kind)} layer {layer} has no head here: nothing to draw.")
    return weights, heads


def in_rows(drawn: list[Panel]) -> list[list[Panel]]:
    """At most COLUMNS to a row, as evenly as can be."""
    across = math.ceil(len(drawn) / math.ceil(len(drawn) / COLUMNS))
    return [drawn[i : i + across] for i in range(0, len(drawn), across)]


def tile(shared: View) -> tuple[float, float]:
    """Inches of a thumbnail: its longer side is TILE, the other keeps cells square if it can."""
    width, height = shared.size
    longer = max(width, height)
    return max(TILE * width / longer, TILE / 2), max(TILE * height / longer, TILE / 2)


def sentences(maps: AttentionMaps) -> list[str]:
    """The record's text, a line a side."""
    names = (("source", maps.text.get("source")), ("target", maps.text.get("target")))
    return [f"{name}: {text}" for name, text in names if text]


def _facts(head: int, summaries: Summaries | None) -> str:
    """A head's numbers in words."""
    if summaries is None or head not in summaries:
        return ""
    summary = summaries[head]
    facts = [f"entropy {summary.entropy:.2f}"]
    if summary.offset is not None:
        names = {-1: "previous", 0: "itself", 1: "next"}
        offset = names.get(summary.offset, f"offset {summary.offset:+d}".replace("-", "−"))
        facts.append(f"{offset} {summary.offset_share:.0%}")
    facts.append(f"special {summary.special:.0%}")
    return " · ".join(facts)

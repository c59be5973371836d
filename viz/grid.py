"""Pictures of several maps: all heads of a layer (F1), one head (F3), all of a kind (F2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from seq2seq.analysis.heads import HeadSummary
from seq2seq.attention_maps import KIND_NAMES, Array, AttentionMaps
from seq2seq.errors import UserError
from viz.heatmap import label_columns, label_rows, paint
from viz.labels import extent
from viz.sheet import BAR_SPACE, MAX_BAR, MIN_BAR, Line, Sheet, provenance
from viz.style import GREY, SMALL_PT, TEXT_PT, Look, drawing
from viz.view import View, require_record, view

COLUMNS = 4  # heads side by side
NUMBERS_UP_TO = 12  # tokens; cells of larger maps are too small for digits
GAP = 0.22  # inches between maps
LABEL_PAD = 0.1  # inches between a label and the maps or the edge
TILE, TILE_GAP = 0.95, 0.12  # inches of a thumbnail

Summaries = Mapping[int, HeadSummary]


@dataclass(frozen=True)
class Panel:
    """One map of a picture, [queries, keys], and the lines under it."""

    weights: Array
    name: str = ""
    facts: str = ""


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
    panels = [
        Panel(matrix, f"head {number}", _facts(number, summaries))
        for number, matrix in zip(heads, weights, strict=True)
    ]
    title = f"{layer_title(maps, kind, layer)}, {_count(len(heads), 'head')}"
    with drawing():
        return panels_sheet(maps, view(maps, kind, [weights], look or Look()), panels, title)


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
        return panels_sheet(maps, shared, [panel], title, max(weights.shape) <= NUMBERS_UP_TO)


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
    panels = [
        Panel(weights.mean(0), "mean", "hides what single heads do"),
        Panel(weights.std(0), "standard deviation", "where the heads disagree"),
    ]
    title = f"{layer_title(maps, kind, layer)}, mean of {_count(len(heads), 'head')}"
    with drawing():
        return panels_sheet(maps, view(maps, kind, [weights], look or Look()), panels, title)


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
    times = f"× {_count(len(heads), 'head')}" if is_full else f"with {_count(held, 'head')}"
    title = f"{_heading(kind)}, {_count(len(layers), 'layer')} {times}"
    with drawing():
        shared = view(maps, kind, layers, look or Look())
        width, height = tile(shared)
        left = extent([f"layer {i}" for i in maps.layer_ids[kind]], TEXT_PT, shared.families) + 0.1
        top = Line("", TEXT_PT).height
        across = left + len(heads) * (width + TILE_GAP)
        down = len(layers) * (height + TILE_GAP) - TILE_GAP
        bar = min(max(down, MIN_BAR), MAX_BAR)
        body = (across + BAR_SPACE, top + max(down, bar))
        sheet = sheet_of(maps, shared, body, title, sentences(maps))
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
        sheet.colour_bar(across + 0.1, top, bar, sqrt=shared.sqrt)
        return sheet.figure


def _heads_of(maps: AttentionMaps, kind: str, layer: int) -> tuple[Array, list[int]]:
    weights, heads = maps.layer(kind, layer)
    if not heads:
        raise UserError(f"{_heading(kind)} layer {layer} has no head here: nothing to draw.")
    return weights, heads


def panels_sheet(
    maps: AttentionMaps, shared: View, panels: list[Panel], title: str, numbers: bool = False
) -> Figure:
    """Maps with token labels at the outer edges, up to four to a row."""
    left, top = _margins(shared)
    width, height = shared.size
    names, facts = [panel.name for panel in panels], [panel.facts for panel in panels]
    widest = max(width, extent([*names, *facts], TEXT_PT, shared.families))
    name_height = any(names) * Line("", TEXT_PT).height
    caption = 0.06 + name_height + any(facts) * Line("", SMALL_PT).height
    rows = math.ceil(len(panels) / COLUMNS)
    across = math.ceil(len(panels) / rows)
    step_x, step_y = widest + GAP, height + caption + GAP
    bar = min(max(height, MIN_BAR), MAX_BAR)
    body = (left + across * step_x - GAP + BAR_SPACE, top + max(rows * step_y - GAP, bar))
    sheet = sheet_of(maps, shared, body, title)
    for place, panel in enumerate(panels):
        row, column = divmod(place, across)
        x, y = left + column * step_x, top + row * step_y
        axes = sheet.axes(x, y, width, height)
        axes.set_label(panel.name or title)
        paint(axes, panel.weights, shared, numbers=numbers)
        if column == 0:
            label_rows(axes, shared)
        if row == 0:
            label_columns(axes, shared)
        below = y + height + 0.06
        if panel.name:
            sheet.text(x, below, Line(panel.name, TEXT_PT, bold=True))
        sheet.text(x, below + name_height, Line(panel.facts, SMALL_PT, GREY))
    sheet.colour_bar(body[0] - BAR_SPACE + 0.25, top, bar, sqrt=shared.sqrt)
    return sheet.figure


def sheet_of(
    maps: AttentionMaps,
    shared: View,
    body: tuple[float, float],
    title: str,
    notes: Sequence[str] = (),
) -> Sheet:
    """A sheet around maps of one view, with the record's provenance at the bottom."""
    return Sheet(
        body,
        title,
        notes=[shared.note(), *notes],
        footer=provenance(maps),
        families=shared.families,
        missing=shared.missing,
        dpi=shared.dpi,
    )


def tile(shared: View) -> tuple[float, float]:
    """Inches of a thumbnail: its longer side is TILE, the other keeps cells square if it can."""
    width, height = shared.size
    longer = max(width, height)
    return max(TILE * width / longer, TILE / 2), max(TILE * height / longer, TILE / 2)


def _margins(shared: View) -> tuple[float, float]:
    """Inches that row labels take to the left, and column labels above."""
    rows = extent([label.shown for label in shared.rows], shared.font, shared.families)
    columns = extent([label.shown for label in shared.columns], shared.font, shared.families)
    return rows + LABEL_PAD, columns + LABEL_PAD


def _heading(kind: str) -> str:
    return KIND_NAMES[kind].capitalize()


def layer_title(maps: AttentionMaps, kind: str, layer: int) -> str:
    """The kind and the layer as a title."""
    depth = maps.meta.get("depth", {}).get(kind, len(maps.layer_ids[kind]))
    return f"{_heading(kind)}, layer {layer} of {depth}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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

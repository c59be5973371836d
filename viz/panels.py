"""Maps side by side on one sheet: labels at the outer edges, captions below, colour bars right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from seq2seq.attention_maps import Array, AttentionMaps
from viz.heatmap import label_columns, label_rows, paint
from viz.labels import extent
from viz.sheet import BAR_SPACE, MAX_BAR, MIN_BAR, Line, Sheet, heading
from viz.style import GREY, SMALL_PT, TEXT_PT, Scale
from viz.view import View

GAP = 0.22  # inches between maps
LABEL_PAD = 0.1  # inches between a label and the maps or the edge
BAR_LEFT, BAR_GAP = 0.25, 0.3  # inches left of the colour bars, and between them


@dataclass(frozen=True)
class Panel:
    """One map of a picture, [queries, keys], the lines under it, and its colours if its own."""

    weights: Array
    name: str = ""
    facts: str = ""
    scale: Scale | None = None


def panels(
    shared: View,
    rows: Sequence[Sequence[Panel]],
    title: str,
    footer: Sequence[str],
    *,
    notes: Sequence[str] = (),
    numbers: bool = False,
) -> Figure:
    """The picture of some maps with the same queries and keys; call it inside `drawing()`.

    Args:
        shared: what the maps share.
        rows: the maps, row by row.
        title: the first line.
        footer: small print: where the weights come from.
        notes: lines under it, after the one on axes and colours.
        numbers: whether to write the numbers into the cells.
    """
    left, top = margins(shared)
    width, height = shared.size
    every = [panel for row in rows for panel in row]
    names, facts = [panel.name for panel in every], [panel.facts for panel in every]
    widest = max(
        width,
        extent(names, TEXT_PT, shared.families, bold=True),
        extent(facts, SMALL_PT, shared.families),
    )
    name_height = any(names) * Line("", TEXT_PT).height
    caption = 0.06 + name_height + any(facts) * Line("", SMALL_PT).height
    step_x, step_y = widest + GAP, height + caption + GAP
    scales = list(dict.fromkeys(panel.scale or shared.scale for panel in every))
    right = max(BAR_SPACE, BAR_LEFT + extent([s.name for s in scales], SMALL_PT, shared.families))
    down = len(rows) * step_y - GAP
    bar = min(max(height, MIN_BAR), MAX_BAR, (down + BAR_GAP) / len(scales) - BAR_GAP)
    bar = max(bar, MIN_BAR)
    body = (
        left + max(map(len, rows)) * step_x - GAP + right,
        top + max(down, len(scales) * (bar + BAR_GAP) - BAR_GAP),
    )
    sheet = sheet_of(shared, body, title, footer, notes)
    for place, row in enumerate(rows):
        for column, panel in enumerate(row):
            x, y = left + column * step_x, top + place * step_y
            axes = sheet.axes(x, y, width, height)
            axes.set_label(panel.name or title)
            paint(axes, panel.weights, shared, panel.scale, numbers=numbers)
            if column == 0:
                label_rows(axes, shared)
            if place == 0:
                label_columns(axes, shared)
            below = y + height + 0.06
            if panel.name:
                sheet.text(x, below, Line(panel.name, TEXT_PT, bold=True))
            sheet.text(x, below + name_height, Line(panel.facts, SMALL_PT, GREY))
    for place, scale in enumerate(scales):
        x, y = body[0] - right + BAR_LEFT, top + place * (bar + BAR_GAP)
        sheet.colour_bar(x, y, bar, scale)
    return sheet.figure


def sheet_of(
    shared: View,
    body: tuple[float, float],
    title: str,
    footer: Sequence[str],
    notes: Sequence[str] = (),
) -> Sheet:
    """A sheet for maps: its first note says what axes and colours are."""
    return Sheet(
        body,
        title,
        notes=[shared.note(), *notes],
        footer=footer,
        families=shared.families,
        missing=shared.missing,
        dpi=shared.dpi,
    )


def margins(shared: View) -> tuple[float, float]:
    """Inches that row labels take to the left, and column labels above."""
    rows = extent([label.shown for label in shared.rows], shared.font, shared.families)
    columns = extent([label.shown for label in shared.columns], shared.font, shared.families)
    return rows + LABEL_PAD, columns + LABEL_PAD


def layer_title(maps: AttentionMaps, kind: str, layer: int) -> str:
    """Such as "Cross-attention, layer 2 of 3"."""
    depth = maps.meta.get("depth", {}).get(kind, len(maps.layer_ids[kind]))
    return f"{heading(kind)}, layer {layer} of {depth}"


def count(number: int, what: str) -> str:
    """Such as "1 head" or "4 heads"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

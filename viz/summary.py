"""Pictures of numbers of heads: by layer (F8), and as grids of layers and heads (F9).

The numbers come in tables (seq2seq.analysis.tables); nothing is computed here but positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import KINDS, Array
from seq2seq.errors import UserError
from viz.heatmap import luminance
from viz.labels import extent, fonts
from viz.sheet import Line, Sheet, heading
from viz.style import FAINT, GREY, INK, SMALL_PT, TEXT_PT, drawing

DPI = 150
BY_LAYER = ("entropy", "confidence", "distance")
PANEL = (2.3, 1.35)  # inches of one plot of F8
LEFT, GAP = 0.62, 0.3  # inches for tick labels, and between panels
CELL_HEIGHT = 0.27  # inches of a row of F9
WIDEST = 9.5  # inches; more panels go below
ACCENT = "#0072b2"  # Okabe and Ito's blue: told from grey with any colour vision


def kinds_of(heads: Sequence[HeadId]) -> list[str]:
    """The kinds that occur, in the usual order."""
    present = {head.kind for head in heads}
    return [kind for kind in KINDS if kind in present]


def sheet(
    body: tuple[float, float], title: str, notes: Sequence[str], facts: Sequence[str]
) -> Sheet:
    """A sheet whose fonts have all characters of its text."""
    families, missing = fonts([title, *notes, *facts])
    return Sheet(body, title, notes, facts, families, missing, DPI)


def layers(table: HeadTable, names: Sequence[str] = BY_LAYER) -> Figure:
    """F8: some statistics by layer; a dot is a head, the line their mean.

    In the plots of entropy, a dashed line shows what a uniform head would have.

    Args:
        table: of seq2seq.analysis.statistics.
        names: the columns to draw, a row of plots each.

    Raises:
        UserError: an unknown column, or no heads.
    """
    kinds = kinds_of(table.heads)
    if not kinds:
        raise UserError("The table has no heads, so there is nothing to draw.")
    width, height = PANEL
    step_x, step_y = width + LEFT, height + GAP
    body = (len(kinds) * step_x, 0.24 + len(names) * step_y + 0.08)
    notes = ["a dot is a head, the line the mean of a layer's heads"]
    if "entropy" in names:
        notes[0] += " · dashed: a head that looks at everything alike"
    with drawing():
        page = sheet(body, "What heads look at, by layer", notes, table.facts)
        for column, kind in enumerate(kinds):
            left = LEFT + column * step_x
            page.text(left, 0, Line(heading(kind), TEXT_PT, bold=True))
            last = max(row for row, name in enumerate(names) if _of_kind(table, name, kind))
            for row, name in enumerate(names):
                values = _of_kind(table, name, kind)
                if not values:
                    continue
                axes = page.axes(left, 0.24 + row * step_y, width, height)
                axes.set_label(f"{kind} {name}")
                _plot_layers(axes, values)
                if name == "entropy":
                    _dash(axes, _of_kind(table, "uniform_entropy", kind))
                top = max(table.values(name).values(), default=1.0)
                if name == "entropy":
                    top = max([top, *table.values("uniform_entropy").values()])
                axes.set_ylim(0, 1.08 * top if top > 0 else 1)
                if column == 0:
                    axes.set_ylabel(table.column(name).title, size=TEXT_PT, color=INK)
                if row == last:
                    axes.set_xlabel("layer", size=TEXT_PT, color=INK, labelpad=2)
        return page.figure


def _of_kind(table: HeadTable, name: str, kind: str) -> dict[HeadId, float]:
    return {head: value for head, value in table.values(name).items() if head.kind == kind}


def _plot_layers(axes: Axes, values: Mapping[HeadId, float]) -> None:
    numbers = sorted({head.layer for head in values})
    for layer in numbers:
        column = [value for head, value in values.items() if head.layer == layer]
        spread = np.linspace(-0.12, 0.12, len(column)) if len(column) > 1 else np.zeros(1)
        axes.plot(layer + spread, column, "o", color=ACCENT, ms=3.5, mew=0, alpha=0.75, zorder=3)
    means = [np.mean([v for h, v in values.items() if h.layer == layer]) for layer in numbers]
    axes.plot(numbers, means, "-", color=GREY, lw=1.2, marker="_", ms=12, zorder=2)
    axes.set_xticks(numbers)
    axes.set_xlim(numbers[0] - 0.4, numbers[-1] + 0.4)
    plain_axes(axes)


def _dash(axes: Axes, values: Mapping[HeadId, float]) -> None:
    if values:
        axes.axhline(float(np.mean(list(values.values()))), color=INK, lw=0.8, ls=(0, (4, 3)))


def plain_axes(axes: Axes) -> None:
    """Small ticks, two spines, a faint grid."""
    axes.tick_params(labelsize=SMALL_PT, length=2, width=0.5, color=GREY, labelcolor=INK)
    axes.grid(axis="y", color=FAINT, lw=0.3)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


@dataclass(frozen=True)
class _Scale:
    """The colours of a grid: from 0 on, or on both sides of 0 where values are negative."""

    norm: Normalize
    colours: Colormap

    @classmethod
    def of(cls, values: Sequence[float], most: float | None) -> _Scale:
        low, high = min(values, default=0.0), max(values, default=0.0)
        if low < 0:
            far = max(-low, high)
            return cls(Normalize(-far, far), matplotlib.colormaps["PuOr_r"])
        return cls(Normalize(0, most or high or 1.0), matplotlib.colormaps["cividis"])


def stat_grid(table: HeadTable, name: str, *, most: float | None = None) -> Figure:
    """F9: one number of every head as a grid, rows = layers, columns = heads, with the number.

    Colours run from 0 up, or from purple to orange around a white 0 where numbers are negative.

    Args:
        table: the numbers.
        name: of the column.
        most: the number at the top of the colours; default: the largest there is.

    Raises:
        UserError: no such column, or no number in it.
    """
    values, column = table.values(name), table.column(name)
    if not values:
        raise UserError(f"The column {name} holds no number, so there is nothing to draw.")
    kinds = kinds_of(list(values))
    scale = _Scale.of(list(values.values()), most)
    with drawing():
        families, _ = fonts([])
        texts = [column.show(value) for value in values.values()]
        cell = max(extent(texts, SMALL_PT, families) + 0.1, 0.36)
        margin = extent([f"layer {h.layer}" for h in values], SMALL_PT, families) + 0.08
        grids = [_Grid(values, kind) for kind in kinds]
        places, body = _places(grids, cell, margin, families)
        bar = 0.16
        page = sheet((body[0], body[1] + 0.5), column.title, [column.meaning], table.facts)
        for grid, (left, top) in zip(grids, places, strict=True):
            page.text(left + margin, top, Line(heading(grid.kind), TEXT_PT, bold=True))
            page.text(left, top + 0.18, Line("head", SMALL_PT, GREY))
            for place, head in enumerate(grid.heads):
                x = left + margin + (place + 0.5) * cell
                page.text(x, top + 0.18, Line(str(head), SMALL_PT, GREY), align="center")
            for place, layer in enumerate(grid.layers):
                y = top + 0.33 + (place + 0.5) * CELL_HEIGHT - SMALL_PT / 144
                page.text(left, y, Line(f"layer {layer}", SMALL_PT, GREY))
            size = (len(grid.heads) * cell, len(grid.layers) * CELL_HEIGHT)
            axes = page.axes(left + margin, top + 0.33, *size)
            axes.set_label(f"{grid.kind} {name}")
            _paint(axes, grid, scale, column.show)
        axes = page.axes(margin, body[1] + 0.1, min(2.4, body[0] - margin), bar * 0.7)
        colour_bar(axes, scale.norm, scale.colours)
        return page.figure


class _Grid:
    """The numbers of one kind, by layer and head; NaN where a head is missing."""

    def __init__(self, values: Mapping[HeadId, float], kind: str) -> None:
        self.kind = kind
        own = {head: value for head, value in values.items() if head.kind == kind}
        self.layers = sorted({head.layer for head in own})
        self.heads = sorted({head.head for head in own})
        self.numbers = np.full((len(self.layers), len(self.heads)), np.nan)
        for head, value in own.items():
            self.numbers[self.layers.index(head.layer), self.heads.index(head.head)] = value


def _places(
    grids: Sequence[_Grid], cell: float, margin: float, families: list[str]
) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Inches of the top left corner of each grid, side by side where they fit, and of all."""
    places, x, y, row_height, width = [], 0.0, 0.0, 0.0, 0.0
    for grid in grids:
        title = extent([heading(grid.kind)], TEXT_PT, families, bold=True)
        across = margin + max(len(grid.heads) * cell, title)
        down = 0.33 + len(grid.layers) * CELL_HEIGHT
        if x > 0 and x + across > WIDEST:
            x, y, row_height = 0.0, y + row_height + 0.2, 0.0
        places.append((x, y))
        width, row_height = max(width, x + across), max(row_height, down)
        x += across + GAP
    return places, (width, y + row_height)


def _paint(axes: Axes, grid: _Grid, scale: _Scale, show: Callable[[float], str]) -> None:
    axes.imshow(grid.numbers, cmap=scale.colours, norm=scale.norm, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
    write_numbers(axes, grid.numbers, scale.norm, scale.colours, show)


def write_numbers(
    axes: Axes,
    numbers: Array,
    norm: Normalize,
    colours: Colormap,
    show: Callable[[float], str],
) -> None:
    """Write the numbers of a matrix into its cells, black or white, whichever is easier to read."""
    for (row, column), value in np.ndenumerate(numbers):
        if np.isfinite(value):
            dark = luminance(colours(norm(float(value)))[:3]) <= 0.18
            ink = "white" if dark else "black"
            text = show(float(value))
            axes.text(column, row, text, ha="center", va="center", size=SMALL_PT, color=ink)


def colour_bar(axes: Axes, norm: Normalize, colours: Colormap) -> None:
    """A lying colour bar with small numbers under it."""
    bar = axes.figure.colorbar(ScalarMappable(norm, colours), cax=axes, orientation="horizontal")
    bar.ax.tick_params(labelsize=SMALL_PT, length=2, width=0.5, color=GREY, labelcolor=INK, pad=1)
    bar.locator = MaxNLocator(4)
    bar.update_ticks()
    bar.outline.set_edgecolor(FAINT)

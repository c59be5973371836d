"""A picture of how hard heads look against how much depends on them (F17)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import Array
from seq2seq.errors import UserError
from viz.likeness import SIDE, place_labels, write_names
from viz.sheet import Line, heading
from viz.style import GREY, INK, TEXT_PT, drawing
from viz.summary import ACCENT, kinds_of, plain_axes, sheet

LEFT = 0.62  # inches for the tick labels of each plane
HEAD = 0.24  # inches for the title above it
FALLING = ("bleu_change",)  # columns that are low where much depends on the head


def bright(table: HeadTable, effect: str, look: str = "confidence") -> Figure:
    """F17: a point for each head; right: it looks hard, up: much depends on it.

    Bright heads at the bottom are the ones that weights alone would overrate. Columns that fall
    where a head is needed (BLEU) run downwards.

    Args:
        table: the numbers.
        effect: the column upwards, such as "loss_change".
        look: the column to the right, a share from 0 to 1.

    Raises:
        UserError: no such column, or no head has both numbers.
    """
    right, up = table.values(look), table.values(effect)
    heads = [head for head in right if head in up]
    if not heads:
        raise UserError(f"No head has both {look} and {effect}, so there is nothing to draw.")
    values = np.array([up[head] for head in heads])
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    room = 0.08 * (high - low) or 1.0
    bottom, top = low - room, high + room
    kinds = kinds_of(heads)
    with drawing():
        body = (len(kinds) * (SIDE + LEFT), HEAD + SIDE + 0.42)
        notes = ["right: looks hard · up: much depends on it · text: layer.head"]
        title = f"Bright heads and needed heads: {table.column(effect).title}"
        page = sheet(body, title, notes, table.facts)
        for place, kind in enumerate(kinds):
            left = LEFT + place * (SIDE + LEFT)
            page.text(left, 0, Line(heading(kind), TEXT_PT, bold=True))
            axes = page.axes(left, HEAD, SIDE, SIDE)
            axes.set_label(f"bright {kind}")
            axes.set_xlim(-0.04, 1.04)
            axes.set_ylim((top, bottom) if effect in FALLING else (bottom, top))
            plain_axes(axes)
            if low < 0:
                axes.axhline(0, color=GREY, lw=0.6)
            axes.set_xlabel(table.column(look).title, size=TEXT_PT, color=INK, labelpad=2)
            if place == 0:
                axes.set_ylabel(table.column(effect).title, size=TEXT_PT, color=INK)
            own = [head for head in heads if head.kind == kind]
            points = np.array([[right[head], up[head]] for head in own])
            axes.plot(*points.T, "o", color=ACCENT, ms=5, mew=0, alpha=0.85, clip_on=False)
            _name(axes, points, [f"{head.layer}.{head.head}" for head in own])
        return page.figure


def _name(axes: Axes, points: Array, names: Sequence[str]) -> None:
    """Write the names of points where they cover nothing."""
    low = np.array([axes.get_xlim()[0], axes.get_ylim()[0]])
    size = np.array([axes.get_xlim()[1], axes.get_ylim()[1]]) - low  # negative where it runs down
    spots = place_labels(((points - low) / size - 0.5) * SIDE, names)
    write_names(axes, points, (spots / SIDE + 0.5) * size + low, names)

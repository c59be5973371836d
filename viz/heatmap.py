"""One attention map as a heat map (figure F3, and the parts that the grids are made of).

Rows are queries, columns are keys, always.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text

from seq2seq.attention_maps import Array
from viz.labels import Label
from viz.style import FAINT, GREY, colours, norm
from viz.view import View

LINES_FROM = 0.14  # inches; smaller cells are not set apart by white lines


def paint(
    axes: Axes, weights: Array, view: View, *, numbers: bool = False, thumbnail: bool = False
) -> None:
    """Draw one map [queries, keys] into axes, without labels."""
    drawn = weights[:, view.kept]
    if view.muted.any():
        drawn = np.ma.masked_array(drawn, np.broadcast_to(view.muted, drawn.shape))
    axes.imshow(drawn, cmap=colours(), norm=norm(view.sqrt), aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
    if view.pitch >= LINES_FROM and not thumbnail:
        rows, columns = drawn.shape
        axes.autoscale(False)
        axes.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, "white", linewidth=0.4)
        axes.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, "white", linewidth=0.4)
    if numbers:
        _write_numbers(axes, drawn, view)


def _write_numbers(axes: Axes, drawn: Array, view: View) -> None:
    size = min(8.0, view.pitch * 72 * 0.36)
    for (row, column), weight in np.ndenumerate(drawn):
        if view.muted[column] or weight == 0:  # exactly 0: masked, not merely small
            continue
        rgb = colours()(norm(view.sqrt)(float(weight)))[:3]
        axes.text(
            column,
            row,
            _digits(float(weight)),
            ha="center",
            va="center_baseline",
            size=size,
            color="black" if luminance(rgb) > 0.18 else "white",
        )


def _digits(weight: float) -> str:
    """Two decimals in little room: .25, 0, 1."""
    return {"0.00": "0", "1.00": "1"}.get(f"{weight:.2f}", f"{weight:.2f}"[1:])


def luminance(rgb: tuple[float, float, float]) -> float:
    """Relative luminance (WCAG 2); above 0.18 black text has more contrast than white."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def label_rows(axes: Axes, view: View) -> None:
    """Write the query labels at the left edge."""
    axes.set_yticks(
        range(len(view.rows)),
        labels=[label.shown for label in view.rows],
        parse_math=False,
        size=view.font,
        family=view.families,
    )
    axes.tick_params(axis="y", length=0, pad=3)
    _mark(axes, axes.get_yticklabels(), view.rows, "query")


def label_columns(axes: Axes, view: View) -> None:
    """Write the key labels at the top edge, upright."""
    axes.xaxis.tick_top()
    axes.set_xticks(
        range(len(view.columns)),
        labels=[label.shown for label in view.columns],
        parse_math=False,
        size=view.font,
        family=view.families,
        rotation=90,
        rotation_mode="anchor",  # align first, then turn: descenders do not shift a label sideways
        ha="left",
        va="center_baseline",
    )
    axes.tick_params(axis="x", length=0, pad=3)
    _mark(axes, axes.get_xticklabels(), view.columns, "key")


def _mark(axes: Axes, texts: Sequence[Text], shown: Sequence[Label], name: str) -> None:
    """Control tokens in grey italics; clipped labels keep their full text for SVG."""
    place = axes.figure.axes.index(axes)
    for i, (text, label) in enumerate(zip(texts, shown, strict=True)):
        if label.special:
            text.set(color=GREY, style="italic")
        if label.shown != label.full:
            text.set(gid=f"map{place}-{name}{i}", label=label.full)

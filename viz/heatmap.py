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
from viz.style import FAINT, GREY, Scale
from viz.view import View

LINES_FROM = 0.14  # inches; smaller cells are not set apart by white lines


def paint(
    axes: Axes,
    weights: Array,
    view: View,
    scale: Scale | None = None,
    *,
    numbers: bool = False,
    thumbnail: bool = False,
) -> None:
    """Draw one map [queries, keys] into axes, without labels, in the view's scale or another."""
    scale = scale or view.scale
    drawn = weights[:, view.kept]
    if view.muted.any():
        drawn = np.ma.masked_array(drawn, np.broadcast_to(view.muted, drawn.shape))
    axes.imshow(drawn, cmap=scale.colours, norm=scale.norm, aspect="auto", interpolation="nearest")
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
        _write_numbers(axes, drawn, view, scale)


def _write_numbers(axes: Axes, drawn: Array, view: View, scale: Scale) -> None:
    size = min(8.0, view.pitch * 72 * 0.36)
    for (row, column), weight in np.ndenumerate(drawn):
        if view.muted[column] or weight == 0:  # exactly 0: masked, not merely small
            continue
        axes.text(
            column,
            row,
            digits(float(weight)),
            ha="center",
            va="center_baseline",
            size=size,
            color=ink_on(scale.rgb(float(weight))),
        )


def digits(number: float) -> str:
    """Two decimals in little room: .25, 0, 1, −.3; three digits from 10 on."""
    text = f"{abs(number):.2f}" if abs(number) < 9.995 else f"{abs(number):.3g}"
    text = {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))
    return f"−{text}" if number < 0 and text != "0" else text


def ink_on(rgb: tuple[float, float, float]) -> str:
    """Black or white, whichever can be read on this colour (contrast at least 4.5)."""
    return "black" if luminance(rgb) > 0.18 else "white"


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

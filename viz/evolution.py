"""Pictures of heads while the model learns (F13): a statistic of every head against the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.history import History
from seq2seq.attention_maps import Array
from seq2seq.errors import UserError
from viz.labels import extent, fonts
from viz.sheet import Line, Sheet, heading
from viz.style import FAINT, GREY, INK, SMALL_PT, TEXT_PT, drawing
from viz.summary import kinds_of, plain_axes, sheet

WIDTH, HEIGHT = 2.5, 1.9  # inches of a plot, at least
LOSS = 0.55  # inches of the loss below it
LEFT, TIE = 0.5, 0.22  # inches for tick labels, and of the line from a curve to its name
NAME = 0.112  # inches that a name takes from top to bottom
MOST_NAMES = 60  # in one plot
LOG_FROM = 20  # times the first update: a last update beyond that needs a logarithmic axis

Losses = Sequence[tuple[int, float]]


def evolution(history: History, name: str, losses: Losses = ()) -> Figure:
    """F13: a statistic of every head against the number of updates, a plot for each kind.

    A line is a head, its colour the layer, and its name stands at its end. Where the updates span
    more than a factor of twenty the axis is logarithmic, with 0 at its left end.

    Args:
        history: the numbers.
        name: of the column.
        losses: (update, training loss), drawn below on the same axis of updates.

    Raises:
        UserError: no such column, no number in it, or a single update.
    """
    column, found = history.column(name), history.values(name)
    if not found:
        raise UserError(f"The column {name} holds no number, so there is nothing to draw.")
    if len(history.updates) < 2:
        raise UserError("A change needs two updates at least, and there is only one.")
    kinds = kinds_of(list(found))
    named = {kind: _named({h: v for h, v in found.items() if h.kind == kind}) for kind in kinds}
    height = max(HEIGHT, NAME * max(map(len, named.values())))
    numbers = [x for values in found.values() for x in values if x is not None]
    if name == "entropy":
        numbers += [_uniform(history, kind) for kind in kinds]
    low, high = min(0.0, *numbers), max(numbers)
    limits = (low - 0.04 * (high - low), high + 0.06 * ((high - low) or 1.0))
    losses = [(u, x) for u, x in losses if history.updates[0] <= u <= history.updates[-1]]
    with drawing():
        families, _ = fonts([])
        right = TIE + extent([_short(head) for head in found], SMALL_PT, families) + 0.08
        step = LEFT + WIDTH + right
        below = LOSS + 0.12 if losses else 0.0
        body = (len(kinds) * step, 0.24 + height + below + 0.4)
        notes = [_note(history, name, sum(map(len, named.values())), len(found))]
        page = sheet(body, f"While learning: {column.title}", notes, history.facts)
        for place, kind in enumerate(kinds):
            left = LEFT + place * step
            page.text(left, 0, Line(heading(kind), TEXT_PT, bold=True))
            axes = page.axes(left, 0.24, WIDTH, height)
            axes.set_label(f"{kind} {name}")
            axes.set_ylim(*limits)
            own = {head: values for head, values in found.items() if head.kind == kind}
            _curves(axes, history.updates, own)
            _names(axes, height, own, named[kind])
            if name == "entropy" and (uniform := _uniform(history, kind)):
                axes.axhline(uniform, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
            if place == 0:
                axes.set_ylabel(column.title, size=TEXT_PT, color=INK)
            if losses:
                axes.tick_params(labelbottom=False)
                axes = _losses(page, left, 0.24 + height + 0.12, history.updates, losses)
                axes.set_label(f"{kind} loss")
                if place == 0:
                    axes.set_ylabel("loss", size=TEXT_PT, color=INK)
            axes.set_xlabel("updates", size=TEXT_PT, color=INK, labelpad=2)
        return page.figure


def _note(history: History, name: str, named: int, heads: int) -> str:
    some = "" if named == heads else " · names: the heads farthest from their layer's mean"
    count = len(history.updates)
    dashed = " · dashed: a head that looks at everything alike" if name == "entropy" else ""
    what = "a line is a head, its name layer.head, its colour the layer"
    return f"{what} · {count} snapshots{dashed}{some}"


def _uniform(history: History, kind: str) -> float:
    """Mean entropy of a head that looks at everything alike; 0 where the table does not say."""
    if not history.tables[-1].has("uniform_entropy"):
        return 0.0
    values = history.tables[-1].values("uniform_entropy")
    return float(np.mean([value for head, value in values.items() if head.kind == kind] or [0.0]))


def _short(head: HeadId) -> str:
    return f"{head.layer}.{head.head}"


def shade(layer: int, last: int) -> tuple[float, float, float, float]:
    """The line colour of a layer: dark for the first, lighter for the last, never too light."""
    return matplotlib.colormaps["viridis"](0.7 * layer / last if last else 0.25)


def _curves(axes: Axes, updates: Sequence[int], own: Mapping[HeadId, list[float | None]]) -> None:
    last = max(head.layer for head in own)
    for head, values in own.items():
        numbers = [np.nan if x is None else x for x in values]
        axes.plot(
            updates,
            numbers,
            "-",
            color=shade(head.layer, last),
            lw=1.0,
            marker="o",
            ms=1.6,
            mew=0,
            label=str(head),
        )
    _axis_of_updates(axes, updates)


def _axis_of_updates(axes: Axes, updates: Sequence[int]) -> None:
    plain_axes(axes)
    positive = [update for update in updates if update > 0]
    if is_log(updates):
        axes.set_xscale("symlog", linthresh=positive[0], linscale=0.35)
        decades = [10**i for i in range(9) if positive[0] <= 10**i <= updates[-1]]
        axes.xaxis.set_major_locator(FixedLocator([*([0] if updates[0] == 0 else []), *decades]))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.locator_params(axis="x", nbins=4, integer=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: count(x)))
    axes.set_xlim(updates[0], updates[-1])


def is_log(updates: Sequence[int]) -> bool:
    """Whether the axis of these updates is logarithmic."""
    positive = [update for update in updates if update > 0]
    return len(positive) > 1 and positive[-1] > LOG_FROM * positive[0]


def count(number: float) -> str:
    """A number of updates in little room.

    >>> count(500), count(20_000), count(1_500_000)
    ('500', '20k', '1.5M')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= 10 * size or (number >= size and letter == "M"):
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def _named(own: Mapping[HeadId, list[float | None]]) -> list[HeadId]:
    """The heads whose names are written: all with a last number, or those that stand out most."""
    ends = {head: values[-1] for head, values in own.items() if values[-1] is not None}
    means = {
        layer: np.mean([x for head, x in ends.items() if head.layer == layer])
        for layer in {head.layer for head in ends}
    }
    far = sorted(ends, key=lambda head: (-abs(ends[head] - means[head.layer]), head.rank))
    return sorted(far[:MOST_NAMES], key=lambda head: head.rank)


def _names(
    axes: Axes, height: float, own: Mapping[HeadId, list[float | None]], named: Sequence[HeadId]
) -> None:
    """Write names to the right of the curves' ends, none over another, each tied to its curve."""
    low, high = axes.get_ylim()
    ends = np.array([own[head][-1] for head in named], dtype=float)
    inches = (ends - low) / (high - low) * height
    places = spread(inches, NAME, height)
    last = max(head.layer for head in own)
    for head, at, to in zip(named, inches, places, strict=True):
        axes.plot(
            [1, 1 + 0.75 * TIE / WIDTH],
            [at / height, to / height],
            "-",
            color=shade(head.layer, last),
            lw=0.5,
            transform=axes.transAxes,
            clip_on=False,
        )
        axes.text(
            1 + TIE / WIDTH,
            to / height,
            _short(head),
            size=SMALL_PT,
            color=INK,
            va="center_baseline",
            transform=axes.transAxes,
        )


def spread(wanted: Array, gap: float, most: float) -> Array:
    """The places nearest to `wanted` (least squares) that are `gap` apart and within 0 and `most`.

    Sorted places minus i · gap must not fall, so this is isotonic regression (pool adjacent
    violators). Where there is too little room for all gaps, they shrink.
    """
    order = np.argsort(wanted, kind="stable")
    gap = min(gap, most / max(len(wanted) - 1, 1))
    blocks: list[tuple[float, int]] = []  # mean, size
    for i, place in enumerate(wanted[order]):
        mean, size = float(place) - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            other, many = blocks.pop()
            mean, size = (mean * size + other * many) / (size + many), size + many
        blocks.append((mean, size))
    level = np.concatenate([[mean] * size for mean, size in blocks]) if blocks else np.zeros(0)
    room = max(most - (len(wanted) - 1) * gap, 0.0)
    result = np.empty(len(wanted))
    result[order] = np.clip(level, 0, room) + np.arange(len(wanted)) * gap
    return result


def _losses(page: Sheet, left: float, top: float, updates: Sequence[int], losses: Losses) -> Axes:
    axes = page.axes(left, top, WIDTH, LOSS)
    axes.plot(*zip(*losses, strict=True), "-", color=GREY, lw=1.0)
    _axis_of_updates(axes, updates)
    axes.set_ylim(0, 1.08 * max(loss for _, loss in losses))
    axes.locator_params(axis="y", nbins=3)
    axes.grid(axis="y", color=FAINT, lw=0.3)
    return axes

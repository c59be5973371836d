"""Heads laid over each other as lines from queries to keys (figure F5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UnfitError, UserError
from viz.labels import Label, extent
from viz.panels import count, layer_title
from viz.sheet import Line, Sheet, provenance
from viz.style import GREY, INK, SMALL_PT, TEXT_PT, Look, drawing
from viz.view import View, require_record, view

MAX_TOKENS, MAX_HEADS = 30, 4  # more lines cannot be told apart
FAINTEST = 0.05  # of the top of the scale; lighter lines are dropped, and their mass is printed
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 2.5), (1.8, 1.8), (7, 2, 1.8, 2))  # points
ROOM = (2.6, 0.6)  # inches between queries and keys: at least, and as a share of the height
ROW = 0.205  # inches from one token to the next
THIN = 0.5  # points of a line of weight 0
THICK, BUNDLE = 4.5, 12.0  # points of the largest weight, and of such a line of every head together
SAMPLE = 0.5  # inches of a line in the legend
CURVE = np.linspace(0, 1, 33)


def lines(
    maps: AttentionMaps,
    kind: str,
    layer: int,
    heads: Collection[int] | None = None,
    look: Look | None = None,
) -> Figure:
    """F5: a line from each query, left, to each key, right, as wide as the weight.

    Each head has a colour and a dash of its own. Lines of less than `FAINTEST` are left out; what
    they add up to in a row, on average, stands beside the head.

    Args:
        maps: the record.
        kind: "enc", "dec" or "cross".
        layer: the layer's number in the model.
        heads: their numbers, at most `MAX_HEADS`; None: all of the layer.
        look: a reader's choices.

    Raises:
        UserError: no such kind, layer or head; too many heads; no record.
        UnfitError: too many tokens.
    """
    require_record(maps)
    weights, numbers = maps.select([kind], [layer], heads).layer(kind, layer)
    if not 1 <= len(numbers) <= MAX_HEADS:
        raise UserError(
            f"Lines show 1 to {MAX_HEADS} heads at once, not {len(numbers)}: name some of them."
        )
    with drawing():
        shared = view(maps, kind, [weights], look or Look())
        tokens = max(len(shared.rows), len(shared.columns))
        if tokens > MAX_TOKENS:
            raise UnfitError(
                f"“{maps.text.get('source', '')[:40]} …” has {tokens} {maps.level}s on a side, too "
                f"many for lines that can be followed (at most {MAX_TOKENS}): take maps instead."
            )
        names = [f"head {number}{_dropped(w, shared)}" for number, w in _each(numbers, weights)]
        title = f"{layer_title(maps, kind, layer)}, {count(len(numbers), 'head')} as lines"
        return _draw(maps, shared, weights, names, title)


def _each(numbers: Sequence[int], weights: Array) -> list[tuple[int, Array]]:
    return list(zip(numbers, weights, strict=True))


def _dropped(weights: Array, shared: View) -> str:
    """What the lines that are too faint carry, on average over the rows."""
    visible = weights[:, shared.kept[~shared.muted]]
    faint = np.where(visible < FAINTEST * shared.scale.top, visible, 0).sum(-1)
    return f" · not drawn: mean {faint.mean():.2f} max {faint.max():.2f}"


def _draw(
    maps: AttentionMaps, shared: View, weights: Array, names: list[str], title: str
) -> Figure:
    left, right = (
        extent([name, *(label.shown for label in side)], TEXT_PT, shared.families) + 0.08
        for name, side in (("query", shared.rows), ("key", shared.columns))
    )
    legend = len(names) * Line("", TEXT_PT).height + 0.12
    head = Line("", SMALL_PT).height + 0.04
    tall = max(len(shared.rows), len(shared.columns)) * ROW
    room = max(ROOM[0], ROOM[1] * tall)
    wide = left + room + right
    captions = extent(names, TEXT_PT, shared.families) + SAMPLE + 0.1
    sheet = Sheet(
        (max(wide, captions), legend + head + tall),
        title,
        notes=[_note(shared)],
        footer=provenance(maps),
        families=shared.families,
        missing=shared.missing,
        dpi=shared.dpi,
    )
    axes = sheet.axes(0, 0, wide, legend + head + tall)
    axes.set(xlim=(0, wide), ylim=(legend + head + tall, 0), label="lines")
    axes.axis("off")
    for place, name in enumerate(names):
        y = (place + 0.5) * Line("", TEXT_PT).height
        _add(axes, np.array([[[0.0, y], [SAMPLE, y]]]), np.array([0.6]), place, 3.0)
        sheet.text(SAMPLE + 0.1, y - TEXT_PT * 0.58 / 72, Line(name, TEXT_PT))
    sheet.text(left - 0.08, legend, Line("query", SMALL_PT, GREY), align="right")
    sheet.text(left + room + 0.08, legend, Line("key", SMALL_PT, GREY))
    spots = [
        legend + head + (np.arange(len(side)) + 0.5) * tall / len(side)
        for side in (shared.rows, shared.columns)
    ]
    _write(axes, shared.rows, left - 0.08, spots[0], "right", shared)
    _write(axes, shared.columns, left + room + 0.08, spots[1], "left", shared)
    thick = min(THICK, BUNDLE / len(weights))
    for place, matrix in enumerate(weights):
        shift = (place - (len(weights) - 1) / 2) * thick / 72  # side by side where they would meet
        shares = np.where(shared.muted, 0, matrix[:, shared.kept] / shared.scale.top)
        _join(axes, shares, place, (left, left + room), [side + shift for side in spots], thick)
    return sheet.figure


def _note(shared: View) -> str:
    rows, columns = shared.axes_names
    return (
        f"query → key · left: {rows} · right: {columns} · width: {shared.scale.name} · lines below "
        f"{FAINTEST * shared.scale.top:.2g} are not drawn{shared.hidden_mass()}"
    )


def _join(
    axes: Axes,
    shares: Array,
    place: int,
    across: tuple[float, float],
    spots: list[Array],
    thick: float,
) -> None:
    """The lines of one head, the lightest first so that heavy ones lie on top."""
    drawn = np.argwhere(shares >= FAINTEST)
    if not len(drawn):
        return
    drawn = drawn[np.argsort(shares[tuple(drawn.T)], kind="stable")]
    starts, ends = spots[0][drawn[:, 0]], spots[1][drawn[:, 1]]
    ease = CURVE**2 * (3 - 2 * CURVE)  # level where it leaves and where it arrives
    y = starts[:, None] + (ends - starts)[:, None] * ease
    x = np.broadcast_to(across[0] + CURVE * (across[1] - across[0]), y.shape)
    _add(axes, np.stack((x, y), -1), shares[tuple(drawn.T)], place, thick)


def _add(axes: Axes, points: Array, shares: Array, place: int, thick: float) -> None:
    """Lines [N, points, 2] in the colour and dash of the head at `place`."""
    dash = DASHES[place]
    widths = THIN + (thick - THIN) * shares
    # Matplotlib multiplies dashes by the width; these keep their length, so that heads look alike.
    styles = [(0, tuple(d / width for d in dash)) if dash else "solid" for width in widths]
    axes.add_collection(
        LineCollection(
            list(points),
            linewidths=widths.tolist(),
            linestyles=styles,
            colors=[(COLOURS[place], 0.35 + 0.55 * float(share)) for share in shares],
            capstyle="butt",
            label=f"head {place}",
        ),
        autolim=False,
    )


def _write(
    axes: Axes, labels: list[Label], x: float, spots: Array, align: str, shared: View
) -> None:
    side = "query" if align == "right" else "key"
    for place, (label, y) in enumerate(zip(labels, spots, strict=True)):
        faded = side == "key" and bool(shared.muted[place])
        text = axes.text(
            x,
            y,
            label.shown,
            size=TEXT_PT,
            ha=align,
            va="center_baseline",
            color=GREY if label.special or faded else INK,
            style="italic" if label.special else "normal",
            family=shared.families,
            parse_math=False,
        )
        if label.shown != label.full:
            text.set(gid=f"line-{side}{place}", label=label.full)

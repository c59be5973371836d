"""Pictures of how alike heads are: points in a plane (F10), a matrix with a tree (F11)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.roles import NONE
from seq2seq.analysis.similarity import ALIKE, MOST, Distances, leaves, linkage, mds
from seq2seq.attention_maps import Array
from seq2seq.errors import UserError
from viz.labels import extent, fonts
from viz.sheet import Line, Sheet, heading
from viz.style import FAINT, GREY, INK, SMALL_PT, TEXT_PT, drawing
from viz.summary import colour_bar, plain_axes, sheet, write_numbers

SIDE = 3.0  # inches of a plane
MARKERS = {
    NONE: "o",
    "previous": "<",
    "next": ">",
    "itself": "s",
    "rare token": "*",
    "separator": "P",
    "broad": "h",
}
OTHER = "D"  # another offset
TREE = 1.3  # inches
NUMBERS_UP_TO = 12  # heads; more leave no room for digits
LABEL = 5.5  # points of names in a plane
FAR = 0.2  # inches; a name further away from its point is tied to it by a line


def head_map(
    distances: Mapping[str, Distances],
    roles: Mapping[HeadId, str] | None = None,
    facts: Sequence[str] = (),
) -> Figure:
    """F10: the heads of each kind as points; near points attend alike.

    The marker is the head's role, the colour its layer, and the text its layer and number.

    Args:
        distances: by kind, of seq2seq.analysis.similarity; one scale for all kinds.
        roles: the main role of each head; a head that is missing has none.
        facts: where the numbers come from.

    Raises:
        UserError: no heads.
    """
    if not distances:
        raise UserError("There are no heads, so there is nothing to draw.")
    roles = roles or {}
    planes = {kind: mds(found.matrix) for kind, found in distances.items()}
    reach = 1.12 * max(float(np.abs(plane.points).max()) for plane in planes.values()) or 1.0
    last = max(head.layer for found in distances.values() for head in found.heads)
    shown = [name for name in MARKERS if name in {NONE, *roles.values()}]
    if any(name.startswith("offset") for name in roles.values()):
        shown.append("another offset")
    with drawing():
        width = len(distances) * (SIDE + 0.25) - 0.25
        notes = [
            "near: they attend alike · classical scaling of mean Jensen-Shannon divergence · "
            "text: layer.head"
        ]
        page = sheet((width, 0.24 + SIDE + 0.62), "Heads that attend alike", notes, facts)
        for place, (kind, found) in enumerate(distances.items()):
            left = place * (SIDE + 0.25)
            share = f" · the plane shows {planes[kind].share:.0%}"
            page.text(left, 0, Line(heading(kind), TEXT_PT, bold=True))
            page.text(left + SIDE, 0.02, Line(share.strip(" ·"), SMALL_PT, GREY), align="right")
            axes = page.axes(left, 0.24, SIDE, SIDE)
            axes.set_label(f"map {kind}")
            _plane(axes, reach)
            _points(axes, found.heads, planes[kind].points, roles, last)
        _legend(page, shown, last, width)
        return page.figure


def _plane(axes: Axes, reach: float) -> None:
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
    unit = 0.1 if reach < 0.5 else 0.2
    low = -0.94 * reach
    axes.plot([low, low + unit], [low, low], color=GREY, lw=1.2, solid_capstyle="butt")
    axes.text(low + unit / 2, low + 0.02 * reach, f"{unit:g} nats", size=LABEL, color=GREY,
              ha="center", va="bottom")  # fmt: skip


def _shade(layer: int, last: int) -> tuple[float, float, float, float]:
    """Dark for the first layer, light for the last, but never too light to see."""
    colours = matplotlib.colormaps["cividis"]
    return colours(0.85 * layer / last if last else 0.3)


def _marker(role: str) -> str:
    return MARKERS.get(role, OTHER)


def _points(
    axes: Axes, heads: list[HeadId], points: Array, roles: Mapping[HeadId, str], last: int
) -> None:
    for head, (x, y) in zip(heads, points, strict=True):
        axes.plot([x], [y], _marker(roles.get(head, NONE)), ms=6.5, mec=INK, mew=0.4,
                  color=_shade(head.layer, last))  # fmt: skip
    reach = axes.get_xlim()[1]
    names = [f"{head.layer}.{head.head}" for head in heads]
    scale = Box.around(np.array([-0.75, -1.36]) * SIDE / 3, 1.1 * SIDE / 3, 0.24)
    spots = place_labels(points / reach * SIDE / 2, names, [scale])
    write_names(axes, points, spots * 2 * reach / SIDE, names)


def write_names(axes: Axes, points: Array, spots: Array, names: Sequence[str]) -> None:
    """Write the names of points at their spots, with a line where a spot is far away."""
    width = axes.get_xlim()[1] - axes.get_xlim()[0]
    height = axes.get_ylim()[1] - axes.get_ylim()[0]
    for point, spot, name in zip(points, spots, names, strict=True):
        away = (spot - point) / (width, height) * SIDE  # inches
        if np.hypot(*away) > FAR:
            axes.plot(*zip(point, spot, strict=True), "-", color=FAINT, lw=0.4, zorder=1)
        x, y = spot
        axes.text(x, y, name, size=LABEL, color=INK, ha="center", va="center_baseline")


def place_labels(points: Array, names: Sequence[str], kept_free: Sequence[Box] = ()) -> Array:
    """Where names of points go so that they cover neither points nor each other.

    Each takes the first free place around its point, from near to far, inside the plane.

    Args:
        points: [N, 2] inches from the middle of a plane of SIDE by SIDE.
        names: of the points.
        kept_free: where no name may go.

    Returns:
        [N, 2] inches, the middle of each name.
    """
    families, _ = fonts([])
    height, dot = LABEL / 72 * 1.05, 0.055
    boxes = [Box.around(point, 2 * dot, 2 * dot) for point in points]
    taken, places = [*boxes, *kept_free], []
    for point, name in zip(points, names, strict=True):
        width = extent([name], LABEL, families) + 0.02
        best = point + np.array([0, dot + height / 2])
        for radius, turn in itertools.product(np.arange(40), np.arange(16)):
            angle = np.pi / 2 + turn * np.pi / 8
            away = np.array([dot + width / 2, dot + height / 2]) * (0.9 + 0.25 * radius)
            spot = point + away * np.array([np.cos(angle), np.sin(angle)])
            box = Box.around(spot, width, height)
            if box.inside(SIDE / 2 - 0.02) and not any(box.meets(other) for other in taken):
                best = spot
                break
        taken.append(Box.around(best, width, height))
        places.append(best)
    return np.array(places).reshape(-1, 2)


@dataclass(frozen=True)
class Box:
    """A rectangle, in inches."""

    left: float
    low: float
    right: float
    high: float

    @classmethod
    def around(cls, centre: Array, width: float, height: float) -> Box:
        """The rectangle of this size around a centre."""
        x, y = (float(value) for value in centre)
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    def meets(self, other: Box) -> bool:
        """Whether the two overlap."""
        apart_x = self.right <= other.left or other.right <= self.left
        return not (apart_x or self.high <= other.low or other.high <= self.low)

    def inside(self, reach: float) -> bool:
        """Whether it lies within the square from -reach to reach."""
        return min(self.left, self.low) >= -reach and max(self.right, self.high) <= reach


def _legend(page: Sheet, shown: Sequence[str], last: int, width: float) -> None:
    """Markers of roles and colours of layers, under the planes."""
    roles = [
        Line2D([], [], marker=MARKERS.get(name, OTHER), ls="", ms=5, mfc="white", mec=INK, mew=0.6,
               label="no role" if name == NONE else name)
        for name in shown
    ]  # fmt: skip
    step = max(1, -(-last // 6))
    numbers = sorted({*range(0, last + 1, step), last})
    layers = [
        Line2D([], [], marker="o", ls="", ms=5, color=_shade(n, last), mec=INK, mew=0.4,
               label=f"layer {n}")
        for n in numbers
    ]  # fmt: skip
    for place, handles in enumerate((roles, layers)):
        axes = page.axes(0, 0.24 + SIDE + 0.08 + place * 0.24, width, 0.22)
        axes.set_label("legend")
        axes.axis("off")
        axes.legend(handles=handles, loc="center left", ncols=len(handles), fontsize=SMALL_PT,
                    frameon=False, borderpad=0, borderaxespad=0, handletextpad=0.2,
                    columnspacing=1.0, labelcolor=INK)  # fmt: skip


def similarity(found: Distances, facts: Sequence[str] = ()) -> Figure:
    """F11: the divergence of every pair of heads of one kind, heads alike side by side.

    Right of the matrix stands the tree of average linkage: heads joined left of the dashed line are
    so alike that one may do for all.

    Args:
        found: of seq2seq.analysis.similarity.
        facts: where the numbers come from.

    Raises:
        UserError: no heads.
    """
    if not found.heads:
        raise UserError("There are no heads, so there is nothing to draw.")
    merges = linkage(found.matrix)
    order = leaves(merges, len(found.heads))
    names = [str(found.heads[place]) for place in order]
    cell = min(max(3.0 / len(names), 0.115), max(0.36, 1.7 / len(names)))
    size = cell * len(names)
    font = min(max(cell * 72 / 1.3, 6.0), TEXT_PT)
    with drawing():
        families, _ = fonts([])
        margin = extent(names, font, families) + 0.1
        title = f"{heading(found.heads[0].kind)}: heads that attend alike"
        notes = [
            "mean Jensen-Shannon divergence of two heads' rows · 0: the same, 0.693: nothing in "
            f"common · tree: average linkage, dashed at {ALIKE:g} nats"
        ]
        page = sheet((margin + size + 0.2 + TREE, margin + size + 0.5), title, notes, facts)
        axes = page.axes(margin, margin, size, size)
        axes.set_label("matrix")
        norm, colours = Normalize(0, MOST), matplotlib.colormaps["cividis_r"]
        shown = found.matrix[np.ix_(order, order)]
        axes.imshow(shown, cmap=colours, norm=norm, aspect="auto")
        if len(names) <= NUMBERS_UP_TO:
            write_numbers(axes, shown, norm, colours, "{:.2f}".format)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(names)), names, size=font, rotation=90)
        axes.set_yticks(range(len(names)), names, size=font)
        axes.tick_params(length=0, pad=3)
        for spine in axes.spines.values():
            spine.set_color(FAINT)
        tree = page.axes(margin + size + 0.12, margin, TREE, size)
        tree.set_label("tree")
        _draw_tree(tree, found, order)
        bar = page.axes(margin, margin + size + 0.14, min(size, 2.4), 0.11)
        colour_bar(bar, norm, colours)
        return page.figure


def _draw_tree(axes: Axes, found: Distances, order: list[int]) -> None:
    count = len(order)
    places: dict[int, tuple[float, float]] = {
        head: (0.0, float(row)) for row, head in enumerate(order)
    }
    for number, merge in enumerate(linkage(found.matrix)):
        (x1, y1), (x2, y2) = places[merge.left], places[merge.right]
        distance = merge.distance
        axes.plot([x1, distance, distance, x2], [y1, y1, y2, y2], color=INK, lw=0.8)
        places[count + number] = (distance, (y1 + y2) / 2)
    plain_axes(axes)
    axes.grid(visible=False)
    axes.axvline(ALIKE, color=GREY, lw=0.7, ls=(0, (3, 2)))
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlim(0, MOST)
    axes.set_yticks([])
    axes.set_xticks([0, 0.2, 0.4, 0.6])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("nats", size=SMALL_PT, color=INK, labelpad=1)

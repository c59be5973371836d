"""What positions hold after each layer, as bars of shares of rollout (figure F15, of a corpus)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seq2seq.analysis.head_id import Place
from seq2seq.analysis.rollout_shares import PARTS
from seq2seq.attention_maps import KINDS
from seq2seq.errors import UserError
from viz.heatmap import ink_on
from viz.labels import extent, fonts
from viz.sheet import Line
from viz.style import FAINT, GREY, SMALL_PT, TEXT_PT, colours, drawing
from viz.summary import sheet

TITLES = {
    "enc": "encoder, of the source",
    "dec": "decoder, of the target",
    "cross": "decoder, of the source",
}
WIDTH, BAR, GAP = 2.7, 0.22, 0.06  # inches of a share of 1, of a bar's height, between bars
LEGEND = 0.17  # inches of a line of the legend
BETWEEN = 0.35  # inches between the three parts
NUMBERS_FROM = 0.1  # shares below leave no room for their number


def rollout_bars(shares: Mapping[Place, Mapping[str, float]], facts: Sequence[str] = ()) -> Figure:
    """A bar for each layer, divided by what its positions may hold.

    Args:
        shares: of `RolloutShares.shares`.
        facts: where the numbers come from.

    Raises:
        UserError: there are no shares.
    """
    if not shares:
        raise UserError("There is no share of rollout, so there is nothing to draw.")
    kinds = [kind for kind in KINDS if any(place[0] == kind for place in shares)]
    layers = {kind: sorted(layer for own, layer in shares if own == kind) for kind in kinds}
    with drawing():
        families, _ = fonts([])
        left = extent(["layer 88"], SMALL_PT, families) + 0.08
        top = Line("", TEXT_PT).height + LEGEND * max(len(PARTS[kind]) for kind in kinds) + 0.08
        tall = max(map(len, layers.values())) * (BAR + GAP)
        body = (len(kinds) * (left + WIDTH + BETWEEN) - BETWEEN, top + tall)
        notes = [
            "rows of words · rollout (Abnar and Zuidema 2020): half of a position is kept in each "
            "layer, half comes from what its heads attend to on average"
        ]
        page = sheet(body, "What positions may hold after each layer", notes, facts)
        for number, kind in enumerate(kinds):
            x = number * (left + WIDTH + BETWEEN)
            page.text(x + left, 0, Line(TITLES[kind], TEXT_PT, bold=True))
            key = page.axes(x + left, Line("", TEXT_PT).height, WIDTH, top - 0.2)
            _legend(key, PARTS[kind], top - 0.2, families)
            axes = page.axes(x + left, top, WIDTH, tall)
            axes.set_label(f"rollout {kind}")
            axes.set(xlim=(0, 1), ylim=(tall, 0))
            axes.axis("off")
            for row, layer in enumerate(layers[kind]):
                y = row * (BAR + GAP)
                page.text(x, top + y + BAR / 2 - SMALL_PT * 0.58 / 72,
                          Line(f"layer {layer}", SMALL_PT, GREY))  # fmt: skip
                _bar(axes, list(shares[kind, layer].values()), y)
        return page.figure


def _colour(place: int, count: int) -> tuple[float, float, float]:
    """Light for the first part, dark for the last."""
    red, green, blue, _ = colours()(1 - 0.92 * place / (count - 1))
    return red, green, blue


def _bar(axes: Axes, values: list[float], y: float) -> None:
    x = 0.0
    for place, value in enumerate(values):
        fill = _colour(place, len(values))
        axes.add_patch(Rectangle((x, y), value, BAR, facecolor=fill, edgecolor=FAINT, lw=0.3))
        if value >= NUMBERS_FROM:
            axes.text(x + value / 2, y + BAR / 2, f"{value:.0%}", size=SMALL_PT, ha="center",
                      va="center_baseline", color=ink_on(fill))  # fmt: skip
        x += value


def _legend(axes: Axes, parts: Sequence[str], height: float, families: list[str]) -> None:
    axes.set_label("legend")
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    for place, name in enumerate(parts):
        y = place * LEGEND + 0.04
        fill = _colour(place, len(parts))
        axes.add_patch(Rectangle((0, y), 0.12, 0.1, facecolor=fill, edgecolor=FAINT, lw=0.3))
        axes.text(0.18, y + 0.05, name, size=SMALL_PT, va="center_baseline", color=GREY,
                  family=families)  # fmt: skip

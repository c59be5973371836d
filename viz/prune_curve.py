"""The picture of a pruning curve (F12): quality against the share of heads removed."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seq2seq.analysis.prune import IMPORTANCE, ORDERS, RANDOM, REVERSE, Curve
from seq2seq.analysis.prune_tables import finding
from viz.labels import extent
from viz.sheet import Line, Sheet
from viz.style import GREY, INK, SMALL_PT, TEXT_PT, drawing
from viz.summary import ACCENT, plain_axes, sheet

PANEL = (3.1, 2.3)  # inches of a plot
LEFT, GAP = 0.45, 0.25  # inches for tick labels, and between the plots
HEAD = 0.46  # inches for the legend and the titles above them
MARKS = {  # colour (Okabe and Ito), dash, marker: told apart without colours, too
    IMPORTANCE: (ACCENT, "-", "o"),
    REVERSE: ("#d55e00", "--", "s"),
    RANDOM: (GREY, ":", "^"),
}
RING = "ring: the last point before that · thin line: the whole model"
MEASURES = {"bleu": "BLEU", "loss": "loss [nats/token]"}


def prune_curve(curve: Curve) -> Figure:
    """F12: BLEU and loss against the share of heads removed, a line for each order.

    Random orders are the line of their mean in a band of one standard deviation each way. The thin
    line across is the whole model; a ring marks the last point, least important first, before BLEU
    falls by more than chance.
    """
    (width, height), orders = PANEL, list(dict.fromkeys(path.order for path in curve.paths))
    body = (2 * (LEFT + width) + GAP, HEAD + height + 0.34)
    notes = [finding(curve), RING] if IMPORTANCE in orders else []
    facts = [*curve.facts, f"BLEU {curve.signature}"]
    with drawing():
        page = sheet(body, "Quality without heads", notes, facts)
        _legend(page, curve, orders)
        for place, (name, title) in enumerate(MEASURES.items()):
            left = LEFT + place * (LEFT + width + GAP)
            page.text(left, 0.22, Line(title, TEXT_PT, bold=True))
            axes = page.axes(left, HEAD, width, height)
            axes.set_label(f"prune {name}")
            plain_axes(axes)
            _plot(axes, curve, orders, name)
            label = f"heads removed, % of {curve.total}"
            axes.set_xlabel(label, size=TEXT_PT, color=INK, labelpad=2)
        return page.figure


def _plot(axes: Axes, curve: Curve, orders: list[str], name: str) -> None:
    share = [100 * count / curve.total for count in curve.paths[0].counts]
    axes.axhline(getattr(curve.paths[0].points[0], name), color=GREY, lw=0.6)
    for order in orders:
        colour, dash, marker = MARKS[order]
        means, spreads = zip(*curve.spread(order, name), strict=True)
        if len(curve.of(order)) > 1:
            low = [mean - spread for mean, spread in zip(means, spreads, strict=True)]
            high = [mean + spread for mean, spread in zip(means, spreads, strict=True)]
            axes.fill_between(share, low, high, color=colour, alpha=0.18, lw=0)
        axes.plot(share, means, dash, color=colour, marker=marker, ms=3.2, mew=0, lw=1.2)
    if IMPORTANCE in orders:
        place = list(curve.paths[0].counts).index(curve.dispensable())
        y = getattr(curve.of(IMPORTANCE)[0].points[place], name)
        axes.plot([share[place]], [y], "o", mfc="none", mec=ACCENT, ms=9, mew=1, clip_on=False)
    axes.set_xlim(-2, 102)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(0, 101, 20))


def _legend(page: Sheet, curve: Curve, orders: list[str]) -> None:
    """Names of the lines in one row above the plots."""
    left = LEFT
    for order in orders:
        colour, dash, marker = MARKS[order]
        count = len(curve.of(order))
        text = ORDERS[order] + (f", mean ± sd of {count}" if count > 1 else "")
        axes = page.axes(left, -0.015, 0.3, 0.14)
        axes.axis("off")
        axes.set_label(f"legend {order}")
        axes.add_line(Line2D([0.05, 0.95], [0.5, 0.5], color=colour, ls=dash, lw=1.2))
        axes.plot([0.5], [0.5], marker, color=colour, ms=3.2, mew=0)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        page.text(left + 0.34, 0.0, Line(text, SMALL_PT, INK))
        left += 0.34 + extent([text], SMALL_PT, page.families) + 0.25

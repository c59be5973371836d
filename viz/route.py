"""A picture of the route of an answer: source word → heads → token (F18)."""

from __future__ import annotations

from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from seq2seq.analysis.route import Route, Step
from seq2seq.errors import UserError
from viz.labels import Label, extent, fonts, label
from viz.sheet import Line, Sheet
from viz.style import FAINT, GREY, INK, PALE, SMALL_PT, TEXT_PT, drawing

COLOURS = {"enc": "#0072B2", "dec": "#009E73", "cross": "#D55E00"}  # Okabe and Ito
NAMES = {"enc": "encoder", "dec": "decoder", "cross": "cross"}
MAX_TOKENS = 40  # on both sides together
ROW, HEAD = 0.52, 0.44  # inches of a head's row, and of the tokens above
LEFT, RIGHT, BETWEEN = 0.85, 1.75, 0.3  # inches for names, for bars, between source and target
BAR = 0.7  # inches of an effect of 1
RADIUS = 0.1  # inches of a weight of 1
ARROW_FROM = 0.1  # least weight with an arrow


def route(found: Route) -> Figure:
    """F18: a row for each head; dots are what it attends to, the ring is where it writes.

    Raises:
        UserError: no step, or too many tokens for a legible picture.
    """
    count = len(found.source) + len(found.target) + 1
    if not found.steps:
        raise UserError("No head carries the answer, so there is no route to draw.")
    if count > MAX_TOKENS:
        raise UserError(
            f"The sentences have {count} tokens together, too many for a legible route: trace "
            f"shorter ones, of at most {MAX_TOKENS}."
        )
    tokens = [token.removeprefix("▁") or "▁" for token in (*found.source, *found.target)]
    answer, other = (token.removeprefix("▁") or "▁" for token in (found.answer, found.other))
    families, missing = fonts([*tokens, answer, other, *found.facts])
    labels = [label((token,), False, missing) for token in [*tokens, answer]]
    with drawing():
        centres, width = _columns(labels, len(found.source), families)
        height = HEAD + ROW * len(found.steps)
        page = Sheet(
            body=(width + RIGHT, height),
            title=f"The route to “{answer}” (and not “{other}”)",
            notes=[
                "read from top to bottom · dot: what the head attends to, as large as the weight · "
                "ring: where it writes · bar: causal effect of swapping the head"
            ],
            footer=[*found.facts, "layers and heads are counted from 0"],
            families=families,
            missing=missing,
            dpi=150,
        )
        axes = page.axes(0, 0, width + RIGHT, height)
        axes.set_label("route")
        axes.set(xlim=(0, width + RIGHT), ylim=(height, 0))
        axes.axis("off")
        _write_tokens(axes, labels, centres, len(found.source), families, height)
        for place, step in enumerate(found.steps):
            _draw_step(axes, step, centres, len(found.source), HEAD + ROW * (place + 0.62))
            middle = HEAD + ROW * (place + 0.62)
            page.text(0, middle - 0.13, Line(str(step.head), TEXT_PT, bold=True))
            page.text(0, middle + 0.02, Line(NAMES[step.head.kind], SMALL_PT, GREY))
            _draw_bar(axes, page, step, width + 0.12, middle)
        return page.figure


def _columns(labels: list[Label], sources: int, families: list[str]) -> tuple[list[float], float]:
    """The middle of every column and the right edge of all, in inches."""
    widths = [max(0.3, extent([text.shown], TEXT_PT, families, True) + 0.12) for text in labels]
    widths[sources - 1] += BETWEEN
    edges = [LEFT, *accumulate(widths, initial=LEFT)][1:]
    centres = [edge + width / 2 for edge, width in zip(edges, widths, strict=False)]
    centres[sources - 1] -= BETWEEN / 2
    return centres, edges[-1]


def _write_tokens(
    axes: Axes,
    labels: list[Label],
    centres: list[float],
    sources: int,
    families: list[str],
    height: float,
) -> None:
    groups = {"source": centres[:sources], "target": centres[sources:]}
    for name, places in groups.items():
        axes.text(places[0] - 0.1, 0.07, name, size=SMALL_PT, color=GREY, va="center")
    for place, (text, x) in enumerate(zip(labels, centres, strict=True)):
        last = place == len(labels) - 1
        axes.plot([x, x], [HEAD, height], color=PALE, lw=0.8, zorder=0)
        axes.text(
            x,
            0.28,
            text.shown,
            ha="center",
            va="center",
            size=TEXT_PT,
            color=INK,
            weight="bold" if last else "normal",
            family=families,
            parse_math=False,
        )


def _draw_step(axes: Axes, step: Step, centres: list[float], sources: int, y: float) -> None:
    colour = COLOURS[step.head.kind]
    first = sources if step.head.kind == "dec" else 0  # column of the first key
    # A decoder row reads one token and writes the next: it stands in the column of that one.
    query = step.query if step.head.kind == "enc" else sources + step.query + 1
    for key, weight in enumerate(step.weights):
        x = centres[first + key]
        if weight >= 0.005:
            size = (2 * RADIUS * 72 * weight**0.5) ** 2
            axes.scatter([x], [y], s=size, color=colour, lw=0, alpha=0.85, zorder=3)
        if weight >= ARROW_FROM and first + key != query:
            forward = 1 if x < centres[query] else -1
            axes.add_patch(
                FancyArrowPatch(
                    (x, y - 0.06),
                    (centres[query], y - 0.1),
                    connectionstyle=f"arc3,rad={-forward * _bend(x, centres[query])}",
                    arrowstyle="-|>,head_length=3,head_width=1.8",
                    lw=0.5 + 2 * weight,
                    color=colour,
                    alpha=0.6,
                    shrinkA=0,
                    shrinkB=1,
                    zorder=2,
                )
            )
    size = (2 * 1.15 * RADIUS * 72) ** 2
    axes.scatter([centres[query]], [y], s=size, facecolor="none", edgecolor=INK, lw=1.1, zorder=4)


def _bend(start: float, end: float) -> float:
    """The bend of an arc that rises about a third of a row, however far it goes."""
    return min(0.5, 2 * 0.2 / max(abs(end - start), 0.1))


def _draw_bar(axes: Axes, page: Sheet, step: Step, left: float, y: float) -> None:
    axes.add_patch(Rectangle((left, y - 0.06), BAR, 0.12, color=PALE, lw=0))
    filled = BAR * min(max(step.effect, 0.0), 1.0)
    axes.add_patch(Rectangle((left, y - 0.06), filled, 0.12, color=COLOURS[step.head.kind], lw=0))
    axes.plot([left, left], [y - 0.1, y + 0.1], color=FAINT, lw=0.8)
    effect = f"effect {step.effect:.2f}".replace("-", "−")
    page.text(left + BAR + 0.08, y - 0.12, Line(effect, SMALL_PT))
    page.text(left + BAR + 0.08, y + 0.01, Line(f"turns {100 * step.flips:.0f} %", SMALL_PT, GREY))

"""Pictures of finished runs in the lesson: how they learnt, how many heads, which head is which."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator

from seq2seq.analysis.matching import Matching
from seq2seq.analysis.similarity import MOST
from seq2seq.attention_maps import KINDS
from seq2seq.lesson.runs import Measured
from seq2seq.lesson.seeds import Matched
from viz.lesson import OKABE_ITO, ORANGE
from viz.sheet import Line
from viz.style import FAINT, GREY, INK, SMALL_PT, TEXT_PT, colours, drawing
from viz.summary import ACCENT, colour_bar, plain_axes, sheet, write_numbers

PANEL, LEFT = (2.5, 1.7), 0.62  # inches of a panel, and of its tick labels
DASHES, MARKS = ("-", "--", "-.", ":"), "os^Dv"
CELL = (0.34, 0.26)  # inches of a cell of the matching


def curves(runs: Sequence[Measured], facts: Sequence[str]) -> Figure:
    """Dev BLEU during training, a line for each run."""
    width, height = 4.6, 2.2
    with drawing():
        page = sheet((width + LEFT, height + 0.5), "While they learnt", [], facts)
        axes = page.axes(LEFT, 0.05, width, height)
        for place, run in enumerate(runs):
            updates, values = [u for u, _ in run.curve], [bleu for _, bleu in run.curve]
            axes.plot(
                updates,
                values,
                DASHES[place % len(DASHES)],
                color=OKABE_ITO[place % len(OKABE_ITO)],
                marker=MARKS[place % len(MARKS)],
                ms=3.5,
                lw=1.4,
                label=f"{run.name} ({run.heads} head{'s' * (run.heads != '1')})",
            )
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("updates", size=TEXT_PT, color=INK, labelpad=2)
        axes.set_ylabel("dev BLEU, greedy", size=TEXT_PT, color=INK)
        axes.legend(fontsize=SMALL_PT, frameon=False, loc="best")
        plain_axes(axes)
        return page.figure


def sweep(runs: Sequence[Measured], facts: Sequence[str]) -> Figure:
    """BLEU, mean entropy and mean divergence against the number of heads; a dot is a run."""
    quantities: dict[str, list[float | None]] = {
        "BLEU": [run.bleu.value for run in runs],
        "entropy [nats]": [run.mean("entropy") for run in runs],
        "divergence of heads [nats]": [run.mean_js() for run in runs],
    }
    width, height = PANEL
    body = (len(quantities) * (width + LEFT), height + 0.75)
    notes = [f"d_model = {runs[0].config.model.d_model}; bars: 95 % intervals; a dot is a run"]
    with drawing():
        page = sheet(body, "How many heads?", notes, facts)
        for place, (name, values) in enumerate(quantities.items()):
            left = LEFT + place * (width + LEFT)
            page.text(left, 0, Line(name, TEXT_PT, bold=True))
            axes = page.axes(left, 0.25, width, height)
            axes.set_label(name)
            _dots(axes, runs, values)
            if name == "BLEU":
                _intervals(axes, runs)
        return page.figure


def _dots(axes: Axes, runs: Sequence[Measured], values: Sequence[float | None]) -> None:
    heads = [run.config.model.encoder_heads for run in runs]
    points = [(h, v) for h, v in zip(heads, values, strict=True) if v is not None]
    axes.plot(*zip(*points, strict=True), "o", color=ACCENT, ms=4, mew=0, zorder=3)
    means = {h: [v for at, v in points if at == h] for h in sorted({h for h, _ in points})}
    axes.plot(list(means), [sum(v) / len(v) for v in means.values()], "-", color=GREY, lw=1.2)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(heads))))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(min(heads) / 1.3, max(heads) * 1.3)
    axes.set_ylim(0, 1.15 * max((v for _, v in points), default=1.0) or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("heads", size=TEXT_PT, color=INK, labelpad=2)
    plain_axes(axes)


def _intervals(axes: Axes, runs: Sequence[Measured]) -> None:
    ends = [
        (run.config.model.encoder_heads, run.bleu.low, run.bleu.high)
        for run in runs
        if run.bleu.low is not None and run.bleu.high is not None
    ]
    for heads, low, high in ends:
        axes.plot([heads, heads], [low, high], "-", color=ACCENT, lw=1, alpha=0.6)
    axes.set_ylim(0, 1.08 * max((high for _, _, high in ends), default=100.0) or 1.0)


def seeds(found: Matched, facts: Sequence[str]) -> Figure:
    """Divergence of every head of the one run from every head of the other; partners framed."""
    a, b = (run.name for run in found.compared.runs)
    layers = max(layer for _, layer in found.places) + 1
    size = max(len(place.second) for place in found.places.values())
    step = (size * CELL[0] + 0.62, size * CELL[1] + 0.62)
    body = (len(KINDS) * step[0], layers * step[1] + 0.75)
    notes = [f"rows: heads of {a}; columns: heads of {b}; framed: matched so that the sum is least"]
    with drawing():
        page = sheet(body, "Which head is which? Divergence across two runs, in nats", notes, facts)
        for (kind, layer), matching in found.places.items():
            left, top = KINDS.index(kind) * step[0], layer * step[1]
            page.text(left, top, Line(f"{kind}, layer {layer}", TEXT_PT, bold=True))
            shape = (len(matching.second) * CELL[0], len(matching.first) * CELL[1])
            axes = page.axes(left + 0.2, top + 0.36, *shape)
            axes.set_label(f"{kind}.{layer}")
            _pairs(axes, matching)
        bar = page.axes(0.2, layers * step[1] + 0.1, 2.2, 0.11)
        colour_bar(bar, Normalize(0, MOST), colours().reversed())
        return page.figure


def _pairs(axes: Axes, matching: Matching) -> None:
    scale, shades = Normalize(0, MOST), colours().reversed()  # bright: alike
    axes.imshow(matching.divergence, cmap=shades, norm=scale, aspect="auto")
    write_numbers(axes, matching.divergence, scale, shades, lambda value: f"{value:.2f}"[1:])
    for row, column in enumerate(matching.partner):
        frame = Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False)
        frame.set(edgecolor=ORANGE, linewidth=1.8)
        axes.add_patch(frame)
    axes.set_xticks(range(len(matching.second)), labels=[str(h.head) for h in matching.second])
    axes.set_yticks(range(len(matching.first)), labels=[str(h.head) for h in matching.first])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2, labelsize=SMALL_PT, labelcolor=GREY)
    for spine in axes.spines.values():
        spine.set_color(FAINT)

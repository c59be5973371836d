"""Pictures of the lesson (F16): the worked example, shapes to scale, what attention costs.

Everything drawn was measured in seq2seq.lesson; nothing is computed here but positions.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seq2seq.attention_maps import Array
from seq2seq.lesson.cost import Cost
from seq2seq.lesson.part import number, shape
from seq2seq.lesson.shapes import Shapes, Size
from seq2seq.lesson.watch import Steps
from seq2seq.lesson.worked import TOKENS, Worked
from viz.sheet import Line, Sheet
from viz.style import FAINT, GREY, INK, SMALL_PT, TEXT_PT, colours, drawing
from viz.summary import ACCENT, plain_axes, sheet, write_numbers

CELL = (0.46, 0.24)  # inches of a cell of the worked example
BETWEEN = 0.42  # inches between its matrices, with an arrow
OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c")
ORANGE = OKABE_ITO[5]
PER_512 = 2.9  # inches that 512 columns take in the picture of shapes


def worked(found: Worked) -> Figure:
    """The example from left to right, a row for each head; then both together."""
    heads = len(found.two.weights)
    columns = [
        ("W_Q = W_K = W_V", found.two.w_q),
        ("Q = K = V", found.two.query),
        ("scores Q Kᵀ", found.unscaled.scores),
        ("÷ √2", found.two.scores),
        ("softmax", found.two.weights),
        ("output = weights · V", found.two.heads),
    ]
    lefts, x = [], 0.75
    for _, values in columns:
        lefts.append(x)
        x += values.shape[2] * CELL[0] + BETWEEN
    small, tall = 2 * CELL[1] + 0.42, 4 * CELL[1] + 0.42  # rows of matrices with 2 and 4 rows
    body = (x - BETWEEN, 2 * small + heads * tall)
    notes = ["every matrix was caught in the module that translates; rows are tokens"]
    title = "Two heads on “I learn.”: d_model = 4, h = 2, d_k = 2"
    with drawing():
        page = sheet(body, title, notes, [])
        _wide(page, lefts[0], 0, "embeddings X", found.two.x)
        for head in range(heads):
            top = small + head * tall
            page.text(0, top + 0.2 + CELL[1], Line(f"head {head + 1}", TEXT_PT, bold=True))
            for left, (name, values) in zip(lefts, columns, strict=True):
                page.text(left, top, Line(name, SMALL_PT, GREY))
                _matrix(page.axes(left, top + 0.18, *_size(values[head])), values[head])
                if left > lefts[0]:
                    page.text(left - 0.28, top + 0.22 + CELL[1] / 2, Line("→", TEXT_PT, GREY))
        top = small + heads * tall
        _wide(page, lefts[0], top, "both heads, concatenated", found.two.concat)
        second = lefts[0] + 4 * CELL[0] + 1.1
        _wide(page, second, top, "output, W_O = I", found.two.out)
        page.text(second - 0.78, top + 0.22 + CELL[1] / 2, Line("→", TEXT_PT, GREY))
        return page.figure


def _wide(page: Sheet, left: float, top: float, name: str, values: Array) -> None:
    """A matrix of both tokens, with their names."""
    page.text(left, top, Line(name, SMALL_PT, GREY))
    axes = page.axes(left, top + 0.18, *_size(values))
    _matrix(axes, values)
    axes.set_yticks(range(len(TOKENS)), labels=TOKENS, size=SMALL_PT)
    axes.tick_params(axis="y", length=0, pad=2, labelcolor=GREY)


def _size(values: Array) -> tuple[float, float]:
    return values.shape[1] * CELL[0], values.shape[0] * CELL[1]


def _matrix(axes: Axes, values: Array) -> None:
    scale = Normalize(0, 1)
    axes.imshow(values, cmap=colours(), norm=scale, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
    write_numbers(axes, values, scale, colours(), number)


def shapes(found: Shapes) -> Figure:
    """Widths to scale: X, the heads' parts, their concatenation, the output."""
    rows, height, gap = ("X", "heads", "concatenation", "output"), 0.2, 0.1
    block = len(rows) * (height + gap) + 0.45
    longest = max(steps.x.shape[1] for steps in found.steps)
    left, width = 0.95, longest / 512 * PER_512
    body = (left + width + 1.3, len(found.sizes) * block - 0.25)
    notes = ["widths to scale; each colour is one head, as many columns as it is wide"]
    with drawing():
        page = sheet(body, "From the embeddings through the heads and back", notes, [])
        for place, (size, steps) in enumerate(zip(found.sizes, found.steps, strict=True)):
            top = place * block
            page.text(0, top, Line(_heading(size, steps), TEXT_PT, bold=True))
            for index, name in enumerate(rows):
                y = top + 0.2 + index * (height + gap)
                page.text(0, y + 0.03, Line(name, SMALL_PT, GREY))
                values = {"X": steps.x, "concatenation": steps.concat, "output": steps.out}
                apart = 0.02 if name == "heads" else 0.0
                wide = steps.concat if name == "heads" else values[name]
                across = wide.shape[1] / 512 * PER_512
                extra = apart * (len(steps.heads) - 1)
                axes = page.axes(left, y, across + extra, height)
                _bar(axes, steps, name, apart / (across + extra))
                text = (
                    f"{len(steps.heads)} heads of {shape(steps.heads.shape[1:])}"
                    if name == "heads"
                    else shape(wide.shape)
                )
                page.text(left + across + extra + 0.08, y + 0.03, Line(text, SMALL_PT))
        return page.figure


def _heading(size: Size, steps: Steps) -> str:
    return f"{size}: d_k = {steps.query.shape[-1]}, W_O {shape(steps.w_o.shape)}"


def _bar(axes: Axes, steps: Steps, name: str, apart: float) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.axis("off")
    if name in ("X", "output"):
        axes.add_patch(Rectangle((0, 0), 1, 1, facecolor=FAINT, linewidth=0))
        return
    heads = len(steps.heads)
    each = (1 - apart * (heads - 1)) / heads
    for head in range(heads):
        colour = OKABE_ITO[head % len(OKABE_ITO)]
        start = head * (each + apart)
        axes.add_patch(Rectangle((start, 0), each, 1, facecolor=colour, linewidth=0))


def complexity(found: Cost) -> Figure:
    """Operations by length, with the crossing; operations and score entries by number of heads."""
    width, height, left = 3.3, 2.1, 0.62
    body = (2 * (width + left) + 0.35, height + 0.75)
    notes = [f"d_model = {found.d_model}; counted by PyTorch in a pass of the module"]
    with drawing():
        page = sheet(body, "What one self-attention costs", notes, [])
        page.text(left, 0, Line("by number of tokens", TEXT_PT, bold=True))
        _by_length(page.axes(left, 0.25, width, height), found)
        second = 2 * left + width + 0.1
        page.text(second, 0, Line(f"by number of heads, {found.length} tokens", TEXT_PT, bold=True))
        _by_heads(page.axes(second, 0.25, width, height), found)
        return page.figure


def _by_length(axes: Axes, found: Cost) -> None:
    lengths = list(found.by_length)
    lines = {
        "projections": ([f.projections for f in found.by_length.values()], ACCENT, "-", "o"),
        "Q Kᵀ and A V": ([f.products for f in found.by_length.values()], ORANGE, "--", "s"),
    }
    for name, (values, colour, dash, mark) in lines.items():
        axes.loglog(lengths, values, dash, color=colour, marker=mark, ms=3.5, lw=1.4, label=name)
    axes.axvline(found.crossing, color=GREY, lw=0.7, ls=(0, (4, 3)))
    axes.text(
        found.crossing * 0.94,
        min(lines["Q Kᵀ and A V"][0]),
        f"equal at\n{found.crossing:,} tokens",
        ha="right",
        va="bottom",
        size=SMALL_PT,
        color=INK,
    )
    axes.set_xticks(lengths, labels=[f"{n:,}" for n in lengths], rotation=45)
    axes.minorticks_off()
    axes.set_ylabel("operations", size=TEXT_PT, color=INK)
    axes.legend(fontsize=SMALL_PT, frameon=False, loc="upper left")
    plain_axes(axes)


def _by_heads(axes: Axes, found: Cost) -> None:
    heads = [str(h) for h in found.by_heads]
    totals = [(f.products + f.projections) / 1e6 for f in found.by_heads.values()]
    axes.plot(heads, totals, "-o", color=ACCENT, ms=3.5, lw=1.4, label="operations [million]")
    entries = [n / 1e3 for n in found.entries_by_heads.values()]
    axes.plot(heads, entries, "--s", color=ORANGE, ms=3.5, lw=1.4, label="score entries [thousand]")
    axes.set_ylim(0, 1.3 * max(*totals, *entries))
    axes.set_xlabel("heads", size=TEXT_PT, color=INK, labelpad=2)
    axes.legend(fontsize=SMALL_PT, frameon=False, loc="upper left", ncols=2)
    plain_axes(axes)

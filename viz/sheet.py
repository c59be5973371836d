"""A sheet: a figure measured in inches, with a heading, a colour bar and a line of provenance.

Nothing is placed by trial: the heights of all lines and the widths of all labels are measured
first, and the size of the figure follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from seq2seq.analysis.quantities import NORM, ROLLOUT, quantity
from seq2seq.attention_maps import KIND_NAMES, AttentionMaps
from viz.labels import extent, readable
from viz.style import FAINT, GREY, INK, SMALL_PT, TEXT_PT, TITLE_PT, Scale

FACT = " · "  # between facts on one line
EDGE = 0.14  # inches of white all round
LEADING = 1.4  # line height / font size
BAR_SPACE = 0.7  # inches to the right of the maps for the colour bar
MIN_WIDTH = 4.4  # inches, so that headings of tiny maps need few lines
WIDENED = 1.06  # whole pixels for each letter: at 150 dpi, text is wider than at the 200 measured
MIN_BAR, MAX_BAR = 1.1, 2.4  # inches


def heading(kind: str) -> str:
    """The kind as the beginning of a title."""
    return KIND_NAMES[kind].capitalize()


@dataclass
class Line:
    """A line of text on a sheet."""

    text: str
    size: float
    colour: str = INK
    bold: bool = False

    @property
    def height(self) -> float:
        """Inches."""
        return self.size * LEADING / 72


@dataclass
class Sheet:
    """What stands around the maps; `draw` makes the figure.

    Attributes:
        body: (width, height) in inches of the maps with their labels.
        title: the first line.
        notes: lines under it.
        footer: small print at the bottom.
        families: fonts.
        missing: characters that they lack, which are written as numbers.
        dpi: of the picture as PNG.
        label: plain title for the file's metadata.
    """

    body: tuple[float, float]
    title: str
    notes: Sequence[str]
    footer: Sequence[str]
    families: list[str]
    missing: str
    dpi: int
    figure: Figure = field(init=False)

    def __post_init__(self) -> None:
        """Measure, then make the figure and write its text."""
        body_width, body_height = self.body
        width = max(body_width, MIN_WIDTH)
        head = self._wrap([Line(self.title, TITLE_PT, bold=True)], width)
        head += self._wrap([Line(note, TEXT_PT, GREY) for note in self.notes], width)
        foot = self._wrap([Line(text, SMALL_PT, GREY) for text in self.footer], width)
        self._above = EDGE + sum(line.height for line in head) + 0.1
        below = 0.1 + sum(line.height for line in foot) + EDGE
        self.width, self.height = width + 2 * EDGE, self._above + body_height + below
        self.figure = Figure(figsize=(self.width, self.height), dpi=self.dpi)
        self.figure.set_label(self.title)
        self._write(head, EDGE)
        self._write(foot, self._above + body_height + 0.1)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at these inches from the body's top left corner."""
        x = (EDGE + left) / self.width
        y = 1 - (self._above + top + height) / self.height
        return self.figure.add_axes((x, y, width / self.width, height / self.height))

    def text(self, left: float, top: float, line: Line, align: str = "left") -> None:
        """A line of text at these inches from the body's top left corner."""
        self._text(EDGE + left, self._above + top, line, align)

    def colour_bar(self, left: float, top: float, height: float, scale: Scale) -> None:
        """The scale of the numbers, in the numbers themselves."""
        axes = self.axes(left, top, 0.11, height)
        ticks = list(scale.ticks)
        bar = self.figure.colorbar(ScalarMappable(scale.norm, scale.colours), cax=axes, ticks=ticks)
        bar.ax.set_yticklabels([f"{tick:g}".replace("-", "−") for tick in ticks])
        bar.ax.tick_params(labelsize=SMALL_PT, length=2, width=0.5, color=GREY, labelcolor=INK)
        bar.ax.minorticks_off()
        bar.outline.set_edgecolor(FAINT)
        self.text(left, top - 0.17, Line(scale.name, SMALL_PT, GREY))

    def _wrap(self, lines: list[Line], width: float) -> list[Line]:
        return [
            Line(part, line.size, line.colour, line.bold)
            for line in lines
            for part in wrap(readable(line.text, self.missing), width, line, self.families)
        ]

    def _write(self, lines: list[Line], top: float) -> None:
        for line in lines:
            self._text(EDGE, top, line, "left")
            top += line.height

    def _text(self, x: float, y: float, line: Line, align: str) -> None:
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            line.text,
            ha=align,
            va="top",
            size=line.size,
            color=line.colour,
            weight="bold" if line.bold else "normal",
            family=self.families,
            parse_math=False,
        )


def wrap(text: str, width: float, line: Line, families: list[str]) -> list[str]:
    """`text` in lines of at most `width` inches: broken between facts, between words, anywhere."""

    def share(part: str) -> float:
        return WIDENED * extent([part], line.size, families, line.bold) / width

    lines: list[str] = []
    for fact in text.split(FACT):
        if lines and share(lines[-1] + FACT + fact) <= 1:
            lines[-1] += FACT + fact
            continue
        start = len(lines)
        for word in fact.split(" "):
            if len(lines) > start and share(f"{lines[-1]} {word}") <= 1:
                lines[-1] += f" {word}"
                continue
            while share(word) > 1:
                cut = max(1, int(0.9 * len(word) / share(word)))
                lines.append(word[:cut])
                word = word[cut:]
            lines.append(word)
    return lines


_SOURCES = {
    NORM: "norms ‖α f(x)‖ (Kobayashi et al. 2020)",
    ROLLOUT: "rollout (Abnar and Zuidema 2020), residual share 0.5",
}


def provenance(maps: AttentionMaps) -> list[str]:
    """Where the weights come from: run, step, how the target was found, pieces or words."""
    meta = maps.meta
    facts = [
        f"run {meta['run']}" if "run" in meta else "",
        f"checkpoint step {meta['step']}" if "step" in meta else "",
        f"weights {meta['weights_hash']}" if "weights_hash" in meta else "",
        f"{meta['removed_heads']} heads removed" if meta.get("removed_heads") else "",
        {"forced": "target given"}.get(meta.get("how", ""), meta.get("decode", "")),
        f"{maps.level}s",
        _SOURCES.get(quantity(maps), ""),
        "layers and heads are counted from 0",
    ]
    notices = [f"Note: {notice}." for notice in meta.get("notices", [])]
    return [FACT.join(fact for fact in facts if fact), *notices]

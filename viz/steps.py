"""Decoding step by step: what was written, how probable it was, what each head read (figure F7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UserError
from viz.heatmap import digits, ink_on
from viz.labels import Label, extent, label
from viz.panels import layer_title
from viz.sheet import Line, Sheet, provenance
from viz.style import FAINT, GREY, INK, MUTED, PALE, SMALL_PT, TEXT_PT, Look, drawing
from viz.view import View, require_record, view

MAX_HEADS = 4
TOP, TOP_OF_ONE = 3, 5  # keys of each row that are shown: of several heads, of a single one
ROW, HEAD = 0.2, 0.4  # inches of a step, and of the headings above
BAR = 0.55  # inches of a probability of 1
PAD, GAP = 0.06, 0.16  # inches around a text in its cell, and between columns
SHOWN_FROM = 0.005  # weights and probabilities below would be printed as 0, and are left out


@dataclass(frozen=True)
class _Step:
    """One row of the picture."""

    written: Label
    probability: float | None
    other: str  # the most probable token that was not written, with its probability


def steps(
    maps: AttentionMaps,
    kind: str,
    layer: int,
    heads: Collection[int] | None = None,
    look: Look | None = None,
) -> Figure:
    """F7: a row for each step of decoding; the keys that each head weighs most, heaviest first.

    Args:
        maps: the record.
        kind: "cross" (what it read in the source) or "dec" (in what was written before).
        layer: the layer's number in the model.
        heads: their numbers, at most `MAX_HEADS`; None: all of the layer.
        look: a reader's choices; the rows are always the tokens that are written.

    Raises:
        UserError: the encoder, which takes no steps; decoder self-attention by words, whose rows
            are words read; no such layer or head; too many heads; no record.
    """
    require_record(maps)
    weights, numbers = maps.select([kind], [layer], heads).layer(kind, layer)
    if kind == "enc":
        raise UserError("Steps are those of the decoder: take cross or dec.")
    if kind == "dec" and maps.level != "piece":
        raise UserError("Steps of decoder self-attention need pieces: its words are those read.")
    if not 1 <= len(numbers) <= MAX_HEADS:
        raise UserError(
            f"Steps show 1 to {MAX_HEADS} heads at once, not {len(numbers)}: name some of them."
        )
    look = look or Look()
    if maps.level == "piece" and look.labels != "index":
        look = replace(look, labels="out")
    others = maps.meta.get("alternatives", []) if maps.level == "piece" else []
    with drawing():
        names = [str(piece) for step in others for piece, _ in step]
        shared = view(maps, kind, [weights], look, names)
        rows = _rows(maps, shared, others)
        title = f"{layer_title(maps, kind, layer)}: what every step of decoding read"
        return _draw(maps, shared, rows, dict(zip(numbers, weights, strict=True)), title)


def _rows(maps: AttentionMaps, shared: View, others: list[list[tuple[str, float]]]) -> list[_Step]:
    probabilities = [None] * len(shared.rows) if maps.logprob is None else np.exp(maps.logprob)
    rows = []
    for place, (written, probability) in enumerate(zip(shared.rows, probabilities, strict=True)):
        other = ""
        if others:
            rest = [(p, log) for p, log in others[place] if p != maps.tgt_out[place]]
            piece, share = (rest[0][0], float(np.exp(rest[0][1]))) if rest else ("", 0.0)
            if share >= SHOWN_FROM:
                other = f"{label((piece,), False, shared.missing).shown}  {digits(share)}"
        known = None if probability is None else float(probability)
        rows.append(_Step(written, known, other))
    return rows


def _draw(
    maps: AttentionMaps, shared: View, rows: list[_Step], heads: dict[int, Array], title: str
) -> Figure:
    top = TOP_OF_ONE if len(heads) == 1 else TOP
    table = _Table(shared, rows, heads, top)
    sheet = Sheet(
        (table.width, HEAD + ROW * len(rows)),
        title,
        notes=[_note(shared, top)],
        footer=provenance(maps),
        families=shared.families,
        missing=shared.missing,
        dpi=shared.dpi,
    )
    axes = sheet.axes(0, 0, table.width, HEAD + ROW * len(rows))
    axes.set(xlim=(0, table.width), ylim=(HEAD + ROW * len(rows), 0), label="steps")
    axes.axis("off")
    table.write_steps(axes, sheet)
    for place, (number, weights) in enumerate(heads.items()):
        table.write_head(axes, sheet, place, number, weights)
    return sheet.figure


def _note(shared: View, top: int) -> str:
    columns, name = shared.axes_names[1], shared.scale.name
    repeated = ", #n where one comes again, n from 0" if _repeated(shared) else ""
    return (
        f"row: a step · right: the {top} keys with the highest {name} of each head · keys: "
        f"{columns}{repeated} · {shared.scale.described()}{shared.hidden_mass()}"
    )


def _repeated(shared: View) -> set[str]:
    """Keys that cannot be told apart by what they are called."""
    counts = Counter(key.shown for key in shared.columns)
    return {name for name, times in counts.items() if times > 1}


class _Table:
    """Where the columns of the picture stand, in inches, and what is written into them."""

    def __init__(self, shared: View, rows: list[_Step], heads: dict[int, Array], top: int) -> None:
        self.shared, self.rows, self.top = shared, rows, top
        families = shared.families
        self.captions = [self._caption(weights) for weights in heads.values()]
        number = extent([str(len(rows))], SMALL_PT, families)
        written = extent([row.written.shown for row in rows] + ["written"], TEXT_PT, families, True)
        self.number, self.written = number, number + GAP + written  # right edges
        self.bar = self.written + 0.1
        has_bar = any(row.probability is not None for row in rows)
        self.other = self.bar + (BAR + 0.4) * has_bar
        other = extent([row.other for row in rows], SMALL_PT, families)
        self.chips = self.other + (other + GAP if other else 0.0) + GAP
        again = _repeated(shared)
        self.names = [
            f"{key.shown} #{place}" if key.shown in again else key.shown
            for place, key in zip(shared.kept, shared.columns, strict=True)
        ]
        widest = digits(0.09 + float(int(max(w.max() for w in heads.values()))))
        self.chip = extent(self.names, SMALL_PT, families) + 4 * PAD
        self.chip += extent([widest], SMALL_PT, families)
        caption = extent(self.captions, SMALL_PT, families)
        self.head = max(top * self.chip, caption) + GAP
        self.width = self.chips + len(heads) * self.head - GAP

    def _caption(self, weights: Array) -> str:
        """What the head puts on keys that are not shown."""
        drawn = np.sort(weights[:, self.shared.kept], -1)[:, ::-1]
        drawn[:, : self.top][drawn[:, : self.top] >= SHOWN_FROM] = 0
        rest = drawn.sum(-1)
        return f"others: mean {rest.mean():.2f} max {rest.max():.2f}"

    def write_steps(self, axes: Axes, sheet: Sheet) -> None:
        """The left half: number, token written, probability, best other token."""
        sheet.text(self.written, 0.2, Line("written", SMALL_PT, GREY), align="right")
        if self.other > self.bar:
            sheet.text(self.bar, 0.2, Line("probability", SMALL_PT, GREY))
        if any(row.other for row in self.rows):
            sheet.text(self.other, 0.2, Line("best other", SMALL_PT, GREY))
        for place, row in enumerate(self.rows):
            y = HEAD + ROW * (place + 0.5)
            if place:
                axes.plot([0, self.width], [y - ROW / 2] * 2, color=PALE, lw=0.5, zorder=0)
            self._text(axes, self.number, y, str(place), "right", GREY)
            colour = GREY if row.written.special else INK
            text = self._text(axes, self.written, y, row.written.shown, "right", colour, TEXT_PT)
            text.set(style="italic" if row.written.special else "normal", weight="bold")
            if row.written.shown != row.written.full:
                text.set(gid=f"step{place}", label=row.written.full)
            if row.probability is not None:
                self._bar(axes, y, row.probability)
            self._text(axes, self.other, y, row.other, "left", GREY)

    def _bar(self, axes: Axes, y: float, probability: float) -> None:
        axes.add_patch(Rectangle((self.bar, y - 0.04), BAR, 0.08, color=PALE, lw=0))
        axes.add_patch(Rectangle((self.bar, y - 0.04), BAR * probability, 0.08, color=GREY, lw=0))
        self._text(axes, self.bar + BAR + 0.05, y, digits(probability), "left", INK)

    def write_head(self, axes: Axes, sheet: Sheet, place: int, number: int, weights: Array) -> None:
        """The keys of one head, heaviest first."""
        left = self.chips + place * self.head
        sheet.text(left, 0, Line(f"head {number}", TEXT_PT, bold=True))
        sheet.text(left, 0.2, Line(self.captions[place], SMALL_PT, GREY))
        drawn = weights[:, self.shared.kept]
        order = np.argsort(-drawn, axis=-1, kind="stable")[:, : self.top]
        chips = [
            self._chip(axes, step, left + rank * self.chip, int(key), float(drawn[step, key]))
            for step, keys in enumerate(order)
            for rank, key in enumerate(keys)
            if drawn[step, key] >= SHOWN_FROM
        ]
        axes.add_collection(PatchCollection(chips, match_original=True, zorder=1), autolim=False)

    def _chip(self, axes: Axes, step: int, x: float, key: int, weight: float) -> Rectangle:
        """The cell of one key, into which it is written with its weight."""
        y = HEAD + ROW * (step + 0.5)
        muted = bool(self.shared.muted[key])
        fill = MUTED if muted else self.shared.scale.rgb(weight)
        ink = GREY if muted else ink_on(self.shared.scale.rgb(weight))
        size = (self.chip - 0.03, ROW - 0.03)
        token = self.shared.columns[key]
        text = self._text(axes, x + PAD, y, self.names[key], "left", ink)
        text.set_fontstyle("italic" if token.special else "normal")
        self._text(axes, x + self.chip - 0.03 - PAD, y, digits(weight), "right", ink)
        return Rectangle((x, y - size[1] / 2), *size, facecolor=fill, lw=0.3, ec=FAINT)

    def _text(
        self,
        axes: Axes,
        x: float,
        y: float,
        text: str,
        align: str,
        ink: str,
        pt: float = SMALL_PT,
    ) -> Text:
        return axes.text(
            x, y, text, size=pt, ha=align, va="center_baseline", color=ink,
            family=self.shared.families, parse_math=False,
        )  # fmt: skip

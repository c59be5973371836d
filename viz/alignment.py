"""A cross-attention map by words, with the links it makes and those that are right (figure F6)."""

from __future__ import annotations

import dataclasses

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seq2seq.analysis.align import Gold, Links, Tally, Words, word_weights
from seq2seq.analysis.words import spell
from seq2seq.attention_maps import Array, AttentionMaps
from viz.heatmap import ink_on, label_columns, label_rows, paint
from viz.labels import extent
from viz.sheet import BAR_SPACE, MAX_BAR, MIN_BAR, Sheet, provenance
from viz.style import Look, drawing
from viz.view import View, view

LABEL_PAD = 0.1  # inches


def word_record(maps: AttentionMaps, weights: Array, words: Words, mode: str) -> AttentionMaps:
    """A record of words with one cross map, [target words, source words and end of sentence].

    Args:
        maps: the record of pieces.
        weights: [T, S] of one head, or the mean of several.
        words: of the sentence.
        mode: "out" or "in".
    """
    table = word_weights(weights, words, mode)
    source = [spell(maps.src[a:b]) for a, b in words.source]
    target = [spell(maps.tgt_out[a:b]) for a, b in words.target][: len(table)]
    none: list[Array] = []
    free = np.zeros(len(target), dtype=bool)
    return dataclasses.replace(
        maps,
        enc=none,
        dec=none,
        cross=[table[None]],
        layer_ids={"enc": [], "dec": [], "cross": [0]},
        head_ids={"enc": [], "dec": [], "cross": [[0]]},
        src=[*source, "</s>"],
        tgt_in=target,
        tgt_out=target,
        special={
            "src": np.arange(len(source) + 1) == len(source),
            "tgt_in": free,
            "tgt_out": free,
        },
        logprob=None,
        meta={**maps.meta, "level": "word"},
    )


def alignment(
    record: AttentionMaps,
    links: Links,
    gold: Gold | None = None,
    *,
    name: str = "cross-attention",
    look: Look | None = None,
) -> Figure:
    """F6: the map, a dot on every link that it makes, a frame around every link that is right.

    Args:
        record: from `word_record`.
        links: (source word, target word), as predicted.
        gold: what is right; None: not known.
        name: what made the map, for the title.
        look: a reader's choices.

    Raises:
        UserError: no record of a cross map, or a choice of `look` that words do not have.
    """
    weights = record.layer("cross", 0)[0][0]
    with drawing():
        shared = view(record, "cross", [weights[None]], look or Look())
        shared = dataclasses.replace(shared, axes_names=("target words", "source words"))
        left = extent([i.shown for i in shared.rows], shared.font, shared.families) + LABEL_PAD
        top = extent([i.shown for i in shared.columns], shared.font, shared.families) + LABEL_PAD
        width, height = shared.size
        bar = min(max(height, MIN_BAR), MAX_BAR)
        frames = " · thick frame: sure · dashed frame: possible" if gold else ""
        notes = [shared.note(), f"● predicted{frames}"]
        sheet = Sheet(
            (left + width + BAR_SPACE, top + max(height, bar)),
            f"{name}: {_score(links, gold)}" if gold else name,
            notes=notes,
            footer=provenance(record),
            families=shared.families,
            missing=shared.missing,
            dpi=shared.dpi,
        )
        axes = sheet.axes(left, top, width, height)
        axes.set_label("alignment")
        paint(axes, weights, shared)
        label_rows(axes, shared)
        label_columns(axes, shared)
        _mark(axes, weights, links, gold, shared)
        sheet.colour_bar(left + width + 0.25, top, bar, shared.scale)
        return sheet.figure


def _score(links: Links, gold: Gold) -> str:
    tally = Tally()
    tally.add(links, gold)
    if not tally.found + tally.sure:
        return "no link to find"
    parts = [f"AER {tally.aer:.3f}"]
    for word, value in (("precision", tally.precision), ("recall", tally.recall)):
        parts += [] if value is None else [f"{word} {value:.2f}"]
    return ", ".join(parts)


def _mark(axes: Axes, weights: Array, links: Links, gold: Gold | None, shared: View) -> None:
    columns = {int(key): place for place, key in enumerate(shared.kept)}
    points = shared.pitch * 72
    for s, t in sorted(gold.possible) if gold else ():
        if t < len(weights):  # in mode "in" a last word may have no row
            sure = gold is not None and (s, t) in gold.sure
            frame = Rectangle(
                (columns[s] - 0.42, t - 0.42),
                0.84,
                0.84,
                fill=False,
                edgecolor=ink_on(shared.scale.rgb(weights[t, s])),
                linewidth=max(1.0, points * (0.1 if sure else 0.05)),
                linestyle="solid" if sure else "dashed",
                gid=f"gold-{s}-{t}",
            )
            axes.add_patch(frame)
    for s, t in sorted(links):
        axes.plot(
            columns[s],
            t,
            marker="o",
            markersize=points * 0.32,
            color=ink_on(shared.scale.rgb(weights[t, s])),
            markeredgewidth=0,
            gid=f"link-{s}-{t}",
        )

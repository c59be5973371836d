"""The files of a history: curves, film strips, tables and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.history import History, emergence
from seq2seq.analysis.roles import NONE, Thresholds
from seq2seq.analysis.tables import HeadTable
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KINDS, Array, AttentionMaps
from seq2seq.errors import UserError
from viz.evolution import Losses, evolution
from viz.film import film, milestones
from viz.gallery import has_heads
from viz.page import bind
from viz.page_data import entry
from viz.page_training import training
from viz.style import render

STATISTICS = (
    "entropy",
    "confidence",
    "previous",
    "itself",
    "next",
    "distance",
    "special_mass",
    "mean_js",
)
"""What is drawn where nothing is named."""

Strip = tuple[str, int, int | None]
"""What a film strip shows: a kind, a layer and a head, or all of its heads."""

Series = list[AttentionMaps]
"""One sentence after ever more updates."""


@dataclass(frozen=True)
class Wish:
    """What to draw.

    Attributes:
        statistics: columns to draw as curves; none: STATISTICS, as far as they hold numbers.
        strips: film strips; None: of the head of each kind that changes most.
        sentence: whose strips, from 0.
        level: "piece" or "word", of the strips.
        formats: of "png", "svg", "pdf".
        frames: updates on the page, at most; 0: no page.
        kinds: on the page.
        layers: on the page; None: all.
        heads: on the page; None: all.
        limits: thresholds of the roles.
    """

    statistics: Sequence[str] = ()
    strips: Sequence[Strip] | None = None
    sentence: int = 0
    level: str = "piece"
    formats: Sequence[str] = ("png",)
    frames: int = 24
    kinds: Sequence[str] = KINDS
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    limits: Thresholds | None = None


def files(
    history: History, sentences: Sequence[Series], wish: Wish, losses: Losses = ()
) -> dict[str, bytes]:
    """All files by name; the page is made first, for it may be refused.

    Args:
        history: the numbers of all heads.
        sentences: their maps, each after ever more updates.
        wish: what to draw.
        losses: (update, training loss), to draw below the curves.

    Raises:
        UserError: a column, layer or head that is not there, or a page that would be too large.
    """
    names = wish.statistics or [name for name in STATISTICS if history.tables[-1].has(name)]
    for name in names:
        history.column(name)  # raises now rather than after a minute of drawing
    content: dict[str, bytes] = {}
    if wish.frames and sentences:
        content["history.html"] = _page(history, sentences, wish).encode("utf-8")
    content["history.csv"] = history.to_csv().encode("utf-8")
    roles = emergence(history, wish.limits)
    content["roles.csv"] = roles.to_csv().encode("utf-8")
    content["roles.md"] = roles.to_markdown().encode("utf-8")
    if sentences:
        content |= dict(_strips(history, sentences[wish.sentence], wish))
    for name in names:
        figure = evolution(history, name, losses)
        content |= {f"history_{name}.{form}": render(figure, form) for form in wish.formats}
    return content


def _strips(history: History, series: Series, wish: Wish) -> Iterator[tuple[str, bytes]]:
    if wish.level == "word":
        series = [to_words(maps) for maps in series]
    strips = _default_strips(history, series[0]) if wish.strips is None else wish.strips
    for kind, layer, head in strips:
        figure = film(series, kind, layer, head)
        name = f"film_{kind}_L{layer}" + ("" if head is None else f"H{head}")
        for form in wish.formats:
            yield f"{name}.{form}", render(figure, form)


def _default_strips(history: History, maps: AttentionMaps) -> list[Strip]:
    held = [kind for kind in KINDS if has_heads(maps, kind)]
    heads = [changed_most(history, kind) for kind in held]
    return [(head.kind, head.layer, head.head) for head in heads]


def changed_most(history: History, kind: str) -> HeadId:
    """The head of a kind whose entropy differs most between the first update and the last."""
    values = {h: v for h, v in history.values("entropy").items() if h.kind == kind}
    return max(values, key=lambda head: abs((values[head][-1] or 0.0) - (values[head][0] or 0.0)))


def _page(history: History, sentences: Sequence[Series], wish: Wish) -> str:
    shown = [_selected(series, wish) for series in sentences]
    kept = {maps.meta["step"] for maps in _frames(shown[0], wish.frames)}
    records = [maps for series in shown for maps in series if maps.meta["step"] in kept]
    tables = dict(zip(history.updates, history.tables, strict=True))
    told = training(records, {update: tables[update] for update in sorted(kept)})
    return bind([entry(maps) for maps in records], training=told)


def _selected(series: Series, wish: Wish) -> Series:
    """Only what the page is to show; a sentence without a translation has only the encoder."""
    held = [kind for kind in wish.kinds if series[0].layers(kind)]
    if not held:
        source = series[0].text["source"][:40]
        raise UserError(
            f"Of {source!r} there is no {', '.join(wish.kinds)} attention, for it was kept without "
            "a translation: give --kinds enc, or --no-page."
        )
    return [maps.select(held, wish.layers, wish.heads) for maps in series]


def _frames(series: Series, most: int) -> Series:
    flat: list[Array] = [
        np.concatenate([w.ravel() for kind in KINDS for w in maps.layers(kind)]) for maps in series
    ]
    return [series[place] for place in milestones(flat, max(most, 2))]


def findings(history: History, roles: HeadTable) -> list[str]:
    """What is printed: how many heads have a role in the end, and since when."""
    first, last = history.updates[0], history.updates[-1]
    lines = [f"{len(history.updates)} snapshots, from update {first} to {last}"]
    settled = [head for head in roles.heads if roles.rows[head]["role"] != NONE]
    if not settled:
        return [*lines, "no head reaches the threshold of a role in the end (docs/history.md)"]
    lines.append(f"{len(settled)} of {len(roles.heads)} heads have a role in the end:")
    for head in settled:
        row = roles.rows[head]
        since = f"since update {row['since']}" if "not_at" in row else "from the first snapshot on"
        before = f", not yet at {row['not_at']}" if "not_at" in row else ""
        lines.append(f"  {head}: {row['role']} {row['evidence']:.2f}, {since}{before}")
    return lines

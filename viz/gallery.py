"""Which pictures of a sentence are drawn, what their files are called, and where they may lie."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from seq2seq.analysis.heads import summarise
from seq2seq.analysis.quantities import norm_record, rollout_record
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KIND_NAMES, KINDS, AttentionMaps
from seq2seq.errors import UnfitError, UserError
from seq2seq.whole_file import write_whole
from viz import beyond, grid
from viz.diff import diff
from viz.labels import FontWarning
from viz.lines import lines
from viz.steps import steps
from viz.style import Look, render
from viz.theme import darken

FIGURES = (
    "overview", "layer", "average", "head", "lines", "steps", "diff", "norms", "rollout",
)  # fmt: skip
WEIGHTS = ("alpha", "norm")
FEW_LAYERS, FEW_TOKENS = 3, 20  # up to here, every layer of a single sentence is drawn
TOGETHER = 4  # heads in one picture of lines, steps, differences or norms

Drawing = tuple[str, Callable[[], Figure]]
"""The end of a file name, such as "cross_L2", and what draws the picture."""


@dataclass(frozen=True)
class Wish:
    """What to draw of each sentence.

    Attributes:
        figures: of FIGURES; None: overview and layer, or overview and head where heads are named.
        kinds: of "enc", "dec", "cross".
        layers: their numbers; None: the last one, or all where they are few and tokens too.
        heads: their numbers; None: all.
        level: "piece" or "word".
        weight: "alpha", or "norm" to draw ‖α f(x)‖ instead.
        formats: of "png", "svg", "pdf".
        look: colours and labels.
    """

    figures: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = KINDS
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    level: str = "piece"
    weight: str = "alpha"
    formats: tuple[str, ...] = ("png",)
    look: Look = field(default_factory=Look)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The figures, with the usual ones where none are named."""
        return self.figures or ("overview", "head" if self.heads is not None else "layer")

    def of(self, maps: AttentionMaps) -> AttentionMaps:
        """The record in the unit and the numbers that are wanted."""
        maps = to_words(maps) if self.level == "word" else maps
        return norm_record(maps) if self.weight == "norm" else maps


def pictures(
    maps: AttentionMaps, wish: Wish, *, single: bool, other: AttentionMaps | None = None
) -> Iterator[Drawing]:
    """What is to be drawn of a sentence; nothing is drawn before it is asked for.

    Args:
        maps: the record.
        wish: what to draw.
        single: whether this is the only sentence, which then gets more pictures.
        other: the record to compare with, for "diff".

    Raises:
        UserError: a kind, layer or head that the record lacks, or no record to compare with.
    """
    if "diff" in wish.chosen and other is None:
        raise UserError("A picture of differences needs a second record (--compare).")
    end = ("_words" if wish.level == "word" else "") + ("_norm" if wish.weight == "norm" else "")
    record = wish.of(maps)
    held = record.select(wish.kinds, wish.layers, wish.heads)
    theirs = None if other is None else wish.of(other)
    for kind in wish.kinds:
        if "overview" in wish.chosen and has_heads(maps, kind):
            yield f"{kind}_overview{end}", partial(grid.overview, record, kind, wish.look)
        for layer in _layers(held, kind, wish, single):
            for name, draw in _of_layer(maps, held, theirs, wish, kind, layer):
                yield f"{kind}_L{layer}{name}{end}", draw
        if "rollout" in wish.chosen:
            yield f"{kind}_rollout{end}", partial(_rollout, maps, wish, kind)


def _rollout(maps: AttentionMaps, wish: Wish, kind: str) -> Figure:
    rolled = rollout_record(maps)
    return beyond.rollout(to_words(rolled) if wish.level == "word" else rolled, kind, wish.look)


def _of_layer(
    maps: AttentionMaps,
    held: AttentionMaps,
    other: AttentionMaps | None,
    wish: Wish,
    kind: str,
    layer: int,
) -> Iterator[Drawing]:
    """The pictures of one layer; `held` has the heads that are wanted."""
    look = wish.look
    numbers = summarise(held, kind, layer) if wish.weight == "alpha" else None
    heads = held.layer(kind, layer)[1]
    if "layer" in wish.chosen:
        yield "", partial(grid.layer, held, kind, layer, look, numbers)
    if "average" in wish.chosen:
        yield "_mean", partial(grid.average, held, kind, layer, look)
    if "head" in wish.chosen:
        for head in heads:
            yield f"H{head}", partial(grid.head, held, kind, layer, head, look, numbers)
    groups = [heads[i : i + TOGETHER] for i in range(0, len(heads), TOGETHER)]
    for some in groups:
        # Named only where they are not all that the layer has.
        named = "" if some == maps.layer(kind, layer)[1] else "".join(f"H{head}" for head in some)
        if "lines" in wish.chosen:
            yield f"{named}_lines", partial(lines, held, kind, layer, some, look)
        if "steps" in wish.chosen and kind in _stepped(wish):
            yield f"{named}_steps", partial(steps, held, kind, layer, some, look)
        if other is not None and "diff" in wish.chosen:
            yield f"{named}_diff", partial(diff, held, other, kind, layer, some, look)
        if "norms" in wish.chosen:
            words = wish.level == "word"
            draw = partial(beyond.weight_vs_norm, maps, kind, layer, some, look, words=words)
            yield f"{named}_norms", draw


def _stepped(wish: Wish) -> tuple[str, ...]:
    """The kinds whose rows are steps; if there are none, all, so that the picture says why."""
    fit = ("cross",) if wish.level == "word" else ("dec", "cross")
    return tuple(kind for kind in wish.kinds if kind in fit) or wish.kinds


def has_heads(maps: AttentionMaps, kind: str) -> bool:
    """Whether a record holds any head of a kind: all of them may have been removed."""
    return any(maps.head_ids[kind])


def _layers(maps: AttentionMaps, kind: str, wish: Wish, single: bool) -> list[int]:
    held = zip(maps.layer_ids[kind], maps.head_ids[kind], strict=True)
    layers = [layer for layer, heads in held if heads]
    tokens = max(len(maps.src), len(maps.tgt_out))
    few = single and len(layers) <= FEW_LAYERS and tokens <= FEW_TOKENS
    return layers if few or wish.layers is not None else layers[-1:]


def files(
    maps: AttentionMaps, wish: Wish, *, single: bool, other: AttentionMaps | None = None
) -> tuple[dict[str, bytes], list[str]]:
    """File name endings and contents: the record and its pictures; and notes for the user.

    A picture that this sentence does not allow, such as lines of very many tokens, is left out with
    a note, unless it is all that was asked for of a single sentence.

    Raises:
        UserError: as `pictures`, and where no kind has a head to draw.
    """
    bare = [kind for kind in wish.kinds if not has_heads(maps, kind)]
    if len(bare) == len(wish.kinds):
        raise UserError("The model has no such heads left, so there is no attention to draw.")
    content, unfit = {".npz": maps.to_bytes()}, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FontWarning)
        for name, draw in pictures(maps, wish, single=single, other=other):
            try:
                figure = draw()
            except UnfitError as error:
                unfit.append(error)
                continue
            if wish.look.theme == "dark":
                darken(figure)
            for extension in wish.formats:
                content[f"_{name}.{extension}"] = render(figure, extension)
    if unfit and single and len(content) == 1:
        raise unfit[0]
    notes = [str(w.message) for w in caught if issubclass(w.category, FontWarning)]
    notes += [f"no head of {KIND_NAMES[kind]} is left, so it has no picture." for kind in bare]
    notes += [f"not drawn: {error}" for error in unfit]
    return content, list(dict.fromkeys(notes))


def place(folder: Path, number: int, content: dict[str, bytes]) -> tuple[int, list[Path]]:
    """Write a sentence's files as attn_NNN…, with the first free number from `number` on.

    A number is free if none of the files exists with other content. So nothing is ever written
    over, and a command given again finds its own files and changes nothing.

    Returns:
        The number taken, and the paths.

    Raises:
        UserError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}.") from None
    while True:
        paths = {folder / f"attn_{number:03d}{end}": data for end, data in content.items()}
        present = {path for path in paths if path.exists()}
        if all(path.read_bytes() == paths[path] for path in present):
            break
        number += 1
    for path, data in paths.items():
        if path not in present:
            write_whole(data, path)
    return number, list(paths)

"""Which pictures of a sentence are drawn, what their files are called, and where they may lie."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from seq2seq.analysis.heads import summarise
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KIND_NAMES, KINDS, AttentionMaps
from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole
from viz import grid
from viz.labels import FontWarning
from viz.style import Look, render

FIGURES = ("overview", "layer", "head", "average")
FEW_LAYERS, FEW_TOKENS = 3, 20  # up to here, every layer of a single sentence is drawn


@dataclass(frozen=True)
class Wish:
    """What to draw of each sentence.

    Attributes:
        figures: of FIGURES; None: overview and layer, or overview and head where heads are named.
        kinds: of "enc", "dec", "cross".
        layers: their numbers; None: the last one, or all where they are few and tokens too.
        heads: their numbers; None: all.
        level: "piece" or "word".
        formats: of "png", "svg", "pdf".
        look: colours and labels.
    """

    figures: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = KINDS
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    level: str = "piece"
    formats: tuple[str, ...] = ("png",)
    look: Look = field(default_factory=Look)


def pictures(maps: AttentionMaps, wish: Wish, *, single: bool) -> Iterator[tuple[str, Figure]]:
    """The figures of a sentence, each with the end of its file name, such as "cross_L2".

    Args:
        maps: the record.
        wish: what to draw.
        single: whether this is the only sentence, which then gets more pictures.

    Raises:
        UserError: a kind, layer or head that the record lacks.
    """
    maps = to_words(maps) if wish.level == "word" else maps
    chosen = maps.select(wish.kinds, wish.layers, wish.heads)
    figures = wish.figures or ("overview", "head" if wish.heads is not None else "layer")
    end = "_words" if wish.level == "word" else ""
    for kind in wish.kinds:
        if "overview" in figures and has_heads(maps, kind):
            yield f"{kind}_overview{end}", grid.overview(maps, kind, wish.look)
        for layer in _layers(chosen, kind, wish, single):
            numbers = summarise(chosen, kind, layer)
            if "layer" in figures:
                figure = grid.layer(chosen, kind, layer, wish.look, numbers)
                yield f"{kind}_L{layer}{end}", figure
            if "average" in figures:
                yield f"{kind}_L{layer}_mean{end}", grid.average(chosen, kind, layer, wish.look)
            for head in chosen.layer(kind, layer)[1] if "head" in figures else ():
                figure = grid.head(chosen, kind, layer, head, wish.look, numbers)
                yield f"{kind}_L{layer}H{head}{end}", figure


def has_heads(maps: AttentionMaps, kind: str) -> bool:
    """Whether a record holds any head of a kind: all of them may have been removed."""
    return any(maps.head_ids[kind])


def _layers(maps: AttentionMaps, kind: str, wish: Wish, single: bool) -> list[int]:
    held = zip(maps.layer_ids[kind], maps.head_ids[kind], strict=True)
    layers = [layer for layer, heads in held if heads]
    tokens = max(len(maps.src), len(maps.tgt_out))
    few = single and len(layers) <= FEW_LAYERS and tokens <= FEW_TOKENS
    return layers if few or wish.layers is not None else layers[-1:]


def files(maps: AttentionMaps, wish: Wish, *, single: bool) -> tuple[dict[str, bytes], list[str]]:
    """File name endings and contents: the record and its pictures; and notes for the user.

    Raises:
        UserError: as `pictures`, and where no kind has a head to draw.
    """
    bare = [kind for kind in wish.kinds if not has_heads(maps, kind)]
    if len(bare) == len(wish.kinds):
        raise UserError("The model has no such heads left, so there is no attention to draw.")
    content = {".npz": maps.to_bytes()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FontWarning)
        for name, figure in pictures(maps, wish, single=single):
            for extension in wish.formats:
                content[f"_{name}.{extension}"] = render(figure, extension)
    notes = [str(w.message) for w in caught if issubclass(w.category, FontWarning)]
    notes += [f"no head of {KIND_NAMES[kind]} is left, so it has no picture." for kind in bare]
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

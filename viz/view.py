"""A view: what the maps of one picture share. Labels, hidden columns, size, colour scale, fonts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from seq2seq.analysis.quantities import NAMES, NORM, ROLLOUT, WEIGHT, quantity
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UserError
from viz.labels import Label, fonts, label
from viz.style import Look, Scale, weight_scale

READ, WRITTEN = "target (as read)", "target (being written)"


def pitch(queries: int, keys: int) -> float:
    """Inches of one cell: the map is 3 inches, unless its labels would be illegible or huge."""
    return min(max(3.0 / max(queries, keys), 0.105), 0.45)


def font_size(cell: float) -> float:
    """Points of labels that do not touch at this pitch."""
    return min(max(cell * 72 / 1.25, 6.0), 10.0)


@dataclass(frozen=True)
class View:
    """What all maps of one picture share: labels, hidden columns, scale, fonts."""

    kind: str
    rows: list[Label]
    columns: list[Label]
    kept: Array  # places of the key columns that are drawn
    muted: Array  # bool, for each drawn column
    scale: Scale
    dpi: int  # of PNG pictures
    families: list[str]
    missing: str  # characters that no font has
    axes_names: tuple[str, str]  # of rows and columns
    hidden: tuple[float, float] | None  # mean and highest mass on the keys that are hidden

    @property
    def pitch(self) -> float:
        """Inches of one cell."""
        return pitch(len(self.rows), len(self.columns))

    @property
    def font(self) -> float:
        """Points of the labels."""
        return font_size(self.pitch)

    @property
    def size(self) -> tuple[float, float]:
        """Inches of one map, width and height."""
        return len(self.columns) * self.pitch, len(self.rows) * self.pitch

    def note(self) -> str:
        """The line under the title: axes, scale, and what is hidden."""
        rows, columns = self.axes_names
        note = f"query ↓ / key → · rows: {rows} · columns: {columns}"
        return f"{note} · {self.scale.described()}{self.hidden_mass()}"

    def hidden_mass(self) -> str:
        """What control tokens hide, as a further fact on a line."""
        if self.hidden is None:
            return ""
        mean, high = self.hidden
        what = "mass" if self.scale.name == NAMES[WEIGHT] else self.scale.name
        return f" · hidden {what} mean {mean:.2f} max {high:.2f}"


def view(
    maps: AttentionMaps, kind: str, weights: list[Array], look: Look, more: Iterable[str] = ()
) -> View:
    """Prepare what the maps `weights`, each [H, queries, keys], of one picture share.

    `more` is further text of the picture, for which there must be letters too.

    Raises:
        UserError: `maps` is no record, an unknown kind, or row labels that words do not have.
    """
    require_record(maps)
    maps.layers(kind)  # raises for an unknown kind
    control = maps.special[maps.key_side(kind)]
    kept = np.flatnonzero(~control if look.special == "drop" else np.ones_like(control))
    if not len(kept):
        raise UserError("special=drop leaves no column: the sentence has control tokens only.")
    hidden = None
    if look.special != "show":
        mass = np.concatenate([w[..., control].sum(-1).ravel() for w in weights])
        hidden = (float(mass.mean()), float(mass.max()))
    rows, row_flags, row_name = _row_tokens(maps, kind, look.labels)
    columns = [maps.labels(maps.key_side(kind))[i] for i in kept]
    if look.labels == "index":
        columns = [str(i) for i in kept]
    facts = [str(fact) for name, fact in maps.meta.items() if name != "alternatives"]  # not drawn
    text = "".join([*maps.text.values(), *facts])
    families, missing = fonts([*map("".join, rows), *columns, text, *more], look.font)
    most = max(len(rows), len(columns))
    return View(
        kind=kind,
        rows=[label(t, f, missing) for t, f in zip(rows, row_flags, strict=True)],
        columns=[label((t,), f, missing) for t, f in zip(columns, control[kept], strict=True)],
        kept=kept,
        muted=control[kept] & (look.special == "mute"),
        scale=_scale(maps, weights, look, most),
        dpi=look.dots(most),
        families=families,
        missing=missing,
        axes_names=(row_name, READ if kind == "dec" else "source"),
        hidden=hidden,
    )


def _scale(maps: AttentionMaps, weights: list[Array], look: Look, tokens: int) -> Scale:
    """From 0 to 1, which weights and rollout fill; norms, which have no limit, to the largest."""
    what = quantity(maps)
    # Rollout spreads over all tokens, so that a linear scale is nearly all dark.
    sqrt = look.is_sqrt(tokens) or (what == ROLLOUT and look.scale == "auto")
    if what != NORM:
        return weight_scale(sqrt, name=NAMES[what])
    top = max((float(layer.max()) for layer in weights if layer.size), default=0.0)
    return weight_scale(sqrt, top or 1.0, NAMES[what])


def _row_tokens(
    maps: AttentionMaps, kind: str, choice: str
) -> tuple[list[tuple[str, ...]], Array, str]:
    """The token or two that label each row, which rows are control tokens, what the rows are."""
    side = maps.query_side(kind)
    flags = maps.special[side]
    if choice == "index":
        return [(str(i),) for i in range(len(flags))], flags, _side_name(side)
    wanted = side if kind == "enc" else {"in": "tgt_in", "out": "tgt_out"}.get(choice, side)
    both = kind != "enc" and choice == "both"
    if maps.level != "piece" and (both or wanted != side):
        raise UserError(
            f"labels={choice} needs pieces: a row of words is the mean over the pieces of one "
            f"word ({_side_name(side)})."
        )
    if both:
        return list(zip(maps.tgt_in, maps.tgt_out, strict=True)), flags, f"{READ} → {WRITTEN}"
    return [(token,) for token in maps.labels(wanted)], maps.special[wanted], _side_name(wanted)


def _side_name(side: str) -> str:
    return {"src": "source", "tgt_in": READ, "tgt_out": WRITTEN}[side]


def require_record(maps: object) -> None:
    """Refuse what is not a record, such as the nested tuples of other libraries.

    Raises:
        UserError: says what is expected.
    """
    if not isinstance(maps, AttentionMaps):
        raise UserError(
            f"A picture needs an AttentionMaps record, not a {type(maps).__name__}: its enc, dec "
            f"and cross hold one array (heads, queries, keys) for each layer of one sentence."
        )

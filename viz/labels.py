"""Token labels that can be read: nothing invisible, nothing cut unseen, no silent boxes."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, fontManager

from seq2seq.errors import UserError

COLUMNS = 14  # a label is clipped to this width; wide East Asian characters count 2
PAIRED_COLUMNS = 10  # each of two tokens in one label
_JOINERS = "\u200c\u200d"  # shape the letters around them in Persian, Indic scripts and emoji
_PREFERRED = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans CJK KR",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
)
# Fonts that claim every character and draw a box, or draw in colours that matplotlib cannot.
_UNFIT = ("LastResort", "Last Resort", "Adobe Blank", "Color Emoji")
_CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")


class FontWarning(UserWarning):
    """Some characters have no font and are shown by their numbers."""


@dataclass(frozen=True)
class Label:
    """A token as it is and as it is shown."""

    full: str
    shown: str
    special: bool = False


def visible(text: str) -> str:
    """`text` with what cannot be seen written as ⟨U+200B⟩: invisible, control, stray marks."""
    if not text:
        return "⟨empty⟩"
    if not text.strip(" "):
        return "".join(map(number, text))
    parts = []
    for i, char in enumerate(text):
        category = unicodedata.category(char)
        between = 0 < i < len(text) - 1
        stray_mark = i == 0 and category.startswith("M")
        hidden = category in ("Cc", "Cf", "Cs", "Zl", "Zp") or (category == "Zs" and char != " ")
        if stray_mark or (hidden and not (char in _JOINERS and between)):
            char = number(char)
        parts.append(char)
    return "".join(parts)


def number(char: str) -> str:
    """A character as its Unicode number, ⟨U+200B⟩."""
    return f"⟨U+{ord(char):04X}⟩"


def columns(text: str) -> int:
    """Width in columns of a terminal: combining marks 0, East Asian wide characters 2."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int = COLUMNS) -> str:
    """`text`, cut to `width` columns with "…" at the end if it is longer."""
    if columns(text) <= width:
        return text
    used = list(accumulate(map(_columns, text)))
    return text[: sum(total < width for total in used)] + "…"


def readable(text: str, missing: str = "") -> str:
    """`text` with what is invisible, and the `missing` characters, written as numbers."""
    return visible(text).translate({ord(char): number(char) for char in missing})


def label(tokens: tuple[str, ...], special: bool, missing: str = "") -> Label:
    """The label of a token, or of two as "a → b"; `missing` characters by their numbers."""
    width = COLUMNS if len(tokens) == 1 else PAIRED_COLUMNS
    shown = [clip(readable(token, missing), width) for token in tokens]
    return Label(" → ".join(tokens), " → ".join(shown), bool(special))


def fonts(texts: Iterable[str], font: str | None = None) -> tuple[list[str], str]:
    """Font families that together draw `texts`, and the characters that none of them has.

    Missing characters are reported by one `FontWarning` that says what to install.

    Args:
        texts: all that will be drawn.
        font: a font to prefer: an installed family or a font file.

    Raises:
        UserError: `font` is neither.
    """
    characters = frozenset("".join(visible(text) for text in texts))
    families, missing = _families(characters, font)
    if missing:
        scripts = sorted({unicodedata.name(c, "UNNAMED").split()[0].split("-")[0] for c in missing})
        package = "fonts-noto-cjk" if set(scripts) & set(_CJK) else "fonts-noto-core"
        letters = [char for char in missing if not unicodedata.category(char).startswith("M")]
        sample = " ".join(letters[:6]) + (" …" if len(letters) > 6 else "")
        warnings.warn(
            f"No installed font has {sample} ({', '.join(scripts)}), shown as "
            f"{number(missing[0])}: install one (Debian, Ubuntu: {package}) or give a font file.",
            FontWarning,
            stacklevel=4,
        )
    return list(families), missing


@lru_cache(maxsize=64)
def _families(characters: frozenset[str], font: str | None) -> tuple[tuple[str, ...], str]:
    families = ["DejaVu Sans"] if font is None else [_named(font), "DejaVu Sans"]
    missing = {ord(char) for char in characters}
    for family in families:
        missing -= _coverage(font_manager.findfont(FontProperties(family=family)))
    if missing:
        for family, path in _installed():
            gained = missing & _coverage(path)
            if gained and family not in families:
                families.append(family)
                missing -= gained
            if not missing:
                break
    return tuple(families), "".join(map(chr, sorted(missing)))


def _named(font: str) -> str:
    """The family name of a font file, which is made known, or of an installed font."""
    if Path(font).is_file():
        try:
            fontManager.addfont(font)
            return FontProperties(fname=font).get_name()
        except (RuntimeError, OSError, ValueError):
            raise UserError(f"{font} is not a font file that can be read.") from None
    if font not in fontManager.get_font_names():
        raise UserError(f"There is no font {font!r}: give an installed family or a font file.")
    return font


def _installed() -> list[tuple[str, str]]:
    """(family, file) of the upright fonts of this machine, the preferred ones first."""
    upright = [entry for entry in fontManager.ttflist if entry.style == "normal"]
    upright.sort(key=lambda entry: (abs(_weight(entry) - 400), entry.fname), reverse=True)
    found = {entry.name: entry.fname for entry in upright}  # the regular weight comes last
    rank = {name: i for i, name in enumerate(_PREFERRED)}
    names = sorted(found, key=lambda name: (rank.get(name, len(rank)), name))
    return [(n, found[n]) for n in names if not any(unfit in n for unfit in _UNFIT)]


def _weight(entry: font_manager.FontEntry) -> int:
    return entry.weight if isinstance(entry.weight, int) else 400


@lru_cache(maxsize=512)
def _coverage(path: str) -> frozenset[int]:
    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (RuntimeError, OSError, ValueError):  # a damaged font is a font without characters
        return frozenset()


def extent(texts: Iterable[str], size: float, families: Sequence[str], bold: bool = False) -> float:
    """Inches that the longest of `texts` takes at `size` points, as matplotlib will draw it."""
    weight = "bold" if bold else "normal"
    font = FontProperties(family=list(families), size=size, weight=weight)
    renderer: Any = RendererAgg(1, 1, 200)  # type: ignore[no-untyped-call]
    widths = (renderer.get_text_width_height_descent(t, font, ismath=False)[0] for t in texts if t)
    return max(widths, default=0.0) / 200

"""How pictures look and how they become files: colours, fonts' sizes, and reproducible bytes.

Nothing here touches matplotlib's global state for longer than one call: figures are objects of
their own, drawn and saved inside `drawing()`, which starts from matplotlib's own defaults, so that
neither a user's settings change our pictures nor our pictures a user's settings.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.colors import Colormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole

FORMATS = ("png", "svg", "pdf")
INK, GREY, FAINT = "#1a1a1a", "#6b6b6b", "#b5b5b5"
MUTED = "#ebebeb"  # cells of control tokens that are greyed out
PALE = "#ededed"  # guides, and what bars fill
TITLE_PT, TEXT_PT, SMALL_PT = 10.5, 8.0, 6.5
LINEAR_UP_TO = 20  # tokens; with more, a linear colour scale is nearly all dark
SHORT_DPI, LONG_DPI = 150, 200  # of PNG: small letters need more pixels
VECTOR_DPI = 200  # of the maps inside PDF and SVG, which hold them as pixels
DPI_LIMITS = (50, 1200)

CHOICES = {
    "scale": ("auto", "sqrt", "linear"),
    "special": ("show", "mute", "drop"),
    "labels": ("auto", "in", "out", "both", "index"),
    "theme": ("light", "dark"),
}
# Settings that belong to the process, not to the look of a picture.
_PROCESS_SETTINGS = ("backend", "interactive", "toolbar", "webagg", "tk.", "macosx", "timezone")


@dataclass(frozen=True)
class Look:
    """The choices a reader has.

    Attributes:
        scale: colour scale: linear, sqrt (lifts small weights), or auto: sqrt above 20 tokens.
        special: keys that are control tokens: "show" them, "mute" (grey) or "drop" their columns.
            What is hidden is stated in the title and never shared out among the others.
        labels: row labels of the decoder: the token "in", the token predicted ("out"), "both",
            "auto" (in for decoder self-attention, out for cross-attention), or "index": numbers.
        font: name of an installed font, or a font file, to take characters from first.
        dpi: pixels per inch of PNG pictures; None: 150 up to 20 tokens, 200 above.
        theme: "light" or "dark" paper (`viz.theme.darken` makes it so).
    """

    scale: str = "auto"
    special: str = "show"
    labels: str = "auto"
    font: str | None = None
    dpi: int | None = None
    theme: str = "light"

    def __post_init__(self) -> None:
        """Check the choices."""
        low, high = DPI_LIMITS
        if self.dpi is not None and not low <= self.dpi <= high:
            raise UserError(f"dpi is {self.dpi}, but must be from {low} to {high}.")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise UserError(f"{name} is {value!r}, but must be one of {', '.join(choices)}.")

    def is_sqrt(self, tokens: int) -> bool:
        """Whether maps with this many tokens get the square-root scale."""
        return self.scale == "sqrt" or (self.scale == "auto" and tokens > LINEAR_UP_TO)

    def dots(self, tokens: int) -> int:
        """Pixels per inch of a PNG with this many tokens on its longer side."""
        return self.dpi or (SHORT_DPI if tokens <= LINEAR_UP_TO else LONG_DPI)


@dataclass(frozen=True, eq=False)
class Scale:
    """How numbers become colours, and what the colour bar says of it.

    Attributes:
        norm: number to 0…1.
        colours: 0…1 to colour.
        name: of the numbers, above the bar.
        ticks: numbers beside the bar.
        shape: "linear", "square-root", or "" where the bar alone says it.
    """

    norm: Normalize
    colours: Colormap
    name: str
    ticks: tuple[float, ...]
    shape: str = ""

    @property
    def top(self) -> float:
        """The number that gets the last colour."""
        return float(self.norm.vmax or 0.0)

    def described(self) -> str:
        """What a line of text says of it."""
        what = "" if self.name == "weight" else f" of {self.name}"
        return f"{self.shape} colour scale{what}"

    def rgb(self, value: float) -> tuple[float, float, float]:
        """The colour of a number."""
        red, green, blue, _ = self.colours(float(self.norm(value)))
        return red, green, blue


def weight_scale(sqrt: bool, top: float = 1.0, name: str = "weight") -> Scale:
    """Of weights, from 0 to 1, or of other numbers from 0 to `top`; more is lighter."""
    if top == 1.0:
        ticks = [0.0, 0.01, 0.1, 0.25, 0.5, 1.0] if sqrt else [0.0, 0.25, 0.5, 0.75, 1.0]
    else:
        ticks = _ticks(0.0, top)
    shape = "square-root" if sqrt else "linear"
    return Scale(norm(sqrt, top), colours(), name, tuple(ticks), shape)


def change_scale(most: float, name: str) -> Scale:
    """Of differences: purple below 0, orange above, as far to both sides."""
    most = most or 1.0
    ticks = sorted({sign * tick for tick in _ticks(0.0, most) for sign in (-1.0, 1.0)})
    return Scale(
        Normalize(-most, most),
        matplotlib.colormaps["PuOr_r"].with_extremes(bad=MUTED),
        name,
        tuple(dict.fromkeys(0.0 if tick == 0 else tick for tick in ticks)),
    )


def _ticks(low: float, high: float) -> list[float]:
    return [float(t) for t in MaxNLocator(4).tick_values(low, high) if low <= t <= high]


def norm(sqrt: bool, top: float = 1.0) -> Normalize:
    """Weight 0…top to 0…1; the same for all heads of a picture."""
    return PowerNorm(0.5, vmin=0.0, vmax=top) if sqrt else Normalize(0.0, top)


def colours() -> Colormap:
    """Cividis: readable with any colour vision, and lightness rises with the weight throughout."""
    return matplotlib.colormaps["cividis"].with_extremes(bad=MUTED)


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib's defaults and what reproducible files need; the user's settings come back."""
    settings: Any = {
        key: value
        for key, value in matplotlib.rcParamsDefault.items()
        if not key.startswith(_PROCESS_SETTINGS)
    }
    settings |= {
        "pdf.fonttype": 42,  # TrueType: text stays text, in any viewer and for any publisher
        "svg.fonttype": "path",
        "svg.hashsalt": "seq2seq",
        "font.family": ["DejaVu Sans"],
        "text.hinting": "none",  # letters as wide at any resolution as they were measured
        "axes.linewidth": 0.5,
    }
    with matplotlib.rc_context(settings):
        yield


def render(figure: Figure, extension: str) -> bytes:
    """The picture as the content of a file; the same picture always gives the same bytes.

    Raises:
        UserError: a format other than png, svg and pdf.
    """
    if extension not in FORMATS:
        raise UserError(f"Pictures cannot be {extension!r}: take {', '.join(FORMATS)}.")
    dates = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}
    metadata = {dates[extension]: None, "Title": figure.get_label() or None}
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(
            buffer,
            format=extension,
            dpi=figure.dpi if extension == "png" else VECTOR_DPI,
            metadata=metadata,
        )
    content = buffer.getvalue()
    return _with_titles(figure, content) if extension == "svg" else content


def save(figure: Figure, path: str | Path) -> None:
    """Write a picture, all of it or nothing; the ending decides the format.

    Raises:
        UserError: an unknown ending, or the file cannot be written.
    """
    path = Path(path)
    write_whole(render(figure, path.suffix.removeprefix(".").lower()), path)


def _with_titles(figure: Figure, svg: bytes) -> bytes:
    """Give clipped labels a <title>, which browsers show in full under the pointer."""
    for text in figure.findobj(Text):
        name, full = text.get_gid(), str(text.get_label())
        if name:
            group = f'<g id="{name}">'.encode()
            title = f"<title>{escape(full)}</title>".encode("utf-8", "replace")
            svg = svg.replace(group, group + title, 1)
    return svg

"""The dark theme: the few colours that all figures share, exchanged for their dark partners."""

from __future__ import annotations

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from viz.style import FAINT, GREY, INK, MUTED, PALE

PAPER = "#11141a"  # these are also the page's
PARTNERS = {
    INK: "#eceae4",
    "black": "#eceae4",
    GREY: "#a3a8b4",
    FAINT: "#4a5160",
    MUTED: "#2b303a",
    PALE: "#232936",
    "white": PAPER,
}
_PARTNERS = {to_rgba(light)[:3]: to_rgba(dark)[:3] for light, dark in PARTNERS.items()}


def darken(figure: Figure) -> Figure:
    """Exchange the colours of a figure, which is returned; once more changes nothing.

    Colours that mean something stay: those of maps and their numbers, of heads and kinds.
    """
    written = {text for axes in figure.axes for text in axes.texts}  # some of it on coloured cells
    for artist in figure.findobj():
        if not (artist in written and artist.get_color() in ("black", "white")):
            _darken(artist)
    return figure


def _darken(artist: Artist) -> None:
    if isinstance(artist, Text):
        artist.set_color(_partner(artist.get_color()))
    elif isinstance(artist, Line2D):
        artist.set_color(_partner(artist.get_color()))
        artist.set_markeredgecolor(_partner(artist.get_markeredgecolor()))
        artist.set_markerfacecolor(_partner(artist.get_markerfacecolor()))
    elif isinstance(artist, Patch):
        artist.set_edgecolor(_partner(artist.get_edgecolor()))
        artist.set_facecolor(_partner(artist.get_facecolor()))
    elif isinstance(artist, Collection) and artist.get_array() is None:
        artist.set_edgecolor(list(map(_partner, artist.get_edgecolor())))
        artist.set_facecolor(list(map(_partner, artist.get_facecolor())))
    elif isinstance(artist, Axes):
        for image in artist.images:
            _of_muted(image)


def _of_muted(image: ScalarMappable) -> None:
    """What is greyed out in a map is grey on dark paper, too."""
    colours = image.get_cmap()
    bad = colours.get_bad()
    image.set_cmap(colours.with_extremes(bad=_partner(bad)))


def _partner(colour: Any) -> Any:
    """The dark partner of a colour, as transparent as it is; the colour itself if it has none."""
    if isinstance(colour, str) and colour in ("none", "auto"):
        return colour
    red, green, blue, alpha = to_rgba(colour)
    return (*_PARTNERS.get((red, green, blue), (red, green, blue)), alpha)

"""The page: every head of one or many sentences in a single HTML file that needs no network.

A page is a fixed shell (viz/assets) around data. Text goes in as JSON in which no character can
close a tag; weights as 16-bit numbers in base64, which the browser unpacks when a sentence is
opened. The content security policy allows exactly the style sheet and the two scripts of the shell,
by their hashes, so a page can neither run anything else nor ask any server for anything: a small
loader, and the program (viz/assets/*.js in the order of SCRIPTS), which the page holds deflated
together with its style sheet and its body.

Importing this module also lets a record show itself in notebooks (`Notebook`).
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import AttentionMaps
from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole
from viz.page_data import Entry, entry, fits_plain, text_of
from viz.page_tables import marks, of_heads

MAX_MB = 8.0  # of a page; beyond it browsers get slow and mail servers refuse
SCRIPTS = (
    *("data", "state", "paint", "heads", "map", "inspect", "lines", "steps"),
    *("output", "training", "keys", "controls"),
)
NEXT = "<<next>>"  # stands in the frame where policy, data, program and loader go
FRAME_HEIGHT = 900  # pixels in a notebook


def write(records: Iterable[AttentionMaps], path: str | Path, **options: object) -> None:
    """Write the page of `records` (see `html` for the options), all of it or nothing.

    Raises:
        UserError: as `html`, or the file cannot be written.
    """
    write_whole(html(records, **options).encode("utf-8"), Path(path))  # type: ignore[arg-type]


def html(
    records: Iterable[AttentionMaps],
    *,
    paired: bool = False,
    table: HeadTable | None = None,
    start: Mapping[str, str] | None = None,
    training: Mapping[str, object] | None = None,
    max_mb: float = MAX_MB,
) -> str:
    """One self-contained page; equal records give equal pages.

    Args:
        records: sentences in the order in which the page lists them.
        paired: records come as A, B, A, B …, such as one sentence in two checkpoints; the page
            opens on a comparison. Without it, any two sentences can be compared by hand.
        table: numbers of heads over many sentences, by which heads can be sorted and filtered; its
            column "roles" names what they do.
        start: what the page opens on, in the terms of its links: {"head": "cross.2.1",
            "level": "word", "special": "mute", "view": "lines"} (docs/page.md).
        training: what `viz.page_training.training` says of the records, which then are sentences
            after ever more updates: a slider leads through them.
        max_mb: largest page, in 10⁶ bytes.

    Raises:
        UserError: there is no record, one is not a record or breaks an invariant, or the page
            would be larger than `max_mb`.
    """
    entries = [entry(maps) for maps in records]
    if not entries:
        raise UserError("A page needs at least one record.")

    return bind(entries, paired=paired, table=table, start=start, training=training, max_mb=max_mb)


def bind(
    entries: Sequence[Entry],
    *,
    paired: bool = False,
    table: HeadTable | None = None,
    start: Mapping[str, str] | None = None,
    training: Mapping[str, object] | None = None,
    max_mb: float = MAX_MB,
) -> str:
    """As `html`, of sentences that were made ready before.

    Raises:
        UserError: pairs are incomplete, or the page would be larger than `max_mb`.
    """
    if paired and len(entries) % 2:
        raise UserError(f"A paired page needs records A, B, A, B …, not {len(entries)} of them.")
    plain = fits_plain(entries)
    data = {
        "colours": {"cividis": _table("cividis"), "difference": _table("PuOr_r")},
        "packed": not plain,
        "paired": paired,
        "start": dict(start or {}),
        **of_heads(table),
        **marks(table),
        **({"training": training} if training else {}),
        "records": [one.facts for one in entries],
    }
    try:
        blocks = [f'<script type="application/json" id="data">{text_of(data)}</script>']
    except ValueError:
        raise UserError(
            "A page's numbers must be finite: a statistic is NaN or infinite."
        ) from None
    for number, one in enumerate(entries):
        weights = base64.b64encode(one.raw if plain else one.packed).decode("ascii")
        blocks.append(f'<script type="text/plain" id="weights-{number}">{weights}</script>')
    before, after = shell()
    page = before + "\n".join(blocks) + after
    if len(page) > max_mb * 1e6:
        fewer = "updates (--frames) or fewer" if training else "or shorter"
        raise UserError(
            f"The page would have {len(page) / 1e6:.1f} MB, more than {max_mb:g}: keep fewer "
            f"kinds, layers or heads (--kinds, --layers, --heads), or fewer {fewer} sentences."
        )
    return page


@lru_cache(maxsize=1)
def shell() -> tuple[str, str]:
    """All of a page but its data: what stands before it, and after."""
    assets = files("viz") / "assets"

    def read(*names: str) -> str:
        return _compact("\n".join((assets / name).read_text(encoding="utf-8") for name in names))

    style, body, loader = read("page.css"), read("page.html"), read("loader.js")
    script = read(*(f"{name}.js" for name in SCRIPTS))
    program = f'"use strict";(async()=>{{\n{script}\n}})();'
    inside = "\0".join((style, body, program)).encode()
    packed = base64.b64encode(zlib.compress(inside, 9)).decode("ascii")
    policy = (
        f"default-src 'none'; script-src '{_digest(loader)}' '{_digest(program)}'; "
        f"style-src '{_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    before, start, *rest = read("frame.html").split(NEXT)
    return before + policy + start, rest[0] + packed + rest[1] + loader + rest[2]


def _compact(text: str) -> str:
    """Without indentation, empty lines and whole-line comments; the files keep them for readers."""
    text = re.sub(r"^[ \t]*/\*.*?\*/[ \t]*\n", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


@lru_cache(maxsize=2)
def _table(name: str) -> str:
    """A colour map as 256 RGB bytes in base64."""
    import matplotlib

    colours = matplotlib.colormaps[name](np.arange(256), bytes=True)[:, :3]
    return base64.b64encode(np.ascontiguousarray(colours).tobytes()).decode("ascii")


class Notebook:
    """Records as the output of a notebook cell: their page in a frame of its own.

    The frame is sandboxed: it cannot touch the notebook, nothing is loaded, and several in one
    notebook know nothing of each other.

    Args:
        records: one record or several.
        height: of the frame, in pixels.
        options: as of `html`.
    """

    def __init__(
        self,
        records: AttentionMaps | Iterable[AttentionMaps],
        *,
        height: int = FRAME_HEIGHT,
        **options: object,
    ) -> None:
        found = [records] if isinstance(records, AttentionMaps) else list(records)
        self.page = html(found, **options)  # type: ignore[arg-type]
        self.height = height

    def _repr_html_(self) -> str:
        return (
            '<iframe title="attention maps" sandbox="allow-scripts allow-downloads" '
            f'style="width:100%;height:{self.height}px;border:0" '
            f'srcdoc="{escape(self.page, quote=True)}"></iframe>'
        )


# Records know nothing of pictures (dependencies run one way), so pictures make themselves known.
setattr(AttentionMaps, "_repr_html_", lambda maps: Notebook(maps)._repr_html_())  # noqa: B010

"""The lesson as one HTML page: claims with their numbers, pictures and tables, and a small lab.

It needs no network. What it says stands in it as text; its script only lets readers change the
worked example.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

from seq2seq.analysis.tables import Column, Value
from seq2seq.attention_maps import Array
from seq2seq.lesson.part import Claim, Part, Table, cell, number
from seq2seq.lesson.worked import TOKENS, Worked, divergence
from viz.report import Picture

ENLARGED = 1.9  # pixels for a point: to be read from the back of a room
OPEN_ROWS = 13  # longer tables are folded


@dataclass(frozen=True)
class Section:
    """A part of the lesson with its pictures; `lab` is the worked example to play with."""

    part: Part
    pictures: Sequence[Picture] = field(default=())
    lab: Worked | None = None


def html(sections: Sequence[Section], facts: Sequence[str]) -> str:
    """The page; equal sections give equal pages.

    Args:
        sections: in the order of the lesson.
        facts: where all of it comes from, a line each.
    """
    style = _asset("report.css") + _asset("lesson.css")
    script = _asset("lesson.js")
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'",
        "style": style,
        "facts": _items(facts),
        "nav": "".join(map(_link, sections)),
        "sections": "\n".join(map(_section, sections)),
        "summary": "".join(
            f'<tr><td class="text">{escape(claim.says)}</td>'
            f'<td class="text verdict">{claim.verdict.sign} {claim.verdict}</td></tr>'
            for section in sections
            for claim in section.part.claims
        ),
        "script": script,
    }
    # Cut at the marks first: no content is searched for marks.
    first, *rest = _asset("lesson.html").split("<<")
    filled = [first]
    for piece in rest:
        name, _, text = piece.partition(">>")
        filled += [parts[name], text]
    return "".join(filled)


def _asset(name: str) -> str:
    return (files("viz") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def _link(section: Section) -> str:
    part = section.part
    return f'<li><a href="#h-{part.name}">{escape(part.title)}</a></li>'


def _section(section: Section) -> str:
    part = section.part
    pieces = [
        f'<section aria-labelledby="h-{part.name}">',
        f'<h2 id="h-{part.name}">{escape(part.title)}</h2>',
        f'<p class="about">{escape(part.about)}</p>',
    ]
    if section.lab is not None:
        pieces.append(_lab(section.lab))
    pieces += ['<ol class="claims">', *map(_claim, part.claims), "</ol>"]
    if section.lab is None:  # which shows what the picture would
        pieces += map(_figure, section.pictures)
    pieces += map(_table, part.tables)
    if part.facts:
        pieces.append(
            f'<ul class="facts">{"".join(f"<li>{escape(f)}</li>" for f in part.facts)}</ul>'
        )
    return "\n".join([*pieces, "</section>"])


def _claim(claim: Claim) -> str:
    look = f'<p class="look">Look: {escape(claim.look)}</p>' if claim.look else ""
    return (
        f'<li class="{claim.verdict.name}"><p class="says">{escape(claim.says)}</p>'
        f'<p class="measured">{escape(claim.measured)}</p>'
        f'<p class="verdict">{claim.verdict.sign} {claim.verdict}</p>{look}</li>'
    )


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode("ascii")
    caption = escape(picture.caption)
    wide = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', picture.svg)
    width = f' width="{float(wide[1]) * ENLARGED:.0f}"' if wide else ""
    return (
        f'<figure id="fig-{escape(picture.name)}"><div tabindex="0" role="region" '
        f'aria-label="Picture {escape(picture.name)}"><img alt="{caption}"{width} '
        f'src="data:image/svg+xml;base64,{data}"></div><figcaption>{caption}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    listing = table.listing
    numeric = [
        any(isinstance(row[place], int | float) for row in listing.rows)
        for place in range(len(listing.columns))
    ]
    head = "".join(map(_header, listing.columns, numeric))
    rows = "".join(_row(listing.columns, row, numeric) for row in listing.rows)
    title = escape(table.title)
    body = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table: {title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    if len(listing.rows) > OPEN_ROWS:
        return f"<details><summary>{title} ({len(listing.rows)} rows)</summary>{body}</details>"
    return f"<h3>{title}</h3>{body}"


def _header(column: Column, numeric: bool) -> str:
    unit = f' <span class="unit">[{escape(column.unit)}]</span>' if column.unit else ""
    title = f' title="{escape(column.meaning)}"' if column.meaning else ""
    kind = "" if numeric else ' class="text"'
    return f'<th scope="col"{kind}{title}>{escape(column.name)}{unit}</th>'


def _row(columns: Sequence[Column], row: Sequence[Value], numeric: Sequence[bool]) -> str:
    first, *others = [escape(cell(c, v)) for c, v in zip(columns, row, strict=True)]
    cells = "".join(
        f"<td>{text}</td>" if is_number else f'<td class="text">{text}</td>'
        for text, is_number in zip(others, numeric[1:], strict=True)
    )
    return f'<tr><th scope="row">{first}</th>{cells}</tr>'


def _lab(found: Worked) -> str:
    """The worked example: every matrix as the module made it, for the script to change."""
    two = found.two
    pieces = [
        '<div id="lab" role="group" aria-label="The worked example">',
        '<div class="bar" hidden><fieldset><legend>heads</legend>'
        '<label><input type="radio" name="heads" value="2" checked> two of width 2</label>'
        '<label><input type="radio" name="heads" value="1"> one of width 4</label></fieldset>'
        '<label><input type="checkbox" id="scaled" checked> divide by √d_k</label>'
        '<button id="reset" type="button">as in the lesson</button></div>',
        '<div class="flow"><h3>input</h3>',
        _matrix("x", "X: change an entry", two.x, TOKENS),
        "</div>",
    ]
    for head in range(len(two.weights)):
        matrices = [
            _matrix(f"w{head}", "W_Q = W_K = W_V", two.w_q[head]),
            _matrix(f"query{head}", "Q = K = V", two.query[head]),
            _matrix(f"scores{head}", "Q Kᵀ", found.unscaled.scores[head]),
            _matrix(f"divided{head}", "÷ √2", two.scores[head], kind="divided"),
            _matrix(f"weights{head}", "softmax: weights", two.weights[head]),
            _matrix(f"output{head}", "weights · V", two.heads[head]),
        ]
        pieces.append(
            f'<div class="flow" id="head{head}"><h3>head {head + 1}</h3>{"".join(matrices)}</div>'
        )
    pieces += [
        f'<div class="flow"><h3>together</h3>{_matrix("concat", "side by side", two.concat)}'
        f"{_matrix('out', '· W_O, the identity: output', two.out)}</div>",
        '<p id="readout" role="status">The first token\'s weight on itself: '
        f"{' and '.join(f'{w:.12f}' for w in two.weights[:, 0, 0])}; JS(head 1, head 2) = "
        f"{divergence(two):.6f} nats</p>",
        "</div>",
    ]
    return "\n".join(pieces)


def _matrix(
    name: str, caption: str, values: Array, rows: Sequence[str] = (), *, kind: str = ""
) -> str:
    lines = []
    for place, row in enumerate(values.tolist()):
        label = f'<th scope="row">{escape(rows[place])}</th>' if rows else ""
        cells = "".join(f'<td data-v="{value!r}">{number(value)}</td>' for value in row)
        lines.append(f"<tr>{label}{cells}</tr>")
    return (
        f'<table class="m{" " + kind if kind else ""}" id="m-{name}">'
        f"<caption>{escape(caption)}</caption><tbody>{''.join(lines)}</tbody></table>"
    )

"""The report on all heads as one HTML file: what stands out, every number, and the pictures.

It needs no network, and no script but for sorting: what it says stands in it as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import KIND_NAMES
from viz.summary import kinds_of

MAIN = (
    "verdict",
    "roles",
    "loss_change",
    "loss_p_holm",
    "bleu_change",
    "bleu_p_holm",
    "importance",
    "confidence",
    "entropy",
    "distance",
    "previous",
    "next",
    "special_mass",
    "nearest",
    "nearest_js",
)
"""The columns that the table shows at first, in this order; the others on demand."""


@dataclass(frozen=True)
class Picture:
    """A picture of the report.

    Attributes:
        name: for the name of its file.
        svg: its content.
        caption: one sentence on how to read it; also what screen readers say.
    """

    name: str
    svg: bytes
    caption: str


def html(
    table: HeadTable,
    *,
    title: str,
    findings: Sequence[str],
    pictures: Sequence[Picture],
    also: Collection[str] = (),
) -> str:
    """The page.

    Args:
        table: the numbers.
        title: what the report is about.
        findings: sentences on what stands out.
        pictures: in order.
        also: columns to show at first beside `MAIN`.
    """
    shown = [*MAIN[:2], *also, *MAIN[2:]]
    rank = {name: place for place, name in enumerate(shown)}
    columns = sorted(table.columns, key=lambda column: rank.get(column.name, len(rank)))
    table = replace(table, columns=columns)
    style, script = _asset("report.css"), _asset("report.js")
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'",
        "style": style,
        "title": escape(title),
        "facts": _items(table.facts),
        "findings": _items(findings),
        "kinds": "".join(f'<option value="{k}">{KIND_NAMES[k]}</option>' for k in _kinds(table)),
        "header": _header(table.columns, shown),
        "rows": "\n".join(_row(head, table, shown) for head in table.heads),
        "figures": "\n".join(map(_figure, pictures)),
        "meanings": "".join(
            f"<dt>{escape(c.header)}</dt><dd>{escape(c.meaning)}</dd>" for c in table.columns
        ),
        "script": script,
    }
    # Cut at the marks first: no content is searched for marks.
    first, *rest = _asset("report.html").split("<<")
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


def _kinds(table: HeadTable) -> list[str]:
    return kinds_of(table.heads)


def _header(columns: Sequence[Column], shown: Collection[str]) -> str:
    cells = ['<th scope="col" class="text" data-name="head"><button>head</button></th>']
    for column in columns:
        unit = f"<small>{escape(column.unit)}</small>" if column.unit else ""
        cells.append(
            f'<th scope="col"{_class(column, shown)} data-name="{escape(column.name)}" '
            f'title="{escape(column.meaning)}"><button>{escape(_words(column.name))}</button>{unit}</th>'
        )
    return "".join(cells)


def _row(head: HeadId, table: HeadTable, shown: Collection[str]) -> str:
    cells = [f'<tr data-kind="{head.kind}"><th scope="row">{head}</th>']
    for column in table.columns:
        value = table.rows[head].get(column.name)
        cells.append(f"<td{_class(column, shown)}{_data(value)}>{escape(column.show(value))}</td>")
    return "".join([*cells, "</tr>"])


def _class(column: Column, shown: Collection[str]) -> str:
    names = ["text"] if column.name in ("verdict", "roles", "nearest") else []
    if column.name not in shown:
        names.append("more")
    return f' class="{" ".join(names)}"' if names else ""


def _data(value: Value) -> str:
    return f' data-v="{value:.9g}"' if isinstance(value, int | float) else ""


def _words(name: str) -> str:
    return name.replace("_", " ")


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure id="{escape(picture.name)}"><div><img alt="{caption}" '
        f'src="data:image/svg+xml;base64,{data}"></div><figcaption>{caption}</figcaption></figure>'
    )

"""The files of a lesson: its page, its text, its tables and its pictures."""

from __future__ import annotations

from collections.abc import Sequence

from viz.lesson_page import Section, html
from viz.lesson_parts import Built
from viz.report import Picture
from viz.style import render


def files(
    built: Sequence[Built], facts: Sequence[str], formats: Sequence[str] = ()
) -> dict[str, bytes]:
    """All files, by name.

    Args:
        built: the parts, in order.
        facts: where all of it comes from, a line each.
        formats: of "png", "svg", "pdf"; in each, the pictures are files too.
    """
    sections = [
        Section(
            one.part,
            [Picture(d.name, render(d.figure, "svg"), d.caption) for d in one.drawn],
            one.lab,
        )
        for one in built
    ]
    texts = {
        "lesson.html": html(sections, facts),
        "lesson.txt": "\n".join([*(one.part.to_text() for one in built), *facts, ""]),
    }
    for one in built:
        for table in one.part.tables:
            listing = table.listing.with_facts([*one.part.facts, *facts])
            texts[f"{table.name}.csv"] = listing.to_csv()
    found = {name: text.encode("utf-8") for name, text in texts.items()}
    for drawn in (drawn for one in built for drawn in one.drawn):
        for extension in formats:
            found[f"lesson_{drawn.name}.{extension}"] = render(drawn.figure, extension)
    return found

"""What `seq2seq trace` says and writes: sentences, tables, and a picture of each route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.route import Route, find_steps
from seq2seq.analysis.study import IT, Answer
from seq2seq.analysis.trace import Listing
from seq2seq.analysis.trace_tables import by_head, every_row, report, stacked, summary
from seq2seq.analysis.verdict import carriers, verdict
from seq2seq.analysis.verdict import route as route_in_words
from seq2seq.errors import UserError
from viz.route import route
from viz.style import render

TITLES = {
    "probes": "All probes",
    "places": "Where they are swapped",
    "pairs": "Two heads together",
    "links": "Grammatical links: weights only, no intervention",
}


def said(answers: Sequence[Answer]) -> list[str]:
    """Lines for the terminal: tables of all probes, and what was found in words."""
    lines = [*report(answers), ""] if answers[0].study.name else []
    for answer in answers:
        found = _sentences(answer)
        lines += found if answer.study.name in ("", IT) else found[:1]  # the page has all
    return lines


def content(
    tokenizer: PieceTokenizer,
    answers: Sequence[Answer],
    links: Listing | None,
    facts: Sequence[str],
    picture: str,
) -> tuple[dict[str, bytes], list[str]]:
    """The files, by name, and notes on what could not be drawn.

    Args:
        tokenizer: spells the pieces of the pictures.
        answers: at least one.
        links: the table of weights along links, if there is one.
        facts: about the run.
        picture: format of the pictures.
    """
    heads = by_head(answers)
    heads = replace(heads, facts=[*facts, *heads.facts])
    listings = {
        "places": stacked(answers, lambda answer: answer.places),
        "pairs": stacked(answers, lambda answer: answer.couples),
    }
    if answers[0].study.name:
        listings = {"probes": summary(answers), "trace": every_row(answers), **listings}
    listings = {name: listing.with_facts(heads.facts) for name, listing in listings.items()}
    if links:
        listings["links"] = links.with_facts([*facts, *links.facts])
    texts = {"trace.md": _page(answers, listings, facts), "heads.csv": heads.to_csv()}
    texts |= {f"{name}.csv": listing.to_csv() for name, listing in listings.items()}
    found = {name: text.encode("utf-8") for name, text in texts.items()}
    notes = []
    for answer in answers:
        named = f"_{answer.study.name}" if len(answers) > 1 else ""
        try:
            drawn = route(_route(tokenizer, answer, facts))
        except UserError as reason:  # no route, or one too long to draw: the tables stand
            notes.append(f"No picture of the route to {answer.study.what}: {reason}")
        else:
            found[f"route{named}.{picture}"] = render(drawn, picture)
    return found, notes


def _sentences(answer: Answer) -> list[str]:
    start = f"{answer.study.name}: " if answer.study.name else ""
    whole = verdict(answer.table, answer.study.runs, answer.together, answer.study.what)
    return [start + whole, *("  " * bool(start) + line for line in route_in_words(answer.table))]


def _page(answers: Sequence[Answer], listings: dict[str, Listing], facts: Sequence[str]) -> str:
    parts = ["# Which heads decide\n", *(f"{fact}  " for fact in facts), ""]
    if "probes" in listings:
        parts += [f"## {TITLES['probes']}\n", listings["probes"].to_markdown()]
    for answer in answers:
        name = answer.study.name
        parts += [f"## Heads: {name}\n" if name else "## Heads\n"]
        parts += [f"{line.strip()}\n" for line in _sentences(answer)]
        parts.append(answer.table.to_markdown())
    for name in ("places", "pairs", "links"):
        if name in listings:
            parts += [f"## {TITLES[name]}\n", listings[name].to_markdown()]
    return "\n".join(parts)


def _route(tokenizer: PieceTokenizer, answer: Answer, facts: Sequence[str]) -> Route:
    runs = answer.study.runs
    example = runs.contrasts[0]
    token, other = tokenizer.target_pieces([example.token, example.other_token])
    return Route(
        tokenizer.source_pieces(example.source),
        tokenizer.target_pieces(example.target_in),
        token,
        other,
        find_steps(runs, answer.table, carriers(answer.table)),
        [*facts, *answer.table.facts],
    )

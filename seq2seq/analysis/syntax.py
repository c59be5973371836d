"""Syntactic roles: heads that look along one kind of dependency link (Voita et al. 2019).

A head has the role if its greatest weight (control tokens aside) falls on the other word of the
link at least ten points more often than the best fixed offset would. Both directions are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervals import wilson
from seq2seq.analysis.links import (
    TO_DEPENDENT,
    TO_HEAD,
    Annotation,
    LinkCounts,
    Parsed,
    Question,
    grammar_annotation,
)
from seq2seq.analysis.roles import Role
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.analysis.trace import Listing
from seq2seq.data.conllu import Tree
from seq2seq.data.grammar import GrammarPair

RELATIONS = ("nsubj", "obj", "amod", "advmod")  # those of Voita et al.
OF_GRAMMAR = {
    "subject": "nsubj",
    "object": "obj",
    "attributive": "amod",
    "particle": "compound:prt",
    "antecedent": "antecedent",
}
"""The links of the embedded grammar, by the names of Universal Dependencies if they have one."""
LEAST = 30  # links, below which a share says nothing
MARGIN = 0.1  # by which a head must beat the best fixed offset

COLUMNS = (
    Column("syntactic", "of links", "links that the head finds, of the kind in the next column", 2),
    Column("syntactic_link", "", "the kind of link at which it beats the best offset by most"),
    Column("syntactic_offset", "of links", "links of that kind at the best fixed offset", 2),
)
RELATION_COLUMNS = (
    Column("head"),
    Column("link", "", "name→head: from the dependent to its head; head→name: back"),
    Column("right", "", "share of links whose other word gets the greatest weight"),
    Column("low", "", "lower end of its 95 % interval (Wilson)"),
    Column("high", "", "upper end of its 95 % interval"),
    Column("offset", "words", "the best fixed offset", 0),
    Column("offset_right", "", "share of links that lie at that offset"),
    Column("links", "", "how many were asked about"),
    Column("role", "", f"yes: at least {MARGIN:g} above the offset"),
)

Annotate = Callable[[str], Annotation | None]
"""From a source sentence to what is known of it; None if nothing is."""


def from_trees(trees: Iterable[Tree]) -> Annotate:
    """Annotation of source sentences; they are told by their letters, not by their order."""
    known = {
        tree.letters: Parsed(tree.tokens, [link for link in tree.links if link[0] in RELATIONS])
        for tree in trees
    }

    def annotate(source: str) -> Annotation | None:
        found = known.get("".join(source.split()))
        return {"source": found} if found else None

    return annotate


def from_grammar(pairs: Iterable[GrammarPair]) -> Annotate:
    """Annotation of both sides by the embedded grammar."""
    known = {pair.source: pair for pair in pairs}

    def annotate(source: str) -> Annotation | None:
        return grammar_annotation(known[source], OF_GRAMMAR) if source in known else None

    return annotate


def named(question: Question) -> str:
    """A question in short, as "nsubj→head" or "head→nsubj"."""
    return {
        TO_HEAD: f"{question.link}→head",
        TO_DEPENDENT: f"head→{question.link}",
    }[question.direction]


def syntactic_roles(counts: LinkCounts, margin: float = MARGIN) -> dict[HeadId, list[Role]]:
    """The kinds of links that each head follows, with the share that it finds.

    Args:
        counts: of a corpus, with `itself`: Voita et al. leave out nothing but the end of sentence.
        margin: by which a head must beat the best fixed offset.
    """
    found: dict[HeadId, list[Role]] = {}
    for question in _asked(counts):
        _, at_offset = counts.best_offset(question)
        for head, share in counts.shares(question).items():
            if share >= at_offset + margin:
                found.setdefault(head, []).append(Role(named(question), share))
    return found


def syntax_table(counts: LinkCounts) -> HeadTable:
    """For each head the kind of link at which it beats the best fixed offset by most."""
    rows: dict[HeadId, Mapping[str, Value]] = {}
    best: dict[HeadId, float] = {}
    for question in _asked(counts):
        _, at_offset = counts.best_offset(question)
        for head, share in counts.shares(question).items():
            if share - at_offset > best.get(head, -2.0):
                best[head] = share - at_offset
                rows[head] = {
                    "syntactic": share,
                    "syntactic_link": named(question),
                    "syntactic_offset": at_offset,
                }
    return HeadTable(COLUMNS, rows)


def relations(counts: LinkCounts, margin: float = MARGIN) -> Listing:
    """Every head and kind of link, the heads of one kind of link with the best first."""
    rows: list[list[Value]] = []
    for question in _asked(counts):
        offset, at_offset = counts.best_offset(question)
        asked, shares = counts.count(question), counts.shares(question)
        for head in sorted(shares, key=lambda h: (-shares[h], h.rank)):
            low, high = wilson(counts.hits[question][head], asked)
            role = "yes" if shares[head] >= at_offset + margin else ""
            numbers = [shares[head], low, high, offset, at_offset, asked]
            rows.append([str(head), named(question), *numbers, role])
    return Listing(RELATION_COLUMNS, rows)


def _asked(counts: LinkCounts) -> list[Question]:
    return sorted(question for question in counts.offsets if counts.count(question) >= LEAST)

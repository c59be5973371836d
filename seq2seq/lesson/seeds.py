"""Roles emerge: two runs that differ in their seed alone, with their heads matched by looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.analysis.capture import capture_each
from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.matching import Matching, match
from seq2seq.analysis.roles import COLUMN, NONE, main_role
from seq2seq.analysis.tables import Column
from seq2seq.errors import UserError
from seq2seq.lesson.part import Claim, Part, Verdict, check, table
from seq2seq.lesson.runs import Compared, Measured
from seq2seq.lesson.trained import cautions
from seq2seq.run_folder import LoadedRun


@dataclass(frozen=True)
class Matched:
    """Two runs and which head of the one is which of the other."""

    compared: Compared
    places: Mapping[Place, Matching]

    def roles(self, run: int, head: HeadId) -> str:
        """The main role of a head in run 0 or 1."""
        return main_role(str(self.compared.runs[run].table.rows[head].get(COLUMN.name, NONE)))


def match_runs(runs: Sequence[LoadedRun], compared: Compared) -> Matched:
    """Lead both models along the same sentence pairs and match their heads.

    Args:
        runs: two runs.
        compared: as `seq2seq.lesson.runs.compare` found them, in the same order.

    Raises:
        UserError: not two runs, or they differ in depth, in heads or in pieces.
    """
    if len(runs) != 2:
        raise UserError(f"seeds compares two runs, not {len(runs)}: --runs A B.")
    first, second = (run.config.model for run in runs)
    if (first.encoder_heads, first.decoder_heads) != (second.encoder_heads, second.decoder_heads):
        raise UserError("seeds compares runs with as many heads; for other numbers, use sweep.")
    sources, targets = [s for s, _ in compared.pairs], [t for _, t in compared.pairs]
    records = (capture_each(run.model, run.tokenizer, sources, targets) for run in runs)
    return Matched(compared, match(zip(*records, strict=True)))


def part(found: Matched) -> Part:
    """The claims on two seeds."""
    a, b = found.compared.runs
    places = found.places.values()
    numbered = float(np.mean([value for place in places for value in place.by_number]))
    paired = float(np.mean([value for place in places for value in place.matched]))
    blind = float(np.mean([place.divergence.mean() for place in places]))
    pairs = [
        (head, place.second[partner], place.divergence[i, partner])
        for place in places
        for i, (head, partner) in enumerate(zip(place.first, place.partner, strict=True))
    ]
    moved = sum(head.head != other.head for head, other, _ in pairs)
    alike = sum(found.roles(0, head) == found.roles(1, other) for head, other, _ in pairs)
    same_number = sum(found.roles(0, head) == found.roles(1, head) for head, _, _ in pairs)
    columns = [
        Column(f"head of {a.name}"),
        Column(f"head of {b.name}"),
        Column("JS", "nats", "divergence of the two, on the same sentences", 3),
        Column(f"role in {a.name}"),
        Column(f"role in {b.name}"),
    ]
    rows = [
        (str(head), str(other), float(js), found.roles(0, head), found.roles(1, other))
        for head, other, js in pairs
    ]
    return Part(
        "seeds",
        "Roles emerge: two trainings side by side",
        f"{a.name} and {b.name}, heads of each layer matched so that they differ least.",
        [
            Claim(
                "A head's number means nothing: what one run has under it, another has elsewhere.",
                f"{moved} of {len(pairs)} heads find their like under another number; divergence "
                f"{numbered:.3f} nats by number, {paired:.3f} matched, {blind:.3f} for any two",
                check(moved > 0),
                "Framed cells off the diagonal.",
            ),
            Claim(
                "Roles are found again, though nobody gave them out.",
                f"{alike} of {len(pairs)} matched heads have the same role, {same_number} of those "
                f"with the same number; {_roles(a)} and {_roles(b)}",
                check(alike > same_number, Verdict.open),
                "The two columns of roles.",
            ),
        ],
        [table("seeds", "Matched heads", columns, rows)],
        [*found.compared.facts, *cautions(found.compared.runs, ("seed",))],
    )


def _roles(run: Measured) -> str:
    return f"{run.name}: {run.roles_in_words()}"

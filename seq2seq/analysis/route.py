"""The route of an answer through one sentence: which head takes what, from where to where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seq2seq.analysis.head_id import HeadId

if TYPE_CHECKING:
    from seq2seq.analysis.interchange import Interchange
    from seq2seq.analysis.tables import HeadTable


@dataclass(frozen=True)
class Step:
    """One head on the route.

    Attributes:
        head: its name.
        effect: causal effect of the head, over all that was traced.
        flips: share of answers that it turns.
        query: the position where its content matters most in this sentence: of the source for
            encoder heads, of `Route.target` for the others.
        weights: what it attends to from there.
    """

    head: HeadId
    effect: float
    flips: float
    query: int
    weights: Sequence[float]


@dataclass(frozen=True)
class Route:
    """The steps to an answer in one sentence.

    Attributes:
        source: pieces, and the end of sentence.
        target: what the decoder reads: the begin of sentence and pieces.
        answer: the piece that A's translation goes on with.
        other: the piece that B's goes on with.
        steps: in the order in which the model computes them.
        facts: where all this comes from, a line each.
    """

    source: Sequence[str]
    target: Sequence[str]
    answer: str
    other: str
    steps: Sequence[Step]
    facts: Sequence[str] = field(default=())


def find_steps(runs: Interchange, table: HeadTable, heads: Sequence[HeadId]) -> list[Step]:
    """Where each head does its work in the first contrast, and what it looks at there.

    Args:
        runs: whose first contrast is the example.
        table: with `effect` and `flips` of the heads.
        heads: in order.
    """
    from seq2seq.analysis.interchange import Interchange
    from seq2seq.analysis.intervene import attentions, head_numbers

    weights = runs.weights(0)
    example = Interchange(runs.model, runs.contrasts[:1])
    found = attentions(runs.model)
    steps = []
    for head in heads:
        rows = weights[head.place][head_numbers(found[head.place]).index(head.head)]
        effects = [example.effect([head], [[query]]).effect for query in range(len(rows))]
        query = max(range(len(rows)), key=lambda place: effects[place])
        row = table.rows[head]
        effect, flips = float(row["effect"] or 0), float(row["flips"] or 0)
        steps.append(Step(head, effect, flips, query, rows[query].tolist()))
    return steps

"""What each head's content decides: tables of causal effects, of heads, places and pairs of heads.

`seq2seq.analysis.interchange` makes the interventions; here they are led through all heads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.importance import answer_gradients
from seq2seq.analysis.interchange import Effect, Interchange
from seq2seq.analysis.intervals import Bootstrap, wilson
from seq2seq.analysis.intervene import all_heads
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import Array

Progress = Callable[[int, int], None]

EFFECT = Column("effect", "", "interchange: 0 the answer stays, 1 it becomes the other sentence's")
FLIPS = Column("flips", "", "share of answers that change sides when the head is swapped")
COLUMNS = (
    EFFECT,
    Column("effect_low", "", "lower end of its 95 % interval (bootstrap over pairs)"),
    Column("effect_high", "", "upper end of its 95 % interval"),
    FLIPS,
    Column("flips_low", "", "lower end of its 95 % interval (Wilson)"),
    Column("flips_high", "", "upper end of its 95 % interval"),
    Column("gradient", "nats", "mean |∂ log-odds of the answer / ∂ gate|: a slope, not an effect"),
    Column("token_change", "nats", "log p of the right token without the head − with it", 4),
    Column("others_change", "nats", "the same for a random other head: the others' mean", 4),
    Column("beyond_others", "nats", "the difference of both; below 0 this head costs more", 4),
    Column("beyond_low", "nats", "lower end of its 95 % interval (bootstrap over pairs)", 4),
    Column("beyond_high", "nats", "upper end of its 95 % interval", 4),
    Column("wrong", "", "share of answers that turn wrong without the head"),
)


@dataclass(frozen=True)
class Listing:
    """A plain table: what a row stands for in the first columns, then numbers.

    Attributes:
        columns: in order.
        rows: a value for each column.
        facts: where the numbers come from, a line each.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    facts: Sequence[str] = field(default=())

    def to_csv(self) -> str:
        """The facts as lines of "# …", a header with units, the rows."""
        out = io.StringIO()
        out.writelines(f"# {fact}\n" for fact in self.facts)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.header for column in self.columns])
        for row in self.rows:
            writer.writerow([f"{v:.9g}" if isinstance(v, float) else v for v in row])
        return out.getvalue()

    def with_facts(self, facts: Sequence[str]) -> Listing:
        """The same table from elsewhere, with these facts in place of its own."""
        return replace(self, facts=facts)

    def to_markdown(self) -> str:
        """The table, and what its columns mean."""
        lines = [[column.header for column in self.columns], ["---"] * len(self.columns)]
        lines += [
            [column.show(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]
        escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
        meanings = [f"- **{c.header}**: {c.meaning}" for c in self.columns if c.meaning]
        return "\n".join([*(f"| {' | '.join(line)} |" for line in escaped), "", *meanings, ""])


def trace_heads(
    runs: Interchange, progress: Progress | None = None, *, groups: Sequence[int] | None = None
) -> HeadTable:
    """Causal effect, gradient and ablation of every head.

    Encoder heads have no effect where sources differ in length; the facts say so.

    Args:
        runs: the contrasts.
        progress: told how many heads are done.
        groups: of each contrast; those of one group, such as a pair and its reverse, count as one
            draw where intervals are found by bootstrap. None: each stands for itself.

    Raises:
        UserError: the model answers both sentences alike.
    """
    heads = all_heads(runs.model)
    bootstrap = Bootstrap(range(len(runs.contrasts)) if groups is None else groups)
    gradients = answer_gradients(runs)
    rows: dict[HeadId, dict[str, Value]] = {}
    changes: dict[HeadId, Array] = {}
    for done, head in enumerate(heads, start=1):
        rows[head] = _swap(runs, head, bootstrap) if runs.aligned or head.kind != "enc" else {}
        without = runs.without([head])
        changes[head] = (without.token - runs.before.token).double().numpy()
        wrong = (runs.before.delta > 0) & (without.delta < 0)
        rows[head] |= {
            "gradient": float(gradients[head].mean()),
            "token_change": float(changes[head].mean()),
            "wrong": float(wrong.double().mean()),
        }
        if progress:
            progress(done, len(heads))
    total = sum(changes.values(), start=np.zeros(len(runs.contrasts)))
    for head, row in rows.items():
        row |= _against_others(changes[head], total, len(heads), bootstrap)
    facts = [_describe(runs)]
    if not runs.aligned:
        facts.append(
            "encoder heads were not swapped: the sentences differ in their number of pieces"
        )
    return HeadTable(COLUMNS, rows, facts)


def _swap(runs: Interchange, head: HeadId, bootstrap: Bootstrap) -> dict[str, Value]:
    after = runs.swapped([head])
    found = runs.judge(after)
    moved = (runs.before.delta - after.delta).double().numpy()
    gap = (runs.before.delta - runs.goal.delta).double().numpy()
    effect = bootstrap.interval(moved, gap) or (None, None)
    flips = wilson(found.flips, found.count) if bootstrap.count > 1 else (None, None)
    return {
        "effect": found.effect,
        "effect_low": effect[0],
        "effect_high": effect[1],
        "flips": found.flip_share,
        "flips_low": flips[0],
        "flips_high": flips[1],
    }


def _against_others(
    change: Array, total: Array, heads: int, bootstrap: Bootstrap
) -> dict[str, Value]:
    """What a random other head costs, and what this one costs beyond that."""
    if heads < 2:
        return {}
    others = (total - change) / (heads - 1)
    low, high = bootstrap.interval(change - others) or (None, None)
    beyond = float((change - others).mean())
    return {
        "others_change": float(others.mean()),
        "beyond_others": beyond,
        "beyond_low": low,
        "beyond_high": high,
    }


def trace_places(
    runs: Interchange,
    heads: Sequence[HeadId],
    places: Mapping[str, Mapping[str, Sequence[Collection[int]]]],
) -> Listing:
    """Where a head's content matters: its effect when swapped at some positions only.

    Args:
        runs: the contrasts.
        heads: which to look at.
        places: "source" and "target" → name of a place → its positions in each contrast, of
            the source (for encoder heads) or of what the decoder reads (for the others).
    """
    rows: list[Sequence[Value]] = []
    for head in heads:
        for name, at in places["source" if head.kind == "enc" else "target"].items():
            found = runs.effect([head], at)
            rows.append([str(head), name, found.effect, found.flip_share])
    columns = (Column("head"), Column("place", "", "where it is swapped"), EFFECT, FLIPS)
    return Listing(columns, rows, [_describe(runs)])


def trace_pairs(runs: Interchange, table: HeadTable, heads: Sequence[HeadId]) -> Listing:
    """Effects of two heads swapped together, the strongest first.

    Args:
        runs: the contrasts.
        table: with the effects of single heads.
        heads: of which every two are swapped.
    """
    alone = table.values("effect")
    found: list[tuple[HeadId, HeadId, Effect]] = [
        (a, b, runs.effect([a, b])) for a, b in combinations(heads, 2)
    ]
    found.sort(key=lambda entry: -entry[2].effect)
    rows: list[Sequence[Value]] = [
        [str(a), str(b), effect.effect, effect.flip_share, effect.effect - alone[a] - alone[b]]
        for a, b, effect in found
    ]
    more = Column("beyond_sum", "", "effect − the sum of both alone; below 0 they do one job")
    columns = (Column("head"), Column("other"), EFFECT, FLIPS, more)
    return Listing(columns, rows, [_describe(runs)])


def strongest(table: HeadTable, count: int, least: float = 0.0) -> list[HeadId]:
    """The heads of the greatest effect, at most `count`, none below `least`."""
    effects = table.values("effect")
    ordered = sorted(effects, key=lambda head: -effects[head])
    return [head for head in ordered if effects[head] >= least][:count]


def smallest_set(
    runs: Interchange, table: HeadTable, *, goal: float = 0.9, most: int = 4, among: int = 10
) -> list[HeadId]:
    """Heads that together move the answer by `goal`, added one by one, each time the best one.

    Args:
        runs: the contrasts.
        table: with the effects of single heads.
        goal: the effect at which to stop.
        most: heads at most; fewer if the next one adds less than 0.01.
        among: only the so many strongest heads are tried.
    """
    left = strongest(table, among)
    chosen: list[HeadId] = []
    reached = 0.0
    effects = {head: table.values("effect")[head] for head in left}
    while effects and reached < goal and len(chosen) < most:
        best = max(effects, key=lambda head: effects[head])
        if effects[best] < reached + 0.01:
            break
        reached = effects[best]
        chosen.append(best)
        left.remove(best)
        if reached < goal and len(chosen) < most:
            effects = {head: runs.effect([*chosen, head]).effect for head in left}
    return chosen


def _describe(runs: Interchange) -> str:
    before, goal = (
        f"{float(run.delta.mean()):+.2f}".replace("-", "−") for run in (runs.before, runs.goal)
    )
    count = len(runs.contrasts)
    runs_named = f"{count} runs with their counterparts" if count > 1 else "a run with another"
    return (
        f"interchange of {runs_named} · mean log-odds of "
        f"the answer {before}, of the counterpart's {goal} nats"
    )

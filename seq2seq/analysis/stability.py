"""Several seeds, one question: which routes do all models take, and which only some?

Heads have no numbers that mean anything across seeds, so they are matched by what they do. A *way*
is a kind of attention, a layer, a place that is asked and a place that it reads: "cross-attention
of layer 0, from the answer to the predicate". Every way that some carrier of some model takes is
followed in all models: all heads that look so are swapped at that place, together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervene import attentions, head_numbers
from seq2seq.analysis.link_probe import ROW
from seq2seq.analysis.minimal_pair import PlaceWeights, place_weights, query_side
from seq2seq.analysis.needed import CARRIES
from seq2seq.analysis.probe import PRONOUN, oriented
from seq2seq.analysis.study import IT, Answer
from seq2seq.analysis.tables import Column, Value
from seq2seq.analysis.trace import Listing
from seq2seq.analysis.verdict import carriers

ANY = "any"  # layer
ROWS = (PRONOUN, ROW)  # the places whose row writes the answer
COLUMNS = (
    Column("probe", "", "the question"),
    Column("kind", "", "of attention"),
    Column("layer", "", "or any: the heads of all layers together"),
    Column("from", "", "the place that is asked, and where the heads are swapped"),
    Column("to", "", "the place that gets most of their weight from there"),
    Column("taken", "", f"models in which the way carries {CARRIES:g} or more"),
    Column("asked", "", "models that answer the probe well enough to be asked"),
    Column("least", "", "smallest effect of the way in any model", 2),
    Column("most", "", "greatest effect", 2),
)


class Way(NamedTuple):
    """What heads do, whatever their numbers.

    Attributes:
        kind: of attention.
        layer: its number; None: any.
        start: the place that is asked.
        end: the place that gets most of the weight.
    """

    kind: str
    layer: int | None
    start: str
    end: str

    @property
    def anywhere(self) -> Way:
        """The same in any layer."""
        return self._replace(layer=None)

    def __str__(self) -> str:
        layer = "any layer" if self.layer is None else f"layer {self.layer}"
        start = "answer" if self.start in ROWS else self.start
        end = "last token" if self.end in ROWS else self.end  # what that row has read
        return f"{self.kind}, {layer}: {end} → {start}"


@dataclass
class Model:
    """What was found in one model, ready to be asked about ways.

    Attributes:
        name: of its run.
        answers: by probe; those that it is not ready for are missing.
    """

    name: str
    answers: Mapping[str, Answer]
    _weights: dict[str, PlaceWeights] = field(default_factory=dict)

    def ways(self, probe: str) -> list[Way]:
        """The ways that its carriers take, the strongest first."""
        answer = self.answers[probe]
        effects = answer.table.values("effect")
        heads = sorted(carriers(answer.table), key=lambda head: -effects[head])
        return [Way(*head.place, start, self._reads(probe, head, start))
                for head in heads for start in [_where(answer, head)]]  # fmt: skip

    def heads(self, probe: str, way: Way) -> list[HeadId]:
        """The heads that look so."""
        study = self.answers[probe].study
        if way.start not in study.places[query_side(way.kind)]:
            return []
        return [
            HeadId(*place, head)
            for place, attention in attentions(study.runs.model).items()
            if place[0] == way.kind and way.layer in (None, place[1])
            for head in head_numbers(attention)
            if self._reads(probe, HeadId(*place, head), way.start) == way.end
        ]

    def effect(self, probe: str, way: Way) -> float:
        """Of all heads that look so, swapped together at the place that is asked."""
        study, heads = self.answers[probe].study, self.heads(probe, way)
        if not heads:
            return 0.0
        at = study.places[query_side(way.kind)][way.start]
        return study.runs.effect(heads, at).effect

    def _reads(self, probe: str, head: HeadId, start: str) -> str:
        """The place that gets most of a head's weight from another."""
        found = self._shares(probe, head, start)
        return max(found, key=lambda name: found[name])

    def _shares(self, probe: str, head: HeadId, start: str) -> dict[str, float]:
        study = self.answers[probe].study
        if probe not in self._weights:
            self._weights[probe] = place_weights(study.runs.model, study.pairs)
        weights = self._weights[probe]
        index = head_numbers(attentions(study.runs.model)[head.place]).index(head.head)
        row = (oriented if probe == IT else PlaceWeights.row)(weights, head.place, start)
        return {name: float(found[:, index].mean()) for name, found in row.items()}


@dataclass(frozen=True)
class Stability:
    """A way in all models.

    Attributes:
        probe: the question.
        way: what heads do.
        effects: run → effect, of the models that were asked.
        heads: run → the heads that look so.
    """

    probe: str
    way: Way
    effects: Mapping[str, float]
    heads: Mapping[str, Sequence[HeadId]]

    @property
    def taken(self) -> int:
        """In how many models it carries something."""
        return sum(effect >= CARRIES for effect in self.effects.values())

    @property
    def stable(self) -> bool:
        """Whether it carries something in all of them."""
        return self.taken == len(self.effects) > 1


def follow(models: Sequence[Model], probe: str) -> list[Stability]:
    """Every way that a carrier of some model takes, in all models that were asked.

    Args:
        models: at least two that have an answer to the probe.
        probe: its name.

    Returns:
        Those that most models take first, and of these the strongest; a way in any layer stands
        beside the same in one only where several layers share it.
    """
    asked = [model for model in models if probe in model.answers]
    found = list(dict.fromkeys(way for model in asked for way in model.ways(probe)))
    layers: dict[Way, set[int | None]] = {}
    for way in found:
        layers.setdefault(way.anywhere, set()).add(way.layer)
    found += [way for way, numbers in layers.items() if len(numbers) > 1]
    rows = [
        Stability(
            probe,
            way,
            {model.name: model.effect(probe, way) for model in asked},
            {model.name: model.heads(probe, way) for model in asked},
        )
        for way in found
    ]
    return sorted(rows, key=lambda row: (-row.taken, -sum(row.effects.values()), str(row.way)))


def listing(rows: Sequence[Stability], runs: Sequence[str]) -> Listing:
    """A row for each way: in how many models it is taken, effect and heads in each."""
    columns = [
        *COLUMNS,
        *(Column(f"effect {run}", "", f"in {run}; empty: not asked", 2) for run in runs),
        *(Column(f"heads {run}", "", f"of {run} that look so") for run in runs),
    ]
    return Listing(columns, [_cells(row, runs) for row in rows])


def _cells(row: Stability, runs: Sequence[str]) -> list[Value]:
    effects = list(row.effects.values())
    layer = ANY if row.way.layer is None else row.way.layer
    cells: list[Value] = [row.probe, row.way.kind, layer, row.way.start, row.way.end]
    cells += [row.taken, len(effects), min(effects), max(effects)]
    cells += [row.effects.get(run) for run in runs]
    return [*cells, *(" ".join(map(str, row.heads.get(run, []))) for run in runs)]


def _where(answer: Answer, head: HeadId) -> str:
    """The place at which swapping a head does most."""
    rows = [row for row in answer.places.rows if row[0] == str(head)]
    return str(max(rows, key=lambda row: float(row[2] or 0))[1])


def report(rows: Sequence[Stability], runs: Sequence[str]) -> list[str]:
    """What people read of one probe: a line for each way, at most 80 columns up to four runs."""
    numbers = {run: place for place, run in enumerate(runs, start=1)}
    header = f"  {'joint effect in each run':<44}{'taken':>6}"
    lines = [header + "".join(f"{f'run {number}':>7}" for number in numbers.values())]
    for row in rows:
        effects = (row.effects.get(run) for run in runs)
        cells = "".join(f"{'–' if e is None else f'{e:.2f}'.replace('-', '−'):>7}" for e in effects)
        share = f"{row.taken}/{len(row.effects)}"
        lines.append(f"  {row.way!s:<44}{share:>6}{cells}")
    return lines


def verdict(rows: Sequence[Stability], probe: str, runs: int) -> str:
    """One sentence: what is stable, and what is not.

    A way in one layer goes without saying where the same in any layer is named.
    """
    coarse = {row.way for row in rows if row.way.layer is None}
    rows = [row for row in rows if row.way in coarse or row.way.anywhere not in coarse]
    asked = max((len(row.effects) for row in rows), default=0)
    if asked < 2:
        return f"{probe}: only {asked} of {runs} runs can be asked, so nothing can be compared."
    stable = [row for row in rows if row.stable]
    rest = len(rows) - len(stable)
    others = f"{rest} other way{'' if rest == 1 else 's'} carried only in some"
    if not stable:
        return (
            f"{probe}: nothing is stable: none of {len(rows)} ways carries {CARRIES:g} or more in "
            f"all {asked} runs."
        )
    names = "; ".join(f"{row.way} ({_range(row)})" for row in stable)
    end = f"; {others}" if rest else ""
    return f"{probe}: stable in all {asked} runs: {names}{end}."


def _range(row: Stability) -> str:
    low, high = min(row.effects.values()), max(row.effects.values())
    return f"effect {low:.2f} to {high:.2f}"

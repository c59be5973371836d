"""Which cross-attention heads align best: every head, the mean of each layer, the mean of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from seq2seq.analysis.align import MODES, NULL, Gold, Tally, Words, hard
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UserError

MEANINGS = {
    "aer": "alignment error rate, 0 is perfect (Och and Ney 2003)",
    "precision": "links found that are possible",
    "recall": "sure links that are found",
}
ROWS = {"out": "by the row that predicts the word", "in": "by the row that reads the word"}


@dataclass(frozen=True)
class Choice:
    """One head, or several whose mean aligns."""

    name: str
    heads: tuple[HeadId, ...]

    def __post_init__(self) -> None:
        """Refuse heads that see one side only, and no head at all."""
        if not self.heads:
            raise UserError("No cross-attention head is left in this model, so nothing aligns.")
        other = [str(head) for head in self.heads if head.kind != "cross"]
        if other:
            raise UserError(
                f"{', '.join(other)} cannot align: only cross-attention looks from the target to "
                "the source."
            )

    def weights(self, maps: AttentionMaps) -> Array:
        """The map [T, S] of a record; of several heads, the mean.

        Raises:
            AttentionError: the record lacks one of them.
        """
        stack = np.stack([maps.head(*head) for head in self.heads])
        return np.asarray(stack.mean(0, dtype=np.float64))


def choices(heads: Iterable[HeadId]) -> list[Choice]:
    """What may align: the mean of all cross heads, the mean of each layer, every head."""
    cross = [head for head in heads if head.kind == "cross"]
    layers = sorted({head.layer for head in cross})
    return [
        Choice("mean of all heads", tuple(cross)),
        *(layer_choice(cross, layer) for layer in layers),
        *(Choice(str(head), (head,)) for head in cross),
    ]


def layer_choice(heads: Iterable[HeadId], layer: int) -> Choice:
    """The mean of the cross heads of a layer.

    Raises:
        UserError: there is none; lists the layers that have some.
    """
    cross = [head for head in heads if head.kind == "cross"]
    found = tuple(head for head in cross if head.layer == layer)
    if cross and not found:
        layers = ", ".join(map(str, sorted({head.layer for head in cross})))
        raise UserError(f"There is no cross-attention in layer {layer}: take one of {layers}.")
    return Choice(f"mean of layer {layer}", found)


@dataclass
class Comparison:
    """The error rate of every choice in both modes, over a stream of sentences."""

    choices: list[Choice]
    eos: str = NULL
    sentences: int = 0
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)  # (name, mode) → counts

    def add(self, maps: AttentionMaps, words: Words, gold: Gold) -> None:
        """Count one sentence."""
        self.sentences += 1
        for choice in self.choices:
            weights = choice.weights(maps)
            for mode in MODES:
                links = hard(weights, words, mode=mode, eos=self.eos)
                self.tallies.setdefault((choice.name, mode), Tally()).add(links, gold)

    def table(self, facts: Iterable[str] = ()) -> HeadTable:
        """AER, precision and recall in both modes, a row for each head."""
        columns = [
            Column(f"{name}_{mode}", "", f"{MEANINGS[name]}, {ROWS[mode]}")
            for mode in MODES
            for name in MEANINGS
        ]
        rows = {
            choice.heads[0]: self.row(choice.name)
            for choice in self.choices
            if choice.name == str(choice.heads[0])
        }
        return HeadTable(columns, rows, list(facts))

    def row(self, name: str) -> Mapping[str, Value]:
        """Column → value of one choice."""
        return {
            f"{measure}_{mode}": getattr(self.tallies[name, mode], measure)
            for mode in MODES
            for measure in MEANINGS
        }

    def best(self, layer: int | None = None) -> tuple[Choice, str, float]:
        """The single head with the least error, of a layer or of all: it, its mode, its AER.

        Of equals, the first head and mode "out".
        """
        single = [c for c in self.choices if c.name == str(c.heads[0])]
        found = [
            (self.tallies[choice.name, mode].aer, place, number)
            for place, choice in enumerate(single)
            for number, mode in enumerate(MODES)
            if layer in (None, choice.heads[0].layer)
        ]
        aer, place, number = min(found)
        return single[place], MODES[number], aer

    def report(self) -> list[str]:
        """What people read: error rates of all choices, best first, and the best by layer."""
        width = max(len(choice.name) for choice in self.choices)
        lines = [f"{'':{width}}  " + "  ".join(f"{m:^23}" for m in MODES)]
        lines.append(f"{'':{width}}  " + "  ".join(["  AER   prec.   recall"] * len(MODES)))
        ranked = sorted(self.choices, key=lambda c: min(self._aer(c.name, m) for m in MODES))
        for choice in ranked:
            cells = [self._cells(choice.name, mode) for mode in MODES]
            lines.append(f"{choice.name:{width}}  " + "  ".join(cells))
        lines.append("")
        for layer in sorted({choice.heads[0].layer for choice in self.choices}):
            choice, mode, aer = self.best(layer)
            lines.append(f"layer {layer}: best head {choice.name}, mode {mode}, AER {aer:.3f}")
        return lines

    def _aer(self, name: str, mode: str) -> float:
        return self.tallies[name, mode].aer

    def _cells(self, name: str, mode: str) -> str:
        tally = self.tallies[name, mode]
        values = (tally.aer, tally.precision, tally.recall)
        return "   ".join("  –  " if v is None else f"{v:.3f}" for v in values)

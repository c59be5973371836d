"""The parts of the lesson, each measured and drawn; which of them a command can show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from seq2seq.errors import UserError
from seq2seq.lesson import (
    complexity,
    cost,
    example,
    heads,
    parameters,
    rules,
    seeds,
    shapes,
    trained,
)
from seq2seq.lesson import runs as finished
from seq2seq.lesson import worked as worked_example
from seq2seq.lesson.part import Part
from viz import grid, lesson, lesson_runs, summary

if TYPE_CHECKING:
    from seq2seq.attention_maps import AttentionMaps
    from seq2seq.lesson.worked import Worked
    from seq2seq.run_folder import LoadedRun


@dataclass(frozen=True)
class Drawn:
    """A picture: name for its file, figure, and a sentence on how to read it."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Built:
    """A part with its pictures; `lab` is the worked example to play with."""

    part: Part
    drawn: Sequence[Drawn] = field(default=())
    lab: Worked | None = None


@dataclass
class Wishes:
    """What the reader asked for.

    Attributes:
        run: a trained run to look into, or None.
        checkpoint: which of its checkpoints that is.
        runs: finished runs to compare.
        text: the sentence to look at in runs.
        split: whose pairs runs are measured on.
        own: sentence pairs of the reader's, in place of a split.
        limit: how many of them.
        d_model: of what is counted.
        length: tokens of what is counted.
        counts: numbers of heads to count for.
        timed: also take times.
    """

    run: LoadedRun | None = None
    checkpoint: str = "best"
    runs: Sequence[LoadedRun] = ()
    text: str = heads.SENTENCE
    split: str = "dev"
    own: finished.Pairs | None = None
    limit: int = 200
    d_model: int = cost.D_MODEL
    length: int = cost.LENGTH
    counts: Sequence[int] = cost.HEADS
    timed: bool = False

    @cached_property
    def example(self) -> example.Example:
        """The model and sentence of the rules: of the run, or random."""
        if self.run is None:
            return example.random_example()
        return look(self.run, self.text, self.checkpoint)

    @cached_property
    def compared(self) -> finished.Compared:
        """The runs, measured."""
        return finished.compare(self.runs, self.pairs(self.runs[0]))

    def pairs(self, run: LoadedRun) -> finished.Pairs:
        """What a run is measured on."""
        found = self.own or finished.split_of(run, self.split)
        return replace(found, pairs=found.pairs[: self.limit])


def look(run: LoadedRun, text: str, checkpoint: str = "best") -> example.Example:
    """One sentence in a run, with the run's own translation of it."""
    from seq2seq.decoding.translator import Translator

    translate = Translator(run.model, run.tokenizer, run.config.decode).translate
    short = run.path.resolve().name
    return example.look(
        run.model,
        run.tokenizer,
        text,
        translate=translate,
        name=f"run {short}",
        facts=[finished.provenance(run, short, checkpoint)],
    )


def build(name: str, wishes: Wishes) -> Built:
    """Measure and draw one part.

    Raises:
        UserError: what it needs was not given, or does not go together.
    """
    return _BUILDERS[name](wishes)


def _worked(_: Wishes) -> Built:
    found = worked_example.work()
    caption = (
        "From the embeddings through each head's projections, scores, division and softmax to its "
        "output; both outputs side by side; and through W_O."
    )
    return Built(
        worked_example.part(found), [Drawn("worked", lesson.worked(found), caption)], lab=found
    )


def _shapes(_: Wishes) -> Built:
    found = shapes.trace()
    caption = (
        "Widths to scale: the embeddings, the heads' outputs, their concatenation, and the output "
        "that W_O makes of it, for four sizes."
    )
    return Built(shapes.part(found), [Drawn("shapes", lesson.shapes(found), caption)])


def _complexity(wishes: Wishes) -> Built:
    found = cost.measure(wishes.d_model, wishes.length, wishes.counts, timed=wishes.timed)
    caption = (
        "Left: operations of projections and of products by the number of tokens, with the point "
        "where they are equal. Right: the same operations, but more scores, by number of heads."
    )
    return Built(complexity.part(found), [Drawn("complexity", lesson.complexity(found), caption)])


def _parameters(wishes: Wishes) -> Built:
    counts = parameters.count(wishes.d_model, wishes.counts)
    return Built(parameters.part(counts, wishes.d_model))


def _mask(wishes: Wishes) -> Built:
    found = wishes.example
    part = rules.mask_part(found)
    layer = _first_layer(found.maps, "dec")
    caption = (
        f"Decoder self-attention, layer {layer}, every head. Rows are queries, columns keys; the "
        "triangle above the diagonal is drawn from data."
    )
    return Built(part, [Drawn("mask", grid.layer(found.maps, "dec", layer), caption)])


def _cross(wishes: Wishes) -> Built:
    found = wishes.example
    part = rules.cross_part(found)
    layer = _first_layer(found.maps, "cross")
    caption = (
        f"Cross-attention, layer {layer}, every head. Rows are target tokens, columns source "
        "tokens."
    )
    return Built(part, [Drawn("cross", grid.layer(found.maps, "cross", layer), caption)])


def _first_layer(maps: AttentionMaps, kind: str) -> int:
    """The first layer that has heads left; 0 where none has."""
    held = zip(maps.layer_ids[kind], maps.head_ids[kind], strict=True)
    return next((layer for layer, heads in held if heads), 0)


def _heads(wishes: Wishes) -> Built:
    if wishes.run is None:
        raise UserError("The part “heads” looks into a trained run: give --run RUN.")
    shown = wishes.example
    found = heads.study(wishes.run, wishes.pairs(wishes.run), shown.maps, shown.facts)
    return Built(
        heads.part(found),
        [
            Drawn(
                "heads",
                grid.overview(found.maps, "enc"),
                "Encoder self-attention of one sentence, every head of every layer.",
            ),
            Drawn(
                "heads_loss",
                summary.stat_grid(found.table, "loss_change"),
                "Change of the loss when a head is switched off. Rows are layers, columns heads.",
            ),
        ],
    )


def _single(wishes: Wishes) -> Built:
    found = _compared(wishes, "single")
    part = trained.single_part(found)
    drawn = [
        Drawn(
            "single_learning",
            lesson_runs.curves(found.runs, found.facts),
            "BLEU of the dev set during training, a line for each run.",
        )
    ]
    return Built(part, [*drawn, *_side_by_side(wishes)])


def _side_by_side(wishes: Wishes) -> Iterator[Drawn]:
    """The same sentence in the runs with the fewest and the most heads."""
    ordered = sorted(wishes.runs, key=lambda run: run.config.model.encoder_heads)
    for which, run in (("few", ordered[0]), ("many", ordered[-1])):
        count = run.config.model.encoder_heads
        maps = look(run, wishes.text).maps
        layer = _first_layer(maps, "enc")
        yield Drawn(
            f"single_{which}",
            grid.layer(maps, "enc", layer),
            f"Encoder self-attention, layer {layer}, with {count} head{'s' * (count > 1)}: "
            f"{count} distribution{'s' * (count > 1)} for each token.",
        )


def _sweep(wishes: Wishes) -> Built:
    found = _compared(wishes, "sweep")
    part = trained.sweep_part(found)
    caption = "BLEU with its interval, mean entropy, and mean divergence, by number of heads."
    return Built(part, [Drawn("sweep", lesson_runs.sweep(found.runs, found.facts), caption)])


def _seeds(wishes: Wishes) -> Built:
    if len(wishes.runs) != 2:
        raise UserError("The part “seeds” compares two finished runs: give --runs A B.")
    found = seeds.match_runs(wishes.runs, wishes.compared)
    caption = (
        "Divergence of every head of the one run from every head of the other, by layer; frames "
        "show which heads are each other's like."
    )
    figure = lesson_runs.seeds(found, wishes.compared.facts)
    return Built(seeds.part(found), [Drawn("seeds", figure, caption)])


def _compared(wishes: Wishes, name: str) -> finished.Compared:
    if len(wishes.runs) < 2:
        raise UserError(
            f"The part “{name}” compares finished runs: give --runs A B …, or train them with "
            "seq2seq lesson single --train."
        )
    return wishes.compared


_BUILDERS: dict[str, Callable[[Wishes], Built]] = {
    "shapes": _shapes,
    "worked": _worked,
    "heads": _heads,
    "mask": _mask,
    "cross": _cross,
    "single": _single,
    "parameters": _parameters,
    "complexity": _complexity,
    "sweep": _sweep,
    "seeds": _seeds,
}

PARTS = tuple(_BUILDERS)
"""All parts, in the order of the lesson."""


def possible(wishes: Wishes) -> list[str]:
    """The parts that can be shown with the runs at hand."""
    left_out = set()
    if wishes.run is None:
        left_out.add("heads")
    counts = [
        (run.config.model.encoder_heads, run.config.model.decoder_heads) for run in wishes.runs
    ]
    if len(set(counts)) < 2:
        left_out.add("single")
    if len(set(counts)) < 3:
        left_out.add("sweep")
    if len(counts) != 2 or len(set(counts)) > 1:
        left_out.add("seeds")
    return [name for name in PARTS if name not in left_out]

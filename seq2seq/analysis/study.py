"""One question about a model's heads, from minimal pairs to all that interventions say about it.

The built-in probes are studies of pairs of the embedded grammar: what "it" means, and what subject,
object, adjective and separable prefix hang on. A pair counts only if the model has both its
sentences right: why an answer is wrong is another question.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from seq2seq.analysis import link_probe, probe
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.interchange import Interchange
from seq2seq.analysis.link_sentences import link_pairs
from seq2seq.analysis.minimal_pair import MinimalPair, both_ways, places
from seq2seq.analysis.pairs import PieceTokenizer
from seq2seq.analysis.tables import HeadTable
from seq2seq.analysis.trace import (
    Listing,
    Progress,
    smallest_set,
    strongest,
    trace_heads,
    trace_pairs,
    trace_places,
)
from seq2seq.analysis.verdict import carriers, with_parts
from seq2seq.data.grammar import Split, minimal_pairs
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

IT = "it"
PROBES = (IT, *link_probe.PROBES)
LEAST = 40  # pairs, below which nothing can be told from chance
POOL = 3  # so many times the pairs are made: not all are of as many pieces and answered right
CLOSELY = 6  # heads looked at by place and two by two

Sides = Mapping[str, Mapping[str, Sequence[Collection[int]]]]
"""Side → name of a place → its positions in each contrast."""


@dataclass(frozen=True)
class Study:
    """What is traced.

    Attributes:
        name: of the probe; "" for sentences of the user's.
        what: is decided, as in "one head decides …".
        runs: both runs of every contrast.
        places: as `trace_places` takes them.
        facts: where the sentences come from.
        pairs: of a probe, each of which `runs` holds both ways.
        looks: what each head looks at.
    """

    name: str
    what: str
    runs: Interchange
    places: Sides
    facts: Sequence[str]
    pairs: Sequence[MinimalPair] = ()
    looks: HeadTable = field(default_factory=lambda: HeadTable([], {}))

    @property
    def groups(self) -> list[int]:
        """Of each contrast: a pair and its reverse belong together."""
        return [*range(len(self.pairs))] * 2 if self.pairs else [*range(len(self.runs.contrasts))]


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes:
        study: the question.
        table: a row for each head.
        together: a small set of heads that moves the answer most of the way.
        places: the strongest heads, by place.
        couples: the strongest heads, two by two.
    """

    study: Study
    table: HeadTable
    together: Sequence[HeadId]
    places: Listing
    couples: Listing


def check_names(names: Sequence[str]) -> None:
    """Insist on names of probes.

    Raises:
        UserError: another name, or none.
    """
    wrong = [repr(name) for name in names if name not in PROBES] or ["''"] * (not names)
    if wrong:
        raise UserError(f"There is no probe {wrong[0]}: choose {', '.join(PROBES)}.")


def builtin(
    model: Transformer, tokenizer: PieceTokenizer, name: str, count: int, split: Split
) -> Study:
    """A probe of the embedded grammar.

    Args:
        model: a Transformer that was trained on the grammar; left as it was.
        tokenizer: the model's.
        name: of `PROBES`.
        count: pairs, at most.
        split: of the grammar.

    Raises:
        UserError: no such probe, or too few pairs that the model has right.
    """
    check_names([name])
    if name == IT:
        made = probe.pronoun_pairs(tokenizer, minimal_pairs(POOL * count, split=split))
    else:
        drawn = link_pairs(name, POOL * count, split=split)
        made = link_probe.probe_pairs(tokenizer, name, drawn)
    right = _known(model, made, name)
    kept = right[:count]
    facts = [
        f"{len(kept)} pairs of the embedded grammar ({split}, synthetic), both ways, in which the "
        f"model has the answer right in both sentences, as in {len(right)} of {len(made)}",
        f"for example: {' / '.join(kept[0].text)}",
    ]
    if name == IT:
        what, looks = "“it”", probe.preferences(model, kept)
    else:
        what, looks = link_probe.PROBES[name].what, link_probe.looks(model, name, kept)
    runs = Interchange(model, both_ways(kept))
    return Study(name, what, runs, places(kept), facts, kept, looks)


def measure(study: Study, progress: Progress | None = None) -> Answer:
    """All interventions of a study.

    Args:
        study: the question.
        progress: told how many heads are done.

    Raises:
        UserError: the model answers the sentences of a pair alike.
    """
    runs = study.runs
    table = trace_heads(runs, progress, groups=study.groups)
    facts = [*study.facts, *table.facts, *study.looks.facts]
    table = with_parts(HeadTable(table.columns, table.rows).joined(study.looks))
    table = HeadTable(table.columns, table.rows, facts)
    closely = strongest(table, CLOSELY)
    placed = [*closely, *(head for head in carriers(table) if head not in closely)]
    return Answer(
        study,
        table,
        smallest_set(runs, table),
        trace_places(runs, placed, study.places).with_facts(facts),
        trace_pairs(runs, table, closely).with_facts(facts),
    )


def _known(model: Transformer, made: list[MinimalPair], name: str) -> list[MinimalPair]:
    """The pairs that the model has right."""
    if len(made) < LEAST:
        raise UserError(
            f"Only {len(made)} pairs of the probe {name!r} have as many pieces in both sentences, "
            "too few: train with a larger tokenizer.vocab_size."
        )
    right = is_right(Interchange(model, both_ways(made)))[: len(made)]
    kept = [pair for pair, good in zip(made, right, strict=True) if good]
    if len(kept) < LEAST:
        raise UserError(
            f"The model has both sentences right in only {len(kept)} of {len(made)} pairs of the "
            f"probe {name!r}, too few to ask which heads decide: train it further."
        )
    return kept


def is_right(runs: Interchange) -> list[bool]:
    """Which contrasts the model answers rightly on both sides."""
    return ((runs.before.delta > 0) & (runs.goal.delta < 0)).tolist()

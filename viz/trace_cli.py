"""`seq2seq trace`: which heads decide an answer, found by swapping their outputs."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.analysis.route import Route, find_steps
from seq2seq.analysis.tables import HeadTable
from seq2seq.cli.args import (
    Parser,
    add_heads_option,
    add_model_options,
    heads_off,
    progress_bar,
    show_warnings,
)
from seq2seq.errors import UserError
from viz.report_files import place
from viz.route import route
from viz.style import FORMATS, render

if TYPE_CHECKING:
    from seq2seq.analysis.head_id import HeadId
    from seq2seq.analysis.interchange import Interchange
    from seq2seq.analysis.trace import Listing
    from seq2seq.run_folder import LoadedRun

PAIRS, LEAST_PAIRS = 100, 40
POOL = 2  # so many times the pairs are made: not all have as many pieces in both sentences
SPLITS = ("train", "dev", "test")
SENTENCES = 500  # asked about their grammatical links
PLACES_OF, PAIRS_OF = 8, 8  # heads looked at more closely, by position and two by two

TITLES = {
    "places": "Where they are swapped",
    "pairs": "Two heads together",
    "links": "Grammatical links: weights only, no intervention",
}

DESCRIPTION = """\
Says which attention heads decide an answer. Two sentences are run through the model; their
translations agree up to one token. Then the first run is repeated with one head's output taken
from the second (interchange intervention): how far does the answer move, and does it turn? That
is the head's causal effect; what is lost without the head (ablation) stands beside it.

With --text and --other for two sentences of yours; with --probe for the pronoun "it" on pairs of
the embedded grammar, whose last word turns what "it" means; there the table also says how
reliably each head looks at the right noun. Writes, into a folder,

  trace.md                  the answer in words, and all tables
  heads.csv                 a row for each head (seq2seq heads --join sets it beside others)
  places.csv, pairs.csv     effects by position, and of two heads together
  links.csv                 with --probe: the best head for subject, object, attribute, particle
  route.png                 source word → heads → token, on one example"""

EXAMPLES = """
seq2seq trace --run runs/demo --probe
seq2seq trace --run runs/demo --text "The cat ate the cheese because it was hungry." \\
    --other "The cat ate the cheese because it was old."
"""


@dataclass
class Study:
    """What is traced: the two runs, and what the command knows about them."""

    runs: Interchange
    what: str
    places: Mapping[str, Mapping[str, Sequence[Collection[int]]]]
    facts: list[str]
    more: list[HeadTable] = field(default_factory=list)
    listings: dict[str, Listing] = field(default_factory=dict)


def trace(argv: list[str]) -> int:
    """Run `seq2seq trace`; prints which heads decide, and where the files lie."""
    args = parser().parse(argv)
    show_warnings()
    _check(args)
    from seq2seq.run_folder import load_run

    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
    with heads_off(run.model, args.without_heads) as off:
        study = _probe(args, run) if args.probe else _given(args, run)
        study.facts += [f"without {head}" for head in off]
        sentences, content = _measure(args, run, study)
    folder = place(Path(args.out or Path(args.run) / "trace"), content)
    print(*sentences, sep="\n")
    print(*(f"  {folder / name}" for name in content), sep="\n")
    return 0


def parser() -> Parser:
    """The options of `seq2seq trace`."""
    result = Parser("trace", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    add_heads_option(result)
    add = result.add_argument_group("two sentences").add_argument
    add("--text", metavar="A", help="a source sentence")
    add("--other", metavar="B", help="another, which differs in a word")
    add("--target", metavar="A", help="translation of the one (default: the model's own)")
    add("--other-target", metavar="B", help="translation of the other")
    add = result.add_argument_group("or the probe").add_argument
    add("--probe", action="store_true", help='what does "it" mean? on pairs of the grammar')
    add("--pairs", type=int, default=PAIRS, metavar="N", help="pairs of sentences (%(default)s)")
    add("--split", choices=SPLITS, default="test", help="of the grammar (%(default)s)")
    add = result.add_argument_group("output").add_argument
    add("--out", metavar="DIR", help="folder (RUN/trace)")
    add("--format", choices=FORMATS, default="png", help="of the picture (%(default)s)")
    return result


def _check(args: argparse.Namespace) -> None:
    sources = [args.text is not None, args.other is not None]
    targets = [args.target is not None, args.other_target is not None]
    if not all(sources) if not args.probe else any(sources + targets):
        raise UserError("Give two sentences, --text A and --other B, or --probe alone.")
    if targets[0] != targets[1]:
        raise UserError("--target and --other-target go together: the translations of A and B.")
    if args.pairs < LEAST_PAIRS:
        raise UserError(f"--pairs {args.pairs} are too few to tell from chance: {LEAST_PAIRS}.")


def _given(args: argparse.Namespace, run: LoadedRun) -> Study:
    from seq2seq.analysis.interchange import Interchange, contrast
    from seq2seq.analysis.pairs import read_pairs
    from seq2seq.decoding.translator import Translator

    targets = None if args.target is None else [args.target, args.other_target]
    translate = Translator(run.model, run.tokenizer, run.config.decode).translate
    pairs = read_pairs(run.tokenizer, [args.text, args.other], targets, translate, 2)
    a, b = pairs
    found = contrast(a.source, b.source, a.target, b.target)
    runs = Interchange(run.model, [found])
    names = run.tokenizer.target_pieces([found.token, found.other_token])
    answer, other = (name.removeprefix("▁") for name in names)
    pieces = {
        "source": run.tokenizer.source_pieces(found.source),
        "target": run.tokenizer.target_pieces(found.target_in),
    }
    places = {
        side: {f"{place} {piece}": [[place]] for place, piece in enumerate(tokens)}
        for side, tokens in pieces.items()
    }
    facts = [f"A: {args.text} → {a.text['target']}", f"B: {args.other} → {b.text['target']}"]
    return Study(runs, f"between “{answer}” and “{other}”", places, facts)


def _probe(args: argparse.Namespace, run: LoadedRun) -> Study:
    from seq2seq.analysis.interchange import Interchange
    from seq2seq.analysis.links import probe_links
    from seq2seq.analysis.probe import both_ways, places, preferences, pronoun_pairs
    from seq2seq.data.grammar import generate, minimal_pairs

    if run.config.data.kind != "grammar":
        raise UserError(
            "--probe asks about sentences of the embedded grammar, on which this run was not "
            "trained: give two sentences of your own, --text A and --other B."
        )
    pool = minimal_pairs(POOL * args.pairs, split=args.split)
    made = pronoun_pairs(run.tokenizer, pool, args.pairs)
    if len(made) < LEAST_PAIRS:
        raise UserError(
            f"Only {len(made)} pairs of the probe have as many pieces in both sentences, too few: "
            "train with a larger tokenizer.vocab_size."
        )
    right = _right(Interchange(run.model, both_ways(made)))[: len(made)]
    kept = [pair for pair, good in zip(made, right, strict=True) if good]
    if len(kept) < LEAST_PAIRS:
        raise UserError(
            f"The model has the right pronoun in both sentences of only {len(kept)} of "
            f"{len(made)} pairs, too few to ask which heads find it: train it further."
        )
    facts = [
        f"{len(kept)} pairs of the embedded grammar ({args.split}, synthetic), both ways: those "
        f"of {len(made)} in which the model has the right pronoun in both sentences",
        f"for example: {' / '.join(kept[0].text)}",
    ]
    more = [preferences(run.model, kept)]
    links = probe_links(run.model, run.tokenizer, generate(SENTENCES, split=args.split))
    runs = Interchange(run.model, both_ways(kept))
    return Study(runs, "“it”", places(kept), facts, more, {"links": links})


def _right(runs: Interchange) -> list[bool]:
    """Which contrasts the model answers rightly on both sides."""
    return ((runs.before.delta > 0) & (runs.goal.delta < 0)).tolist()


def _measure(
    args: argparse.Namespace, run: LoadedRun, study: Study
) -> tuple[list[str], dict[str, bytes]]:
    """Sentences for the terminal, and the files."""
    from seq2seq.analysis.trace import (
        smallest_set,
        strongest,
        trace_heads,
        trace_pairs,
        trace_places,
    )
    from seq2seq.analysis.verdict import carriers, verdict
    from seq2seq.analysis.verdict import route as route_in_words

    runs = study.runs
    with progress_bar("swapping heads") as show:
        effects = trace_heads(runs, show)
    facts = [*_facts(args, run), *study.facts, *effects.facts]
    table = HeadTable(effects.columns, effects.rows, facts).joined(*study.more)
    together = smallest_set(runs, table)
    closely = strongest(table, PLACES_OF)
    listings = {
        "places": trace_places(runs, closely, study.places).with_facts(facts),
        "pairs": trace_pairs(runs, closely[:PAIRS_OF]).with_facts(facts),
    }
    listings |= {
        name: listing.with_facts([*facts[:2], *listing.facts])
        for name, listing in study.listings.items()
    }
    sentences = [verdict(table, runs, together, study.what), *route_in_words(table)]
    parts = ["# Which heads decide\n", *(f"{line}\n" for line in sentences)]
    parts += ["## Heads\n", table.to_markdown()]
    for name, listing in listings.items():
        parts += [f"## {TITLES[name]}\n", listing.to_markdown()]
    texts = {"trace.md": "\n".join(parts), "heads.csv": table.to_csv()}
    texts |= {f"{name}.csv": listing.to_csv() for name, listing in listings.items()}
    content = {name: text.encode("utf-8") for name, text in texts.items()}
    heads = carriers(table)
    try:
        picture = route(_route(run, runs, table, heads, facts))
    except UserError as reason:  # no route, or one too long to draw: the tables stand
        sentences.append(f"No picture of the route: {reason}")
    else:
        content[f"route.{args.format}"] = render(picture, args.format)
    return sentences, content


def _route(
    run: LoadedRun,
    runs: Interchange,
    table: HeadTable,
    heads: Sequence[HeadId],
    facts: Sequence[str],
) -> Route:
    example = runs.contrasts[0]
    answer, other = run.tokenizer.target_pieces([example.token, example.other_token])
    return Route(
        run.tokenizer.source_pieces(example.source),
        run.tokenizer.target_pieces(example.target_in),
        answer,
        other,
        find_steps(runs, table, heads),
        facts,
    )


def _facts(args: argparse.Namespace, run: LoadedRun) -> list[str]:
    import torch

    from seq2seq.run_folder import weights_hash
    from seq2seq.version import __version__

    return [
        f"run {run.path.resolve().name} · checkpoint step {run.step} · "
        f"weights {weights_hash(run.path, args.checkpoint)}",
        f"seq2seq {__version__} · torch {torch.__version__}",
    ]

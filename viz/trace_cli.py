"""`seq2seq trace`: which heads decide an answer, found by swapping their outputs."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
from viz.style import FORMATS

if TYPE_CHECKING:
    from seq2seq.analysis.study import Answer, Study
    from seq2seq.analysis.trace import Listing
    from seq2seq.run_folder import LoadedRun

PAIRS, LEAST_PAIRS = 100, 40
SPLITS = ("train", "dev", "test")
SENTENCES = 500  # asked about their grammatical links
ALL = "all"
COLUMNS = 80  # of a terminal

DESCRIPTION = """\
Says which attention heads decide an answer. Two sentences are run through the model; their
translations agree up to one token. Then the first run is repeated with one head's output taken
from the second (interchange intervention): how far does the answer move, and does it turn? That
is the head's causal effect. Where the head looks, how steep the answer is in it (gradient), and
what is lost without it (ablation) stand beside it.

With --text and --other for two sentences of yours; with --probe for pairs of the embedded grammar
whose answer is known: "it" (whose last word turns what it means), and the links subject, object,
adjective, particle. Writes, into a folder,

  trace.md                  the answer in words, and all tables
  heads.csv                 a row for each head (seq2seq heads --join sets it beside others)
  trace.csv, probes.csv     with --probe: a row for each probe and head; one for each probe
  places.csv, pairs.csv     effects by position, and of two heads together
  links.csv                 with --probe: which heads look along grammatical links
  route.png                 source word → heads → token, on one example of each question

With several --run, such as seeds of one configuration, --probe says what all models do alike: heads
are matched by what they read from where, not by number (stability.csv, stability.md)."""

EXAMPLES = """
seq2seq trace --run runs/demo --probe
seq2seq trace --run runs/demo --probe it,object --pairs 60
seq2seq trace --run runs/seed1 --run runs/seed2 --run runs/seed3 --probe
seq2seq trace --run runs/demo --text "The cat ate the cheese because it was hungry." \\
    --other "The cat ate the cheese because it was old."
"""


def trace(argv: list[str]) -> int:
    """Run `seq2seq trace`; prints which heads decide, and where the files lie."""
    args = parser().parse(argv)
    show_warnings()
    _check(args)
    from seq2seq.run_folder import load_run
    from viz.trace_files import content, said

    if len(args.run) > 1:
        return _several(args)
    (name,) = args.run
    run = load_run(name, device=args.device, checkpoint=args.checkpoint)
    with heads_off(run.model, args.without_heads) as off:
        facts = [*_facts(args, run), *(f"without {head}" for head in off)]
        answers, notes = _answers(args, run)
        links = _links(args, run) if args.probe else None
        files, more = content(run.tokenizer, answers, links, facts, args.format)
        lines = said(answers)
    _show(Path(args.out or Path(name) / "trace"), files, [*lines, *notes, *more])
    return 0


def _several(args: argparse.Namespace) -> int:
    """The same probes in several runs: what is stable?"""
    from seq2seq.analysis.stability import Model
    from seq2seq.run_folder import load_run
    from viz.stability import content, names, said

    models, facts, notes = [], list[str](), list[str]()
    for path, name in zip(args.run, names(args.run), strict=True):
        run = load_run(path, device=args.device, checkpoint=args.checkpoint)
        answers, missing = _answers(args, run)
        models.append(Model(name, {answer.study.name: answer for answer in answers}))
        facts.append(_facts(args, run)[0])
        notes += [f"{name}: {note}" for note in missing]
    facts += [f"{args.split} split of the embedded grammar, synthetic · {args.pairs} pairs a probe"]
    lines, rows = said(models)
    folder = Path(args.out or Path(args.run[0]) / "stability")
    _show(folder, content(models, rows, [*lines, *notes], facts), [*lines, *notes])
    return 0


def _show(folder: Path, files: dict[str, bytes], lines: Sequence[str]) -> None:
    folder = place(folder, files)
    for line in lines:
        print(_wrapped(line))
    print(*(f"  {folder / name}" for name in files), sep="\n")


def parser() -> Parser:
    """The options of `seq2seq trace`."""
    result = Parser("trace", DESCRIPTION, EXAMPLES)
    add_model_options(result, several=True)
    add_heads_option(result)
    add = result.add_argument_group("two sentences").add_argument
    add("--text", metavar="A", help="a source sentence")
    add("--other", metavar="B", help="another, which differs in a word")
    add("--target", metavar="A", help="translation of the one (default: the model's own)")
    add("--other-target", metavar="B", help="translation of the other")
    add = result.add_argument_group("or probes").add_argument
    add(
        "--probe",
        nargs="?",
        const=ALL,
        metavar="NAMES",
        help="of it,subject,object,adjective,particle (all), on pairs of the grammar",
    )
    add("--pairs", type=int, default=PAIRS, metavar="N", help="of sentences a probe (%(default)s)")
    add("--split", choices=SPLITS, default="test", help="of the grammar (%(default)s)")
    add = result.add_argument_group("output").add_argument
    add("--out", metavar="DIR", help="folder (RUN/trace)")
    add("--format", choices=FORMATS, default="png", help="of the pictures (%(default)s)")
    return result


def _check(args: argparse.Namespace) -> None:
    sources = [args.text is not None, args.other is not None]
    targets = [args.target is not None, args.other_target is not None]
    if not all(sources) if not args.probe else any(sources + targets):
        raise UserError("Give two sentences, --text A and --other B, or --probe alone.")
    if targets[0] != targets[1]:
        raise UserError("--target and --other-target go together: the translations of A and B.")
    if len(args.run) > 1 and (not args.probe or args.without_heads):
        raise UserError("Several runs are compared on probes alone: give --probe, no heads off.")
    if args.pairs < LEAST_PAIRS:
        raise UserError(f"--pairs {args.pairs} are too few to tell from chance: {LEAST_PAIRS}.")


def _answers(args: argparse.Namespace, run: LoadedRun) -> tuple[list[Answer], list[str]]:
    """What was found, and which probes could not be asked."""
    from seq2seq.analysis.study import measure

    found: list[Answer] = []
    notes: list[str] = []
    for study in _probes(args, run, notes) if args.probe else [_given(args, run)]:
        with progress_bar(f"swapping heads {study.name}".rstrip()) as show:
            found.append(measure(study, show))
    return found, notes


def _given(args: argparse.Namespace, run: LoadedRun) -> Study:
    from seq2seq.analysis.interchange import Interchange, contrast
    from seq2seq.analysis.pairs import read_pairs
    from seq2seq.analysis.study import Study
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
    return Study("", f"between “{answer}” and “{other}”", runs, places, facts)


def _probes(args: argparse.Namespace, run: LoadedRun, notes: list[str]) -> Iterator[Study]:
    """The probes asked for; of all, those that the model is ready for, and a note on others.

    Raises:
        UserError: a probe that was named cannot be asked, or none can.
    """
    from seq2seq.analysis.study import PROBES, builtin, check_names

    if run.config.data.kind != "grammar":
        raise UserError(
            "--probe asks about sentences of the embedded grammar, on which this run was not "
            "trained: give two sentences of your own, --text A and --other B."
        )
    names = PROBES if args.probe == ALL else args.probe.replace(",", " ").split()
    check_names(names)
    for name in dict.fromkeys(names):
        try:
            yield builtin(run.model, run.tokenizer, name, args.pairs, args.split)
        except UserError as reason:
            if args.probe != ALL or len(notes) == len(PROBES) - 1:
                raise
            notes.append(f"Not asked: {reason}")


def _links(args: argparse.Namespace, run: LoadedRun) -> Listing:
    from seq2seq.analysis.links import probe_links
    from seq2seq.data.grammar import generate

    return probe_links(run.model, run.tokenizer, generate(SENTENCES, split=args.split))


def _facts(args: argparse.Namespace, run: LoadedRun) -> list[str]:
    import torch

    from seq2seq.run_folder import weights_hash
    from seq2seq.version import __version__

    return [
        f"run {run.path.resolve().name} · checkpoint step {run.step} · "
        f"weights {weights_hash(run.path, args.checkpoint)}",
        f"seq2seq {__version__} · torch {torch.__version__}",
    ]


def _wrapped(line: str) -> str:
    return textwrap.fill(line, COLUMNS, subsequent_indent="  ") if len(line) > COLUMNS else line

"""`seq2seq align`: word alignments from cross-attention, scored against a gold alignment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.analysis.align import (
    EOS_RULES,
    MODES,
    NULL,
    Tally,
    Words,
    hard,
    pharaoh,
    words_of,
)
from seq2seq.analysis.align_heads import Choice, Comparison, choices, layer_choice
from seq2seq.attention_maps import AttentionMaps
from seq2seq.cli.align_text import AlignText, read_text
from seq2seq.cli.args import (
    Parser,
    add_heads_option,
    add_model_options,
    heads_off,
    progress_bar,
    refuse_same_file,
    show_warnings,
    writing,
)
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.analysis.head_id import HeadId
    from seq2seq.run_folder import LoadedRun

DESCRIPTION = """\
Reads word alignments off cross-attention: each target word is linked to the source word that it
attends to most. With --head, --layer or --mean it prints one line `0-0 1-2 …` (source-target, from
0) for every sentence pair; a blank line stays blank. With a gold alignment (--gold, or a split of
the embedded grammar, which knows it) it prints the alignment error rate; without --head, --layer
and --mean, that of every head, of the mean of every layer and of all, with the best head by layer.
Words are what spaces separate; in the grammar's own splits each of . , ? is a word, too."""

EXAMPLES = """
seq2seq align --run runs/demo --split test
seq2seq align --run runs/demo --split test --csv aligners.csv
seq2seq align --run runs/demo --source text.en --target text.de --head cross.1.2 --output text.align
seq2seq align --run runs/demo --source text.en --target text.de --gold text.gold --one-indexed
seq2seq align --run runs/demo --split test --layer 1 --sentence 3 --figure alignment.pdf
"""


def align(argv: list[str]) -> int:
    """Run `seq2seq align`: links or error rates on stdout, the error rate of links on stderr."""
    args = parser().parse(argv)
    show_warnings()
    _check(args)
    text = read_text(args)
    chosen = args.head is not None or args.layer is not None or args.mean
    if text.gold is None and not chosen:
        raise UserError(
            "Say what aligns: --head cross.1.2, --layer 1 or --mean; or give --gold FILE to "
            "compare all heads."
        )
    if args.sentence is not None and not 1 <= args.sentence <= len(text.pairs):
        raise UserError(f"--sentence {args.sentence}: there are sentences 1 to {len(text.pairs)}.")
    from seq2seq.run_folder import load_run

    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
    with heads_off(run.model, args.without_heads) as off:
        if chosen:
            choice = _choice(args, run)
            _write_links(args, run, text, choice)
            _draw(args, run, text, choice, args.mode, off)
        else:
            found = _compare(args, run, text, off)
            best, mode, _ = found.best()
            _draw(args, run, text, best, mode, off)
    return 0


def parser() -> Parser:
    """The options of `seq2seq align`."""
    result = Parser("align", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    add_heads_option(result)
    data = result.add_argument_group("sentence pairs")
    add = data.add_argument
    add("--split", metavar="NAME", help="of the run's corpus, such as test")
    add("--source", metavar="FILE", help="or your own sentences, one a line")
    add("--target", metavar="FILE", help="and their translations, by line")
    add("--limit", type=int, metavar="N", help="the first N pairs only")
    add("--gold", metavar="FILE", help="right links by line: 0-1 is sure, 0p1 is possible")
    add("--one-indexed", action="store_true", help="words in --gold count from 1")
    what = result.add_argument_group("what aligns").add_mutually_exclusive_group()
    what.add_argument("--head", metavar="HEADS", help="cross.1.2, or the mean of several, by comma")
    what.add_argument("--layer", type=int, metavar="N", help="the mean of the layer's heads")
    what.add_argument("--mean", action="store_true", help="the mean of all cross-attention heads")
    how = result.add_argument_group("how")
    how.add_argument(
        "--mode",
        choices=MODES,
        help="read the row that predicts a word (out, default), or the one that reads it (in)",
    )
    how.add_argument(
        "--eos",
        choices=EOS_RULES,
        default=NULL,
        help="where the end of sentence wins: no link (null, default), or the next best (ignore)",
    )
    out = result.add_argument_group("output")
    out.add_argument("--output", metavar="FILE", help="for the links (default: stdout)")
    out.add_argument("--csv", metavar="FILE", help="table of all heads, for seq2seq heads --join")
    out.add_argument("--figure", metavar="FILE", help="picture (png, svg, pdf) of one sentence")
    out.add_argument("--sentence", type=int, metavar="N", help="which, from 1 (1)")
    return result


def _check(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other, before anything is loaded."""
    single = args.head is not None or args.layer is not None or args.mean
    if args.split is not None and (args.source or args.target or args.gold):
        raise UserError("--split names pairs of the run's corpus: leave out --source and --gold.")
    if args.split is None and not (args.source and args.target):
        raise UserError("Give --split NAME, or --source FILE and --target FILE.")
    if args.one_indexed and args.gold is None:
        raise UserError("--one-indexed says how --gold counts words: give --gold FILE.")
    if args.limit is not None and args.limit < 1:
        raise UserError(f"--limit is {args.limit}, but must be at least 1.")
    if single and args.csv:
        raise UserError("--csv is the table of all heads: leave out --head, --layer and --mean.")
    if not single and (args.output or args.mode):
        option = "--output" if args.output else "--mode"
        raise UserError(f"{option} needs one aligner: give --head, --layer or --mean.")
    if args.sentence is not None and args.figure is None:
        raise UserError("--sentence says what --figure FILE shows: give --figure.")
    if args.figure and Path(args.figure).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"--figure {args.figure}: the name must end in .png, .svg or .pdf.")
    for path in (args.source, args.target, args.gold):
        refuse_same_file(path, args.output)
    args.mode = args.mode or MODES[0]
    args.sentence = args.sentence or (1 if args.figure else None)


def _choice(args: argparse.Namespace, run: LoadedRun) -> Choice:
    from seq2seq.analysis.intervene import all_heads, parse_heads

    heads = all_heads(run.model)
    if args.layer is not None:
        return layer_choice(heads, args.layer)
    if args.mean:
        return choices(heads)[0]
    named = tuple(parse_heads(args.head, run.model))
    name = ", ".join(map(str, named))
    return Choice(name if len(named) == 1 else f"mean of {name}", named)


def _records(run: LoadedRun, text: AlignText, what: str) -> Iterator[tuple[AttentionMaps, Words]]:
    """Every pair's maps and words; says which sentences' words cannot be numbered."""
    from seq2seq.analysis.capture import capture_each

    sources, targets = zip(*text.pairs, strict=True)
    told = False
    with progress_bar(what) as show:
        records = capture_each(run.model, run.tokenizer, sources, targets)
        for number, maps in enumerate(records, start=1):
            words = words_of(maps, text.marks)
            if words.by_pieces and not told:
                told = True
                print(
                    f"note: sentence {number} does not space the words of its "
                    f"{' and '.join(words.by_pieces)}: there, as in others like it, pieces count",
                    file=sys.stderr,
                )
            if words.notice:
                print(
                    f"warning: sentence {number} is left without links: {words.notice}",
                    file=sys.stderr,
                )
            if show is not None:
                show(number, len(text.pairs))
            yield maps, words


def _write_links(args: argparse.Namespace, run: LoadedRun, text: AlignText, choice: Choice) -> None:
    tally = Tally()
    with writing(args.output) as out:
        for number, (maps, words) in enumerate(_records(run, text, "aligning")):
            links = hard(choice.weights(maps), words, mode=args.mode, eos=args.eos)
            out.write(pharaoh(links) + "\n")
            if text.gold is not None:
                tally.add(links, text.gold[number])
    if text.gold is not None:
        shares = (("precision", tally.precision), ("recall", tally.recall))
        parts = [f"{name} {value:.3f}" for name, value in shares if value is not None]
        print(
            f"{choice.name}, mode {args.mode}: "
            + ", ".join(
                [f"AER {tally.aer:.3f}", *parts, f"{len(text.pairs)} pairs of {text.name}"]
            ),
            file=sys.stderr,
        )


def _compare(
    args: argparse.Namespace, run: LoadedRun, text: AlignText, off: list[HeadId]
) -> Comparison:
    from seq2seq.analysis.intervene import all_heads
    from seq2seq.run_folder import weights_hash

    found = Comparison(choices(all_heads(run.model)), args.eos)
    for (maps, words), gold in zip(_records(run, text, "aligning"), text.gold or [], strict=True):
        found.add(maps, words, gold)
    facts = [
        f"run {run.path.resolve().name} · checkpoint step {run.step} · "
        f"weights {weights_hash(run.path, args.checkpoint)}",
        f"{found.sentences} sentence pairs of {text.name}, targets given · words"
        f" · end of sentence: {args.eos}",
        *(f"without {head}" for head in off),
    ]
    print(*facts, "", *found.report(), sep="\n")
    if args.csv:
        with writing(args.csv) as out:
            out.write(found.table(facts).to_csv())
    return found


def _draw(
    args: argparse.Namespace,
    run: LoadedRun,
    text: AlignText,
    choice: Choice,
    mode: str,
    off: list[HeadId],
) -> None:
    """The picture of one sentence, if one is wanted."""
    if args.figure is None:
        return
    from seq2seq.analysis.capture import capture_each
    from seq2seq.run_folder import weights_hash
    from viz.alignment import alignment, word_record
    from viz.style import save

    place = args.sentence - 1
    meta = {
        "run": run.path.resolve().name,
        "step": run.step,
        "weights_hash": weights_hash(run.path, args.checkpoint),
        "notices": [f"heads switched off: {', '.join(map(str, off))}"] if off else [],
    }
    source, target = text.pairs[place]
    maps = next(capture_each(run.model, run.tokenizer, [source], [target], meta=meta))
    words, weights = words_of(maps, text.marks), choice.weights(maps)
    if not words.usable or not words.source or not words.target:
        raise UserError(
            f"--sentence {args.sentence} cannot be drawn: {words.notice or 'a side is blank'}."
        )
    record = word_record(maps, weights, words, mode)
    links = hard(weights, words, mode=mode, eos=args.eos)
    gold = None if text.gold is None else text.gold[place]
    name = f"Alignment by {choice.name}, mode {mode}"
    save(alignment(record, links, gold, name=name), args.figure)
    print(f"picture: {args.figure}", file=sys.stderr)

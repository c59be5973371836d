"""`seq2seq prune`: how many heads a model can do without, and the smaller model itself."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.choices import Search
from seq2seq.cli.args import (
    Parser,
    add_model_options,
    add_search_options,
    progress_bar,
    show_warnings,
)
from seq2seq.cli.evaluate import EvaluateConfig, configure, test_set
from seq2seq.config import DecodeConfig
from seq2seq.errors import UserError
from viz.report_args import (
    Pairs,
    add_pair_options,
    check_pair_options,
    facts,
    positive,
    some,
    usable_pairs,
)
from viz.report_files import place
from viz.style import FORMATS, render

if TYPE_CHECKING:
    from seq2seq.analysis.head_id import HeadId
    from seq2seq.analysis.prune import Curve
    from seq2seq.decoding.translator import Translator
    from seq2seq.run_folder import LoadedRun
    from seq2seq.training.pruned_run import PrunedRun

ORDERS = ("importance", "reverse", "random")
STEP = 0.1

DESCRIPTION = """\
Removes attention heads step by step - least important first (gradient importance, Michel et al.
2019), most important first, and in random orders - and measures BLEU and loss after every step. On
the way heads are only switched off; the run stays as it is. Writes, into a folder,

  prune.png     BLEU and loss against the share of heads removed (svg, pdf: --format)
  prune.csv     a row for each point: scores, parameters left, heads removed
  prune.md      the same for people, with what stands out

With --remove or --share, it writes the smaller model as a run folder of its own instead (--out),
which translates, evaluates, plots and goes on training like any other. Heads keep their numbers.
Nothing is written over: another report goes to prune-2 and so on."""

EXAMPLES = """
seq2seq prune --run runs/demo --limit 200 --beam 1
seq2seq prune --run runs/demo --order importance --step 0.05 --re-estimate
seq2seq prune --run runs/demo --share 0.3 --out runs/demo-small
seq2seq prune --run runs/demo --remove enc.0.1,cross.2.3 --out runs/demo-small
seq2seq train --run runs/demo-small --resume train.max_updates=20000
"""

HOW_TO_RESUME = {
    "moments": "training goes on with Adam's moments of what is left",
    "anew": "this checkpoint keeps no optimizer state, so training would go on with moments of "
    "zero; --checkpoint last keeps them",
    "never": "the run has no training.pt, so the new one cannot go on training either",
}


def prune(argv: list[str]) -> int:
    """Run `seq2seq prune`; prints what stands out or what was removed, and where it lies."""
    args = parser().parse(argv)
    show_warnings()
    _check(args)
    if args.remove is not None:
        from seq2seq.analysis.intervene import parse_heads_to_go
        from seq2seq.run_folder import load_run

        run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
        return _write_run(args, run, parse_heads_to_go(args.remove, run.model))
    return _measured(args)


def _measured(args: argparse.Namespace) -> int:
    """What needs sentence pairs: the curve, or --share."""
    config = configure(args)
    test = test_set(args, config.data)
    from seq2seq.decoding.translator import Translator
    from seq2seq.run_folder import load_run

    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
    pairs, left_out = usable_pairs(args, run, test)
    translator = Translator(run.model, run.tokenizer, config.decode)
    if args.share is not None:
        return _write_run(args, run, _first(args, translator, pairs))
    found = _curve(args, translator, pairs, test.target_lang)
    when = "at every step" if args.re_estimate else "once"
    how = f"{_search(config.decode)} · importance, measured {when}, and quality on the same pairs"
    found = dataclasses.replace(found, facts=facts(args, run, test, len(pairs), [how, *left_out]))
    content, said = _report(found, args.format or ("png",))
    folder = place(Path(args.out or Path(args.run) / "prune"), content)
    print(*said, sep="\n")
    print(*(f"  {folder / name}" for name in content), sep="\n")
    return 0


def parser() -> Parser:
    """The options of `seq2seq prune`."""
    result = Parser("prune", DESCRIPTION, EXAMPLES, schema=EvaluateConfig, groups=("decode",))
    add_model_options(result)
    add_pair_options(result)
    what = result.add_argument_group("the curve")
    add = what.add_argument
    add("--order", type=some(ORDERS), metavar="O,O", help=f"of {','.join(ORDERS)} (all)")
    add("--step", type=_share, metavar="X", help="share of the heads that go at each point (0.1)")
    add("--seeds", type=positive, default=3, metavar="N", help="random orders (3)")
    add(
        "--re-estimate",
        action="store_true",
        help="measure the importance of what is left at every step",
    )
    add("--format", type=some(FORMATS), metavar="F,F", help="of png,svg,pdf (png)")
    smaller = result.add_argument_group("a smaller model").add_mutually_exclusive_group()
    add = smaller.add_argument
    add("--remove", metavar="HEADS", help="these heads, such as enc.0.1,cross.2.3")
    add("--share", type=_share, metavar="X", help="this share of them, the first by --order")
    out = result.add_argument_group("output")
    out.add_argument(
        "--out",
        metavar="DIR",
        help="folder of the report (RUN/prune); with --remove or --share, the new run's folder",
    )
    add_search_options(result)
    return result


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share above 0, up to 1")
    return value


def _check(args: argparse.Namespace) -> None:
    check_pair_options(args)
    if args.remove is None and args.share is None:
        return
    if args.out is None:
        raise UserError("--remove and --share write a new run folder: give --out RUNS/NAME.")
    if args.format or args.step:
        raise UserError("--step and --format are for the curve: leave --remove and --share out.")
    if args.remove is not None and args.order:
        raise UserError("--remove names the heads, so there is no --order among them.")
    if args.share is not None and args.order and len(args.order) > 1:
        raise UserError("--share takes one --order: the one in which heads go.")


def _first(args: argparse.Namespace, translator: Translator, pairs: Pairs) -> list[HeadId]:
    """The heads that are to go for --share."""
    from seq2seq.analysis.intervene import all_heads
    from seq2seq.analysis.prune import removal_counts, removal_order

    count = round(args.share * len(all_heads(translator.model)))
    if not count:
        raise UserError(f"--share {args.share:g} of the model's heads is less than one: raise it.")
    order = (args.order or ORDERS)[0]
    counts = removal_counts(count, STEP) if args.re_estimate else [count]
    return removal_order(translator, pairs, order, counts=[n for n in counts if n])[:count]


def _write_run(args: argparse.Namespace, run: LoadedRun, heads: Sequence[HeadId]) -> int:
    from seq2seq.training.pruned_run import write_pruned_run

    made = write_pruned_run(run, heads, Path(args.out), which=args.checkpoint)
    print(*report(heads, made), sep="\n")
    return 0


def report(heads: Sequence[HeadId], made: PrunedRun) -> list[str]:
    """What was removed, in lines; the last one is "run: PATH"."""
    names = ", ".join(map(str, sorted(heads, key=lambda head: head.rank)))
    gone = made.before - made.after
    count = f"{len(heads)} head{'s' * (len(heads) > 1)}: {names}" if heads else "no head"
    return [
        f"removed {count}",
        f"parameters: {made.before:,} before, {made.after:,} after, {gone:,} less "
        f"({gone / made.before:.1%})",
        f"resuming: {HOW_TO_RESUME[made.resumption]}",
        f"run: {made.path}",
    ]


def _curve(
    args: argparse.Namespace, translator: Translator, pairs: Pairs, target_lang: str
) -> Curve:
    from seq2seq.analysis.prune import Options, curve

    options = Options(
        orders=args.order or ORDERS,
        step=args.step or STEP,
        seeds=args.seeds,
        re_estimate=args.re_estimate,
    )
    with progress_bar("removing heads") as show:
        return curve(translator, pairs, options, target_lang=target_lang, progress=show)


def _search(decode: DecodeConfig) -> str:
    if decode.search is Search.sample:
        return "sampled"
    return "greedy" if decode.beam == 1 else f"beam {decode.beam}"


def _report(found: Curve, formats: Sequence[str]) -> tuple[dict[str, bytes], list[str]]:
    """The report's files by name (the picture in each format, and the tables), and what to say."""
    from seq2seq.analysis.prune_tables import finding, to_csv, to_markdown
    from viz.prune_curve import prune_curve

    figure = prune_curve(found)
    content = {f"prune.{extension}": render(figure, extension) for extension in formats}
    content["prune.csv"] = to_csv(found).encode("utf-8")
    content["prune.md"] = to_markdown(found).encode("utf-8")
    return content, [line for line in [finding(found)] if line]

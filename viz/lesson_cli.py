"""`seq2seq lesson`: multi-head attention taught by numbers from the modules that translate."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.cli.args import INTERRUPTED, Parser, show_warnings
from seq2seq.errors import UserError
from viz.report_args import positive, some
from viz.style import FORMATS

if TYPE_CHECKING:
    from seq2seq.lesson.runs import Pairs
    from viz.lesson_parts import Wishes

OUT = "lesson"  # the folder, unless --out names another
NAMES = (
    "shapes",
    "worked",
    "heads",
    "mask",
    "cross",
    "single",
    "parameters",
    "complexity",
    "sweep",
    "seeds",
)

DESCRIPTION = """\
Teaches multi-head attention claim by claim. Every number comes from the project's own modules:
hooks on a real attention, captured tensors, PyTorch's count of operations; nothing is computed in
a copy. Each claim says whether it holds, with the number that decides. Parts:

  shapes      from X to the output: every tensor's shape, for four sizes
  worked      two heads on "I learn." with all numbers; what scaling and a single head change
  heads       with --run: what trained heads have become, and which are not missed
  mask        no decoder head sees the future (a tiny random model, or --run)
  cross       queries come from the decoder, keys and values from the encoder
  single      with --runs A B or --train: one head against many of the same width
  parameters  what heads and W_O add
  complexity  operations and score entries by length and number of heads; --time for milliseconds
  sweep       with --runs: quality, entropy and divergence by number of heads
  seeds       with --runs A B: two seeds, with their heads matched by looks

Without a part, all for which the runs are at hand are written into a folder:

  lesson.html               one page, offline, with the worked example to play with
  lesson.txt                what is printed
  NAME.csv                  the tables
  lesson_NAME.png           the pictures, for --formats png (svg, pdf)

With parts named, they are printed, and files are written with --out or --formats. Nothing is ever
written over: another lesson goes to lesson-2 and so on."""

EXAMPLES = """
seq2seq lesson
seq2seq lesson worked
seq2seq lesson complexity --d-model 256 --length 30 --heads 1,2,4,8 --time
seq2seq lesson --run runs/demo --out demo-lesson --formats pdf
seq2seq lesson single --train
seq2seq lesson single --train train.max_updates=3000 data.train_source=a.en data.train_target=a.de
seq2seq lesson sweep --runs runs/h1 runs/h2 runs/h4 runs/h8
"""


def lesson(argv: list[str]) -> int:
    """Run `seq2seq lesson`; prints the claims and where the files lie."""
    args = parser().parse(argv)
    show_warnings()
    names, overrides = _split(args.what)
    _check(args, names, overrides)
    from seq2seq.lesson.runs import load_runs
    from viz.lesson_parts import build, possible

    wishes = _wishes(args)  # before training: what is wrong is said at once
    if args.train:
        from viz.lesson_train import train_runs

        trained = train_runs(Path(args.out or OUT), args.heads or (1, 4), overrides)
        if trained is None:
            return INTERRUPTED
        args.runs = [str(path) for path in trained]
    if args.runs:
        wishes.runs = load_runs(args.runs, device=args.device)
    built = [build(name, wishes) for name in names or possible(wishes)]
    print(*(one.part.to_text() for one in built), sep="\n")
    if not names or args.out or args.formats or args.train:
        from viz.lesson_files import files
        from viz.report_files import place

        content = files(built, _facts(), args.formats)
        folder = place(Path(args.out or OUT), content)
        print(f"page to open in a browser:\n  {folder / 'lesson.html'}")
        print(f"and {len(content) - 1} more files in {folder}")
    return 0


def parser() -> Parser:
    """The options of `seq2seq lesson`."""
    result = Parser("lesson", DESCRIPTION, EXAMPLES)
    result.usage = "seq2seq lesson [PART …] [options] [key=value …]"
    result.add_argument(
        "what",
        nargs="*",
        metavar="PART",
        help=f"of {', '.join(NAMES)}; with --train also settings as of seq2seq train",
    )
    which = result.add_argument_group("trained runs")
    add = which.add_argument
    add("--run", metavar="RUN", help="look into this run, too")
    add("--checkpoint", default="best", metavar="WHICH", help="of it: best (default), last, step-N")
    add("--runs", nargs="+", default=[], metavar="RUN", help="finished runs to compare")
    add("--train", action="store_true", help="train the runs to compare, in the output folder")
    add("--device", default="auto", help="auto (default: a GPU if there is one), cpu, cuda, cuda:1")
    add("--text", metavar="T", help="the sentence to look at in runs")
    add("--split", default="dev", help="whose pairs runs are measured on (%(default)s)")
    add("--source", metavar="FILE", help="or on your own sentences")
    add("--reference", metavar="FILE", help="and their translations, line by line")
    add("--limit", type=positive, default=200, metavar="N", help="so many of them (200)")
    count = result.add_argument_group("what is counted")
    add = count.add_argument
    add("--d-model", type=positive, metavar="D", help="width (512)")
    add("--length", type=positive, metavar="N", help="tokens (60)")
    add(
        "--heads",
        type=_numbers,
        metavar="H,H",
        help="numbers of heads (of 1,2,4,8,16 those that divide D; with --train 1,4)",
    )
    add("--time", action="store_true", help="also take the time of a pass on this CPU")
    out = result.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", help=f"folder of the files ({OUT})")
    out.add_argument(
        "--formats",
        "--format",
        type=some(FORMATS),
        default=(),
        metavar="F,F",
        help="pictures as files, too: of png,svg,pdf",
    )
    return result


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Parts, in the order of the lesson, and settings.

    Raises:
        UserError: a word that is neither.
    """
    overrides = [word for word in words if "=" in word]
    chosen = [word for word in words if "=" not in word]
    for word in chosen:
        if word not in NAMES:
            near = difflib.get_close_matches(word, NAMES, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}."
            raise UserError(f"The lesson has no part {word!r}: {hint}")
    return [name for name in NAMES if name in chosen], overrides


def _check(args: argparse.Namespace, names: list[str], overrides: list[str]) -> None:
    if args.train and args.runs:
        raise UserError("--train makes the runs itself: leave out --runs, or --train.")
    if args.train and names and not {"single", "sweep"} & set(names):
        raise UserError("--train is for the parts single and sweep: name one of them, or none.")
    if overrides and not args.train:
        raise UserError(f"{overrides[0]} is a setting of training: it goes with --train.")
    if bool(args.source) != bool(args.reference):
        raise UserError("--source FILE needs --reference FILE: its translation, line by line.")
    if args.text is not None and not args.text.strip():
        raise UserError("--text is blank: give a sentence.")
    if args.text is not None and not (args.run or args.runs or args.train):
        raise UserError("--text is what a trained model looks at: give --run RUN, too.")


def _wishes(args: argparse.Namespace) -> Wishes:
    from seq2seq.lesson.cost import D_MODEL, HEADS, LENGTH
    from seq2seq.run_folder import load_run
    from viz.lesson_parts import Wishes

    width = args.d_model or D_MODEL
    counts = None if args.train else args.heads
    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint) if args.run else None
    return Wishes(
        run=run,
        checkpoint=args.checkpoint,
        split=args.split,
        own=_own(args),
        limit=args.limit,
        d_model=width,
        length=args.length or LENGTH,
        counts=counts or tuple(h for h in HEADS if width % h == 0),
        timed=args.time,
        **({} if args.text is None else {"text": args.text}),
    )


def _own(args: argparse.Namespace) -> Pairs | None:
    if args.source is None:
        return None
    from seq2seq.data.lines import read_lines
    from seq2seq.evaluation import check_counts
    from seq2seq.lesson.runs import Pairs

    sources = list(read_lines(args.source, "--source"))
    references = list(read_lines(args.reference, "--reference"))
    check_counts(sources, [references])
    return Pairs(list(zip(sources, references, strict=True)), Path(args.source).name)


def _facts() -> list[str]:
    import torch

    from seq2seq.version import __version__

    return [f"seq2seq {__version__} · torch {torch.__version__}"]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({positive(word) for word in text.replace(",", " ").split() or [text]}))

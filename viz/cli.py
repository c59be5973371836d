"""`seq2seq attention`: pictures of what every attention head looks at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import tee, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.attention_maps import KINDS, AttentionMaps
from seq2seq.cli.args import (
    Parser,
    add_heads_option,
    add_model_options,
    heads_off,
    show_warnings,
)
from seq2seq.config import Search
from seq2seq.data.lines import check_file, is_blank, read_lines
from seq2seq.errors import UserError
from viz.style import CHOICES, FORMATS, Look

if TYPE_CHECKING:
    from seq2seq.run_folder import LoadedRun
    from viz.gallery import Wish

MAX_TOKENS = 150

DESCRIPTION = """\
Draws the attention of every head for one sentence, or for each line of a file, and saves the
weights themselves. The model translates the sentence unless you give its translation. For
sentence N the files are

  attn_N.npz                all weights: seq2seq.attention_maps.AttentionMaps.load(path)
  attn_N_KIND_overview.png  every layer and head, small; KIND is enc, dec or cross
  attn_N_KIND_L2.png        the heads of layer 2 with all tokens: the last layer, or all layers of
                            a short --text
  attn_N_KIND_L2H3.png      head 3 of layer 2, for --heads 3

Files in DIR are never written over: another sentence, or other pictures of the same one, take
the next free number. The same command again finds its files there and changes nothing."""

EXAMPLES = """
seq2seq attention --run runs/demo --text "The request was slow." --out pictures
seq2seq attention --run runs/demo --text "It was slow." --target "Sie war langsam." --out pictures
seq2seq attention --run runs/demo --input text.en --kinds cross --level word --out pictures
seq2seq attention --run runs/demo --text "It was slow." --layers 0,2 --heads 1,3 --out pictures
"""


def attention(argv: list[str]) -> int:
    """Run `seq2seq attention`; prints each translation and where its files lie."""
    args = parser().parse(argv)
    show_warnings()
    wish = _wish(args)
    single = args.text is not None
    if (args.target_input if single else args.target) is not None:
        raise UserError("--target goes with --text, and --target-input with --input.")
    for option in ("input", "target_input"):
        if getattr(args, option) is not None:
            check_file(getattr(args, option), f"--{option.replace('_', '-')}")
    from viz.gallery import files, place

    number, told = 0, set[str]()
    for maps in _records(args):
        content, notes = files(maps, wish, single=single)
        number, paths = place(Path(args.out), number, content)
        number += 1
        for note in (n for n in [*notes, *maps.meta.get("notices", [])] if n not in told):
            told.add(note)
            print(f"note: {note}", file=sys.stderr)
        print(f"source: {maps.text['source']}\ntarget: {maps.text['target']}")
        print(*(f"  {path}" for path in paths), sep="\n")
    if number == 0:
        raise UserError(f"--input {args.input} holds no sentence.")
    return 0


def parser() -> Parser:
    """The options of `seq2seq attention`."""
    result = Parser("attention", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    add_heads_option(result)
    what = result.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", metavar="T", help="one source sentence")
    what.add_argument("--input", metavar="FILE", help='source sentences, one a line; "-" is stdin')
    result.add_argument("--target", metavar="T", help="the translation of --text")
    result.add_argument("--target-input", metavar="FILE", help="the translations of --input")
    result.add_argument("--out", required=True, metavar="DIR", help="folder for the files")
    result.add_argument("--beam", type=int, metavar="K", help="beam width; 1 is greedy")
    result.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="refuse longer sentences (%(default)s)",
    )
    draw = result.add_argument_group("what is drawn")
    add = draw.add_argument
    add("--kinds", type=_names(KINDS), default=KINDS, help="of enc,dec,cross (all)")
    add("--layers", type=_numbers, metavar="N,N", help="layers, counted from 0")
    add("--heads", type=_numbers, metavar="N,N", help="heads to draw large, counted from 0")
    add(
        "--figures",
        type=_names(("overview", "layer", "head", "average")),
        metavar="F,F",
        help="of overview,layer,head,average (overview,layer)",
    )
    add("--level", choices=("piece", "word"), default="piece", help="what rows and columns are")
    add(
        "--special",
        choices=CHOICES["special"],
        default="show",
        help="columns of <s> and </s>: show, mute (grey) or drop; what is hidden is stated",
    )
    add(
        "--labels",
        choices=CHOICES["labels"],
        default="auto",
        help="decoder rows: the token read (in), predicted (out), both, or numbers (index)",
    )
    add(
        "--scale",
        choices=CHOICES["scale"],
        default="auto",
        help="colours: linear, or sqrt, which lifts small weights (auto: sqrt above 20 tokens)",
    )
    add(
        "--format",
        type=_names(FORMATS),
        default=("png",),
        metavar="F,F",
        help="of png,svg,pdf (png)",
    )
    add("--font", metavar="FONT", help="font file or name, for scripts that have none here")
    return result


def _names(choices: tuple[str, ...]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(text.replace(",", " ").split()))
        unknown = [name for name in names if name not in choices]
        if unknown or not names:
            wrong = ", ".join(unknown) or "nothing"
            raise argparse.ArgumentTypeError(f"{wrong} is none of {', '.join(choices)}")
        return names

    return parse


def _numbers(text: str) -> tuple[int, ...]:
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 0,2")
    return tuple(sorted({int(word) for word in words}))


def _wish(args: argparse.Namespace) -> Wish:
    from viz.gallery import Wish

    look = Look(scale=args.scale, special=args.special, labels=args.labels, font=args.font)
    return Wish(
        figures=args.figures,
        kinds=args.kinds,
        layers=args.layers,
        heads=args.heads,
        level=args.level,
        formats=args.format,
        look=look,
    )


def _pairs(source: str, target: str | None) -> Iterator[tuple[str, str | None]]:
    """Lines of the input, with their targets if given; blank lines are left out.

    Raises:
        UserError: while reading, where one file ends before the other.
    """
    lines = read_lines(source, "--input")
    if target is None:
        yield from ((line, None) for line in lines if not is_blank(line))
        return
    both = zip_longest(lines, read_lines(target, "--target-input"))
    for number, (left, right) in enumerate(both, start=1):
        if left is None or right is None:
            shorter = source if left is None else target
            raise UserError(
                f"{shorter} ends before line {number}: --input and --target-input need equally "
                "many lines, and line i of one must translate line i of the other."
            )
        if not is_blank(left) or not is_blank(right):
            yield left, right


def _records(args: argparse.Namespace) -> Iterator[AttentionMaps]:
    from seq2seq.analysis.capture import capture_each
    from seq2seq.decoding.translator import Translator
    from seq2seq.run_folder import load_run

    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
    translator = Translator(run.model, run.tokenizer, run.config.decode)
    overrides = {} if args.beam is None else {"beam": args.beam}
    pairs = _pairs(args.input, args.target_input)
    if args.text is not None:
        pairs = iter([(args.text, args.target)])
    given = args.target is not None or args.target_input is not None
    left, right = tee(pairs)
    with heads_off(run.model, args.without_heads) as off:
        meta = _provenance(args, run)
        if off:
            meta["notices"] = [f"heads switched off: {', '.join(map(str, off))}"]
        yield from capture_each(
            run.model,
            run.tokenizer,
            (source for source, _ in left),
            (target for _, target in right if target is not None) if given else None,
            translate=lambda texts: translator.translate(texts, **overrides),
            max_tokens=args.max_tokens,
            meta=meta,
        )


def _provenance(args: argparse.Namespace, run: LoadedRun) -> dict[str, Any]:
    from seq2seq.run_folder import weights_hash

    decode = run.config.decode
    beam = args.beam or decode.beam
    search = "greedy" if beam == 1 else f"beam {beam}"
    return {
        "run": run.path.resolve().name,
        "step": run.step,
        "weights_hash": weights_hash(run.path, args.checkpoint),
        "decode": search if decode.search is Search.beam else "sampled",
    }

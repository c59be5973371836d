"""The options of `seq2seq attention`, and what they ask for."""

from __future__ import annotations

import argparse

from seq2seq.attention_maps import KINDS
from seq2seq.cli.args import Parser, add_heads_option, add_model_options
from seq2seq.data.lines import check_file
from seq2seq.errors import UserError
from viz.gallery import FIGURES, WEIGHTS, Wish
from viz.report_args import some
from viz.sentences import check_comparison
from viz.style import CHOICES, FORMATS, Look

MAX_TOKENS = 150
NONE = "none"
DECODE = ("greedy", "beam", "forced")

DESCRIPTION = """\
Draws the attention of every head for one sentence, or for each line of a file, and saves the
weights themselves. The model translates the sentence unless you give its translation. For
sentence N the files are

  attn_N.npz                all weights: seq2seq.attention_maps.AttentionMaps.load(path)
  attn_N_KIND_overview.png  every layer and head, small; KIND is enc, dec or cross
  attn_N_KIND_L2.png        the heads of layer 2 with all tokens: the last layer, or all layers of
                            a short --text
  attn_N_KIND_L2H3.png      head 3 of layer 2, for --heads 3
  attn_N_KIND_L2_NAME.png   other --figures; four heads to a picture, named where not all are in it
    mean       average: the mean of the heads, and how much they disagree
    lines      a line from each query to each key, as wide as the weight; up to 30 tokens
    steps      what was written at each step, how probable it was, and what was read for it
    diff       A, B and B - A, for --compare
    norms      weights beside norms, the length of what each key adds, and beside rollout
  attn_N_KIND_rollout.png   what may have reached each position through all layers

and for all sentences together

  attn.html                 the page to open in a browser, offline: every head, with its numbers

Files in DIR are never written over: another sentence, or other pictures of the same one, take
the next free number. The same command again finds its files there and changes nothing."""

EXAMPLES = """
seq2seq attention --run runs/demo --text "The request was slow." --out pictures
seq2seq attention --run runs/demo --text "It was slow." --target "Sie war langsam." --out pictures
seq2seq attention --run runs/demo --input text.en --kinds cross --level word --out pictures
seq2seq attention --run runs/demo --text "It was slow." --layers 0,2 --heads 1,3 --out pictures
seq2seq attention --run runs/demo --text "It was slow." --figures lines,steps,norms --out pictures
seq2seq attention --run runs/demo --text "It was slow." --compare "It was long." \
  --figures diff --out pictures
seq2seq attention --run runs/demo --input text.en --compare runs/other --figures none --out pages
"""


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
    result.add_argument(
        "--decode",
        choices=DECODE,
        help="how the target is found: greedy, beam, or forced: it is given (as the run says, or "
        "forced where there is a target)",
    )
    result.add_argument("--beam", type=int, metavar="K", help="beam width; 1 is greedy")
    result.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="refuse longer sentences (%(default)s)",
    )
    result.add_argument(
        "--norms",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="record ‖α f(x)‖ of every weight, too (Kobayashi et al. 2020; on)",
    )
    result.add_argument(
        "--qk",
        action="store_true",
        help="record queries and keys, too: the page then shows what makes each score",
    )
    draw = result.add_argument_group("what is drawn")
    add = draw.add_argument
    add("--kinds", type=some(KINDS), default=KINDS, help="of enc,dec,cross (all)")
    add("--layers", type=numbers, metavar="N,N", help="layers, counted from 0")
    add("--heads", type=numbers, metavar="N,N", help="heads, counted from 0 (all)")
    add(
        "--figures",
        type=some((*FIGURES, NONE)),
        metavar="F,F",
        help=f"of {','.join(FIGURES)} (overview,layer), or none: the page is enough",
    )
    add(
        "--weight",
        choices=WEIGHTS,
        default="alpha",
        help="draw the weights (alpha), or ‖α f(x)‖, the lengths of what they add (norm)",
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
        type=some(FORMATS),
        default=("png",),
        metavar="F,F",
        help="of png,svg,pdf (png)",
    )
    add("--dpi", type=int, metavar="N", help="pixels per inch of PNG (150; 200 above 20 tokens)")
    add(
        "--theme",
        choices=("auto", *CHOICES["theme"]),
        default="auto",
        help="light or dark; auto: light pictures, and a page as the reader's system has it",
    )
    add("--font", metavar="FONT", help="font file or name, for scripts that have none here")
    page = result.add_argument_group("the page, and comparison")
    page.add_argument("--no-page", action="store_true", help="pictures only")
    page.add_argument(
        "--compare",
        metavar="RUN|TEXT",
        help="beside it the same sentence in another run or checkpoint (RUN/step-500), or another "
        "sentence: A, B, B - A, also as --figures diff",
    )
    page.add_argument(
        "--join",
        metavar="CSV",
        help="numbers of heads, to show, sort and filter by (default: what seq2seq heads and "
        f"seq2seq trace measured on these weights and left in the run; {NONE}: no numbers)",
    )
    return result


def numbers(text: str) -> tuple[int, ...]:
    """Read numbers separated by commas."""
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 0,2")
    return tuple(sorted({int(word) for word in words}))


def check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together, before a model is loaded.

    Raises:
        UserError: says what to do.
    """
    given = args.target_input if args.text is not None else args.target
    if given is not None:
        raise UserError("--target goes with --text, and --target-input with --input.")
    for option in ("input", "target_input"):
        if getattr(args, option) is not None:
            check_file(getattr(args, option), f"--{option.replace('_', '-')}")
    _check_decode(args)
    check_comparison(args)
    diff = "diff" in (args.figures or ())
    if diff and args.compare is None:
        raise UserError("--figures diff needs --compare: another run, or another sentence.")
    if not args.norms and (args.weight == "norm" or "norms" in (args.figures or ())):
        raise UserError("Norms can be drawn only if they are recorded: leave --no-norms out.")
    if args.no_page and args.join is not None:
        raise UserError("--join is for the page: leave --no-page out.")
    if args.no_page and args.compare is not None and not diff:
        raise UserError("--compare is for the page or --figures diff: leave --no-page out.")


def _check_decode(args: argparse.Namespace) -> None:
    forced = args.target is not None or args.target_input is not None
    if args.decode == "forced" and not forced:
        raise UserError("--decode forced needs the target: give --target or --target-input.")
    if forced and args.decode not in (None, "forced"):
        raise UserError(f"--decode {args.decode} finds a target, but one is given: leave one out.")
    if args.decode == "greedy" and args.beam not in (None, 1):
        raise UserError(f"--decode greedy has a beam of 1, not {args.beam}: leave one out.")
    if args.decode == "beam" and args.beam == 1:
        raise UserError("--decode beam with --beam 1 is greedy: leave one out.")


def wish_of(args: argparse.Namespace) -> Wish:
    """The pictures that the options ask for."""
    look = Look(
        scale=args.scale,
        special=args.special,
        labels=args.labels,
        font=args.font,
        dpi=args.dpi,
        theme="dark" if args.theme == "dark" else "light",
    )
    return Wish(
        figures=args.figures,
        kinds=args.kinds,
        layers=args.layers,
        heads=args.heads,
        level=args.level,
        weight=args.weight,
        formats=args.format,
        look=look,
    )

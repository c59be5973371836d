"""`seq2seq attention`: pictures of what every attention head looks at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.analysis.tables import HeadTable, read_table
from seq2seq.attention_maps import KINDS
from seq2seq.cli.args import Parser, add_heads_option, add_model_options, show_warnings
from seq2seq.data.lines import check_file
from seq2seq.errors import UserError
from viz.sentences import check_comparison, records
from viz.style import CHOICES, FORMATS, Look

if TYPE_CHECKING:
    from viz.binder import Binder
    from viz.gallery import Wish

MAX_TOKENS = 150
NONE = "none"

DESCRIPTION = """\
Draws the attention of every head for one sentence, or for each line of a file, and saves the
weights themselves. The model translates the sentence unless you give its translation. For
sentence N the files are

  attn_N.npz                all weights: seq2seq.attention_maps.AttentionMaps.load(path)
  attn_N_KIND_overview.png  every layer and head, small; KIND is enc, dec or cross
  attn_N_KIND_L2.png        the heads of layer 2 with all tokens: the last layer, or all layers of
                            a short --text
  attn_N_KIND_L2H3.png      head 3 of layer 2, for --heads 3

and for all sentences together

  attn.html                 the page to open in a browser, offline: every head, with its numbers

Files in DIR are never written over: another sentence, or other pictures of the same one, take
the next free number. The same command again finds its files there and changes nothing."""

EXAMPLES = """
seq2seq attention --run runs/demo --text "The request was slow." --out pictures
seq2seq attention --run runs/demo --text "It was slow." --target "Sie war langsam." --out pictures
seq2seq attention --run runs/demo --input text.en --kinds cross --level word --out pictures
seq2seq attention --run runs/demo --text "It was slow." --layers 0,2 --heads 1,3 --out pictures
seq2seq attention --run runs/demo --text "It was slow." --compare "It was long." --out pictures
seq2seq attention --run runs/demo --input text.en --compare runs/other --figures none --out pages
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
    check_comparison(args)
    binder = _binder(args)
    from viz.gallery import files, place

    number, told, pages = 0, set[str](), list[Path]()
    for maps, *others in records(args):
        content, notes = files(maps, wish, single=single)
        number, paths = place(Path(args.out), number, content)
        number += 1
        for note in (n for n in [*notes, *maps.meta.get("notices", [])] if n not in told):
            told.add(note)
            print(f"note: {note}", file=sys.stderr)
        print(f"source: {maps.text['source']}\ntarget: {maps.text['target']}")
        print(*(f"  {path}" for path in paths), sep="\n")
        if binder is not None:
            kept = (one.select(args.kinds, args.layers, args.heads) for one in (maps, *others))
            pages += binder.add(*kept)
    if number == 0:
        raise UserError(f"--input {args.input} holds no sentence.")
    if binder is not None:
        pages += binder.finish()
        print(f"page{'s' * (len(pages) > 1)} to open in a browser:")
        print(*(f"  {path}" for path in pages), sep="\n")
    return 0


def _binder(args: argparse.Namespace) -> Binder | None:
    """What gathers the sentences for the page, unless none is wanted."""
    if args.no_page:
        for option in ("compare", "join"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option} is for the page: leave --no-page out.")
        return None
    from viz.binder import Binder

    table = _table(args)
    start = {"level": args.level, "special": args.special, "scale": args.scale}
    start["labels"] = "auto" if args.labels == "index" else args.labels
    return Binder(Path(args.out), paired=args.compare is not None, table=table, start=start)


def _table(args: argparse.Namespace) -> HeadTable | None:
    """Numbers of heads: what --join names, else what was measured on these weights."""
    from seq2seq.run_folder import weights_hash
    from viz.evidence import gather

    if args.join == NONE:
        return None
    if args.join is not None:
        try:
            return read_table(Path(args.join).read_text(encoding="utf-8"), args.join)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--join: {args.join} cannot be read ({error}).") from None
    off = (args.without_heads or "").replace(",", " ").split()
    table, notes = gather(Path(args.run), weights_hash(Path(args.run), args.checkpoint), off)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return table


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
    add("--kinds", type=names(KINDS), default=KINDS, help="of enc,dec,cross (all)")
    add("--layers", type=numbers, metavar="N,N", help="layers, counted from 0")
    add("--heads", type=numbers, metavar="N,N", help="heads to draw large, counted from 0")
    add(
        "--figures",
        type=names(("overview", "layer", "head", "average", "none")),
        metavar="F,F",
        help="of overview,layer,head,average (overview,layer), or none: the page is enough",
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
        type=names(FORMATS),
        default=("png",),
        metavar="F,F",
        help="of png,svg,pdf (png)",
    )
    add("--font", metavar="FONT", help="font file or name, for scripts that have none here")
    page = result.add_argument_group("the page")
    page.add_argument("--no-page", action="store_true", help="pictures only")
    page.add_argument(
        "--compare",
        metavar="RUN|TEXT",
        help="beside it the same sentence in another run or checkpoint (RUN/step-500), or another "
        "sentence: A, B, B - A",
    )
    page.add_argument(
        "--join",
        metavar="CSV",
        help="numbers of heads, to show, sort and filter by (default: what seq2seq heads and "
        f"seq2seq trace measured on these weights and left in the run; {NONE}: no numbers)",
    )
    return result


def names(choices: tuple[str, ...]) -> Any:
    """A reader of options: some of `choices`, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(text.replace(",", " ").split()))
        unknown = [name for name in found if name not in choices]
        if unknown or not found:
            wrong = ", ".join(unknown) or "nothing"
            raise argparse.ArgumentTypeError(f"{wrong} is none of {', '.join(choices)}")
        return found

    return parse


def numbers(text: str) -> tuple[int, ...]:
    """Read numbers separated by commas."""
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

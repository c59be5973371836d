"""`seq2seq corpus`: get or make parallel text to train on, as plain files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from seq2seq.choices import DataKind
from seq2seq.cli.args import Parser
from seq2seq.config import DataConfig
from seq2seq.data import interchange, libreoffice, multi30k
from seq2seq.data.corpus import open_corpus
from seq2seq.data.lines import check_new_folder, write_lines
from seq2seq.errors import UserError

_USAGE = """\
usage: seq2seq corpus KIND [options]
       seq2seq corpus KIND --help

Gets or makes parallel text as plain files, one sentence a line, and prints the command that
trains on it.

kinds:
{kinds}
"""


def main(argv: list[str]) -> int:
    """Run `seq2seq corpus KIND …`; the last line printed is the command that trains on the text."""
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, KINDS))
        rows = (f"  {name:<{width}}  {text}" for name, (_, text) in KINDS.items())
        print(_USAGE.format(kinds="\n".join(rows)), end="")
        return 0 if argv else 2
    if argv[0] not in KINDS:
        raise UserError(f"Unknown kind of corpus {argv[0]!r}: there are {', '.join(KINDS)}.")
    KINDS[argv[0]][0](argv[1:])
    return 0


def _libreoffice_help(argv: list[str]) -> None:
    parser = Parser(
        "corpus libreoffice-help",
        "Builds a corpus from the help of LibreOffice in English and one of about 35 languages\n"
        "(Mozilla Public License 2.0), using the Debian packages of it. For English-German there\n"
        "are about 35,000 pairs; how much is translated differs much between languages.",
        "seq2seq corpus libreoffice-help --pair en-de --out help-en-de\n"
        "seq2seq corpus libreoffice-help --pair en-pt-br --debs downloads --out help-en-pt",
    )
    parser.add_argument("--pair", required=True, metavar="en-XX", help="XX: de, fr, pt-br, zh-cn …")
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder for the text")
    parser.add_argument(
        "--debs", metavar="DIR", help="folder with the two .deb files, where apt-get is not at hand"
    )
    args = parser.parse(argv)
    source, _, language = args.pair.lower().partition("-")
    if source != "en" or language in ("", "en", "us", "en-us"):
        raise UserError(
            f"--pair {args.pair} must be en-XX with XX another language, such as en-de or en-zh-cn."
        )
    out = Path(args.out)
    debs = Path(args.debs) if args.debs else None
    counts = libreoffice.build(language, out, debs=debs, report=_report)
    _report(f"{out}: " + ", ".join(f"{part} {count} pairs" for part, count in counts.items()))
    print(train_command(out, "en", language))


def _multi30k(argv: list[str]) -> None:
    parser = Parser(
        "corpus multi30k",
        "Downloads Multi30k (29,000 image captions in English, German and French, and test sets)\n"
        f"from {multi30k.REPOSITORY} and checks it against its SHA-256 sums.",
        "seq2seq corpus multi30k --out multi30k",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the files")
    out = Path(parser.parse(argv).out)
    multi30k.fetch(out, report=_report)
    print(f"seq2seq train experiment=multi30k data.root={shlex.quote(str(out))}")


def _convert(argv: list[str]) -> None:
    parser = Parser(
        "corpus convert",
        "Turns TMX, PO and XLIFF files into two plain files PREFIX.en and PREFIX.de. Fuzzy,\n"
        "untranslated and obsolete units are left out; line breaks within a unit become spaces.",
        "seq2seq corpus convert memory.tmx app.po --source-lang en --target-lang de --out mine",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="*.tmx, *.po, *.xlf, *.xliff")
    parser.add_argument("--source-lang", required=True, metavar="CODE", help="for instance en")
    parser.add_argument("--target-lang", required=True, metavar="CODE", help="for instance de")
    parser.add_argument("--out", required=True, metavar="PREFIX", help="of the two files written")
    args = parser.parse(argv)
    files = [Path(name) for name in args.files]
    prefix = Path(args.out)
    count, dropped = interchange.convert(files, args.source_lang, args.target_lang, prefix)
    left_out = ", ".join(f"{n} {reason}" for reason, n in dropped.items())
    _report(f"pairs written: {count}; units left out: {left_out or 'none'}")
    languages = f"data.source_lang={args.source_lang} data.target_lang={args.target_lang}"
    print(
        f"seq2seq train data=files {languages} "
        f"--train-source {shlex.quote(f'{prefix}.{args.source_lang}')} "
        f"--train-target {shlex.quote(f'{prefix}.{args.target_lang}')}"
    )


def _grammar(argv: list[str]) -> None:
    parser = Parser(
        "corpus grammar",
        "Writes the embedded English-German corpus, which a grammar makes (so it is synthetic),\n"
        "as text: {train,dev,test}.{en,de}.",
        "seq2seq corpus grammar --out grammar --pairs 200000",
    )
    defaults = DataConfig()
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder for the text")
    parser.add_argument("--pairs", type=int, default=defaults.grammar_pairs, metavar="N")
    parser.add_argument("--dev-size", type=int, default=defaults.dev_size, metavar="N")
    parser.add_argument("--test-size", type=int, default=defaults.test_size, metavar="N")
    parser.add_argument("--seed", type=int, default=defaults.grammar_seed, metavar="N")
    args = parser.parse(argv)
    out = Path(args.out)
    check_new_folder(out, "--out")
    corpus = open_corpus(
        DataConfig(
            kind=DataKind.grammar,
            grammar_pairs=args.pairs,
            grammar_seed=args.seed,
            dev_size=args.dev_size,
            test_size=args.test_size,
        )
    )
    out.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(("en", "de")):
        for part, pairs in (("train", corpus.train()), ("dev", corpus.dev), ("test", corpus.test)):
            write_lines(out / f"{part}.{language}", (pair[side] for pair in pairs))
    _report(f"{out}: train {corpus.size}, dev {len(corpus.dev)}, test {len(corpus.test)} pairs")
    print(train_command(out, "en", "de"))


def train_command(folder: Path, source: str, target: str) -> str:
    """The command that trains on the files {train,dev,test}.{source,target} of a folder."""
    options = " ".join(
        f"--{part}-{side} {shlex.quote(str(folder / f'{part}.{language}'))}"
        for part in ("train", "dev", "test")
        for side, language in (("source", source), ("target", target))
    )
    return f"seq2seq train data=files data.source_lang={source} data.target_lang={target} {options}"


def _report(line: str) -> None:
    print(line, file=sys.stderr)


KINDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "libreoffice-help": (
        _libreoffice_help,
        "the help of LibreOffice, English and another language",
    ),
    "multi30k": (_multi30k, "image captions, English, German, French"),
    "convert": (_convert, "your TMX, PO and XLIFF files"),
    "grammar": (_grammar, "the embedded English-German corpus (synthetic)"),
}
"""Kind → (function that takes the arguments, one line of help)."""

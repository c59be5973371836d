"""What reports on heads share: which sentence pairs they are made on, and where they come from."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seq2seq.cli.evaluate import TestSet
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.run_folder import LoadedRun

LIMIT, MAX_TOKENS = 500, 150

Pairs = list[tuple[str, str]]


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Add --split, --source, --reference, --limit and --max-tokens."""
    add = parser.add_argument_group("sentence pairs").add_argument
    add("--split", default="dev", help="of the run's corpus (%(default)s)")
    add("--source", metavar="FILE", help="or your own sentences")
    add("--reference", action="append", metavar="FILE", help="and their translations")
    add("--limit", type=positive, default=LIMIT, metavar="N", help="the first N pairs (500)")
    add(
        "--max-tokens",
        type=positive,
        default=MAX_TOKENS,
        metavar="N",
        help="leave longer pairs out (150)",
    )


def check_pair_options(args: argparse.Namespace) -> None:
    """Refuse sentences without translations and translations without sentences.

    Raises:
        UserError: says what to give.
    """
    if bool(args.source) != bool(args.reference) or len(args.reference or [0]) > 1:
        raise UserError("--source FILE needs one --reference FILE: its translation, line by line.")


def usable_pairs(
    args: argparse.Namespace, run: LoadedRun, test: TestSet
) -> tuple[Pairs, list[str]]:
    """The first pairs that are not too long, and what was left out, in words.

    Raises:
        UserError: none is usable, or the user's files are not of one length.
    """
    from seq2seq.analysis.survey import usable
    from seq2seq.evaluation import check_counts

    sources = (test.sources or [])[: args.limit]
    if args.source:
        check_counts(test.sources or [], test.references)
    most = min(args.max_tokens, run.model.position_limit or args.max_tokens)
    return usable(run.tokenizer, list(zip(sources, test.references[0], strict=False)), most)


def facts(
    args: argparse.Namespace, run: LoadedRun, test: TestSet, count: int, more: Sequence[str]
) -> list[str]:
    """Where the numbers of a report come from, a line each.

    Args:
        args: the options.
        run: the model.
        test: what the pairs were taken from.
        count: how many pairs.
        more: further lines; the first goes on that of the pairs.
    """
    import torch

    from seq2seq.run_folder import weights_hash
    from seq2seq.version import __version__

    removed = len(run.config.model.removed_heads or ())
    how, *rest = more
    return [
        f"run {run.path.resolve().name} · checkpoint step {run.step} · "
        f"weights {weights_hash(run.path, args.checkpoint)}"
        + (f" · {removed} heads removed" if removed else ""),
        f"{count} sentence pairs of {test.name}{' (synthetic)' if test.synthetic else ''}, {how}",
        *rest,
        f"seq2seq {__version__} · torch {torch.__version__}",
    ]


def positive(text: str) -> int:
    """The type of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def some(choices: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """The type of an option that names some of the choices, separated by commas."""

    def read(text: str) -> tuple[str, ...]:
        names = dict.fromkeys(text.replace(",", " ").split())
        wrong = ", ".join(name for name in names if name not in choices) or "nothing"
        if not names or not set(names) <= set(choices):
            raise argparse.ArgumentTypeError(f"{wrong} is none of {', '.join(choices)}")
        return tuple(names)

    return read

"""What the commands share: a parser that speaks in sentences, common options, text in and out."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from seq2seq.cli import options
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.analysis.intervene import HeadId
    from seq2seq.config import DecodeConfig
    from seq2seq.decoding.translator import Translator
    from seq2seq.model.transformer import Transformer
    from seq2seq.run_folder import LoadedRun

INTERRUPTED = 130  # exit status: 128 + SIGINT, as shells count


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UserError`s and whose help keeps its line breaks."""

    def __init__(
        self,
        command: str,
        description: str,
        examples: str,
        *,
        schema: type | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        """Start the parser of `seq2seq COMMAND`.

        Args:
            command: The sub-command.
            description: What it does, what goes in and what comes out.
            examples: Complete commands, one a line.
            schema: The dataclass that `key=value` arguments fill; None: there are no such.
            groups: Those of `conf/` that the command's entry file knows.
        """
        super().__init__(
            prog=f"seq2seq {command}",
            usage=f"seq2seq {command} [options]" + (" [key=value …]" if schema else ""),
            description=description,
            epilog="examples:\n" + "\n".join(f"  {line}" for line in examples.strip().split("\n")),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.schema, self.groups = schema, groups
        if schema:
            text = "settings; group=choice sets several at once"
            self.add_argument("overrides", nargs="*", metavar="key=value", help=text)

    def format_help(self) -> str:
        """The help, with every group and option that key=value may set."""
        if self.schema is None:
            return super().format_help()
        return super().format_help() + options.describe(self.schema, self.groups)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, which would bury the message."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            word = unknown.split()[0]
            flags = [flag for action in self._actions for flag in action.option_strings]
            near = difflib.get_close_matches(word.split("=")[0], flags, 1)
            message = f"unknown option {word}" + (f"; did you mean {near[0]}?" if near else "")
        raise UserError(f"{message.rstrip('.')} (all options: {self.prog} --help)")

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parse options and overrides in any order."""
        return self.parse_intermixed_args(argv)


def add_model_options(
    parser: argparse.ArgumentParser, *, required: bool = True, several: bool = False
) -> None:
    """Add --run (a list, if several), --checkpoint and --device: which model computes where."""
    parser.add_argument(
        "--run",
        required=required,
        action="append" if several else "store",
        metavar="RUN",
        help=f"folder of a training run{'; repeatable' if several else ''}",
    )
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (default), last, or the name of a step folder such as step-500",
    )
    parser.add_argument(
        "--device", default="auto", help="auto (default: a GPU if there is one), cpu, cuda, cuda:1"
    )


def add_precision_option(parser: argparse.ArgumentParser) -> None:
    """Add --precision: the arithmetic of a trained model at work."""
    parser.add_argument(
        "--precision",
        default="fp32",
        metavar="WHICH",
        help="fp32 (default); bf16 or fp16, often twice as fast, for a word here and there; auto: "
        "what the device does fastest",
    )


def add_backend_options(parser: argparse.ArgumentParser) -> None:
    """Add --backend and --compute-type, which `make_translator` obeys."""
    parser.add_argument(
        "--backend",
        choices=("pytorch", "ctranslate2"),
        default="pytorch",
        help="what decodes: pytorch (default), or the C++ library CTranslate2, an extra package",
    )
    parser.add_argument(
        "--compute-type",
        metavar="TYPE",
        help="arithmetic of --backend ctranslate2: float32 (default), int8 for speed, …",
    )


def make_translator(args: argparse.Namespace, run: LoadedRun, decode: DecodeConfig) -> Translator:
    """The translator that --backend names.

    Raises:
        UserError: options that it cannot obey, or what it needs is missing.
    """
    from seq2seq.decoding.translator import Translator

    if args.backend == "pytorch":
        if args.compute_type:
            raise UserError("--compute-type is for --backend ctranslate2; see --precision.")
        return Translator(run.model, run.tokenizer, decode)
    from seq2seq.decoding.ctranslate2 import CTranslate2Translator

    if args.without_heads or args.precision != "fp32":
        raise UserError(
            "--without-heads and --precision are for PyTorch: leave out --backend ctranslate2 "
            "(whose arithmetic is set by --compute-type)."
        )
    return CTranslate2Translator(run, args.checkpoint, args.compute_type or "float32", decode)


def add_heads_option(parser: argparse.ArgumentParser) -> None:
    """Add --without-heads, which `heads_off` obeys."""
    parser.add_argument(
        "--without-heads",
        metavar="HEADS",
        help="switch attention heads off: kind.layer.head from 0, such as cross.2.1,enc.0.3",
    )


@contextlib.contextmanager
def heads_off(model: Transformer, text: str | None) -> Iterator[list[HeadId]]:
    """While the block runs, the heads that --without-heads names put out 0; gives the heads.

    Raises:
        UserError: the text names no head, or one that the model never had.
    """
    if text is None:
        yield []
        return
    from seq2seq.analysis.intervene import parse_heads_to_go, switched_off

    heads = parse_heads_to_go(text, model)
    with switched_off(model, heads):
        yield heads


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the everyday settings of search; the others are `decode.key=value`."""
    parser.add_argument("--beam", type=int, metavar="K", help="beam width; 1 is greedy")
    parser.add_argument("--alpha", type=float, metavar="A", help="length penalty; 0 is none")
    parser.add_argument(
        "--batch-tokens", type=int, metavar="N", help="pieces translated at once (memory, not text)"
    )


SEARCH_OPTIONS = {
    "beam": "decode.beam",
    "alpha": "decode.alpha",
    "batch_tokens": "decode.batch_tokens",
    "n_best": "decode.n_best",
}
"""Flag → the configuration key that it sets."""


def chosen(args: argparse.Namespace, keys: dict[str, str]) -> dict[str, object]:
    """The configuration keys that the user set by ordinary flags, with their values."""
    values = ((key, getattr(args, flag, None)) for flag, key in keys.items())
    return {key: value for key, value in values if value is not None}


class _Stderr(logging.Handler):
    """Prints messages as errors are printed: level first."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"{record.levelname.lower()}: {record.getMessage()}", file=sys.stderr)


def show_warnings() -> None:
    """Let warnings of the package reach stderr, each with the word in front."""
    logger = logging.getLogger("seq2seq")
    if not logger.handlers:
        logger.addHandler(_Stderr())


@contextlib.contextmanager
def writing(path: str | Path | None) -> Iterator[TextIO]:
    r"""Open a text file that appears whole or not at all; None or "-" is stdout.

    Lines end at "\n" on every system. The text goes to a temporary file in the same folder, which
    takes the final name only when the block ends without an exception.

    Raises:
        UserError: the file cannot be created, or `path` is a folder.
    """
    if path is None or str(path) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(path)
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise UserError(f"Cannot write to {path}: it is a folder, give a file name.")
        with path.open("w", encoding="utf-8", newline="\n") as file:  # /dev/stdout, a named pipe
            yield file
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror}.") from None
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:  # noqa: PTH123 - a handle
            yield file
        Path(temporary).chmod(_mode_of_new_files())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode_of_new_files() -> int:
    """What `open` would have given the file: mkstemp makes it private."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def refuse_same_file(source: str | None, output: str | None) -> None:
    """Refuse to write a result over the text that it is made from.

    Raises:
        UserError: both name one existing file.
    """
    if source in (None, "-") or output in (None, "-"):
        return
    read, write = Path(str(source)), Path(str(output))
    if read.exists() and write.exists() and write.samefile(read):
        raise UserError(f"--output {output} is the input itself: choose another file.")


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Give a function `(done, total)` that shows progress on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

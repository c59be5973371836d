"""The `seq2seq` command: finds the sub-command, imports only that one, and ends it politely."""

from __future__ import annotations

import difflib
import errno
import importlib
import io
import os
import sys
from collections.abc import Callable
from typing import cast

from seq2seq.cli.args import INTERRUPTED
from seq2seq.errors import UserError
from seq2seq.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("seq2seq.cli.train:main", "train a translation model, or go on with a run"),
    "translate": ("seq2seq.cli.translate:main", "translate lines of text"),
    "evaluate": ("seq2seq.cli.evaluate:main", "BLEU, chrF, TER and perplexity, with signatures"),
    "score": ("seq2seq.cli.score:main", "log-probabilities of given translations"),
    "compare": ("seq2seq.cli.compare:main", "is one system better than another? paired test"),
    "attention": ("viz.cli:attention", "pictures of what each attention head looks at"),
    "heads": ("viz.heads_cli:heads", "a report on every head: what it looks at, what it is for"),
    "history": ("viz.history_cli:history", "what the heads looked at while the model learned"),
    "prune": ("viz.prune_cli:prune", "how many heads can go; and the model without them"),
    "align": ("viz.align_cli:align", "word alignments from cross-attention, and their error rate"),
    "trace": ("viz.trace_cli:trace", "which heads decide an answer: their outputs, swapped"),
    "lesson": (
        "viz.lesson_cli:lesson",
        "multi-head attention taught claim by claim, with numbers",
    ),
    "average": ("seq2seq.cli.average:main", "average the last checkpoints of a run into one"),
    "corpus": ("seq2seq.cli.corpus:main", "make a parallel corpus to train on"),
}
"""Sub-command → ("module:function", one line of help); a function maps its argv to a status."""

USER_ERROR = 2

_SYSTEM_REFUSES = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC}
BROKEN_PIPE = 141  # 128 + SIGPIPE

_USAGE = """\
usage: seq2seq COMMAND [options]
       seq2seq COMMAND --help

Trains the Transformer of "Attention Is All You Need" on your own parallel text,
translates and evaluates with it, and shows what each of its attention heads looks at.

commands:
{commands}

examples:
  seq2seq train --name demo experiment=grammar
  seq2seq train --name mine --train-source train.en --train-target train.de
  echo "The developer deployed the application." | seq2seq translate --run runs/demo
  seq2seq evaluate --run runs/demo --split test
  seq2seq attention --run runs/demo --text "The request was slow." --out pictures
"""


def main(argv: list[str] | None = None, *, command: str | None = None) -> int:
    """Run one sub-command.

    Args:
        argv: The arguments after the program's name; default: those of this process.
        command: The sub-command, where the program's name already says it (`scripts/train.py`).

    Returns:
        The exit status: 0 done, 2 something the user can put right, 130 interrupted.
    """
    if argv is None:
        argv = [command, *sys.argv[1:]] if command else sys.argv[1:]
        _insist_on_utf8(argv)
    _speak_utf8()
    try:
        status = _dispatch(argv)
        sys.stdout.flush()  # here, so that a reader who has left is noticed inside the try
        return status
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone: not a failure of ours. Python would complain once more
        # when it flushes at exit, so what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in _SYSTEM_REFUSES:
            raise
        print(f"error: {error.strerror}: {error.filename or 'writing failed'}.", file=sys.stderr)
        return USER_ERROR


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0 if argv else USER_ERROR
    if argv[0] in ("-V", "--version"):
        print(f"seq2seq {__version__}")
        return 0
    return find_command(argv[0])(argv[1:])


def usage() -> str:
    """The text of `seq2seq --help`."""
    width = max(map(len, COMMANDS))
    rows = (f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
    return _USAGE.format(commands="\n".join(rows))


def find_command(name: str) -> Callable[[list[str]], int]:
    """Import the function of a sub-command.

    Raises:
        UserError: there is no such command; the nearest one is named.
    """
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}."
        raise UserError(f"Unknown command {name!r}: {hint}")
    module, function = COMMANDS[name][0].split(":")
    return cast(Callable[[list[str]], int], getattr(importlib.import_module(module), function))


def _insist_on_utf8(argv: list[str]) -> None:
    """Start again in UTF-8 mode where file names and arguments would be ASCII (`LC_ALL=C`).

    Python decides on that encoding before any of our code runs, so nothing less would let an
    argument like `--train-source текст.txt` reach the file, the tokenizer and config.json intact.
    """
    encoding = sys.getfilesystemencoding().lower().replace("-", "")
    if encoding != "utf8" and not sys.flags.utf8_mode and os.name == "posix":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-m", "seq2seq", *argv])


def _speak_utf8() -> None:
    r"""Make stdout and stderr UTF-8 with "\n" line ends, whatever the console or locale says."""
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")

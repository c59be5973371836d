"""`seq2seq translate`: lines of text in, as many lines of translation out, in the same order."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from seq2seq.cli.args import (
    SEARCH_OPTIONS,
    Parser,
    add_backend_options,
    add_heads_option,
    add_model_options,
    add_precision_option,
    add_search_options,
    chosen,
    heads_off,
    make_translator,
    progress_bar,
    refuse_same_file,
    show_warnings,
    writing,
)
from seq2seq.config import DecodeConfig

if TYPE_CHECKING:
    from seq2seq.decoding.translator import Translation, Translator

BLOCK = 10_000  # lines held at once; they are sorted by length, so more are faster

EXAMPLES = """
seq2seq translate --run runs/demo < text.en > text.de
seq2seq translate --run runs/demo --input text.en --output text.de --beam 1
seq2seq translate --run runs/demo --input text.en --n-best 3 --json
seq2seq translate --run runs/demo decode=sample decode.temperature=0.7 < text.en
"""


@dataclass(kw_only=True, slots=True)
class TranslateConfig:
    """What may be set when a trained model translates."""

    decode: DecodeConfig = field(default_factory=DecodeConfig)


def main(argv: list[str]) -> int:
    """Run `seq2seq translate`."""
    args = parser().parse(argv)
    show_warnings()
    refuse_same_file(args.input, args.output)
    from seq2seq.data.lines import STDIN, check_file

    check_file(args.input or STDIN, "--input")  # before the model is loaded
    translator = load_translator(args)
    count = translator.config.n_best
    with heads_off(translator.model, args.without_heads), writing(args.output) as out:
        for translation in _translations(translator, args.input or STDIN):
            if args.json:
                lines = [json.dumps(dataclasses.asdict(translation), ensure_ascii=False)]
            else:
                lines = fixed_lines(translation, count)
            out.writelines(f"{line}\n" for line in lines)
            if args.input is None and sys.stdin.isatty():
                out.flush()  # somebody is typing and waits for the answer
    return 0


def parser() -> Parser:
    """The options of `seq2seq translate`."""
    result = Parser(
        "translate",
        "Translates lines of text (UTF-8). Line i of the output translates line i of the input; a\n"
        "blank line stays blank. With --n-best K each line gives exactly K lines, best first,\n"
        "empty ones where fewer translations exist. With --json each line gives one object: text,\n"
        "score, tokens, token_scores, hit_limit (as long as allowed, perhaps cut short), cut (the\n"
        "input was too long and its end left out), and n_best, a list of the like.",
        EXAMPLES,
        schema=TranslateConfig,
        groups=("decode",),
    )
    add_model_options(result)
    add_heads_option(result)
    add_precision_option(result)
    add_backend_options(result)
    result.add_argument("--input", metavar="FILE", help="text to translate (default: stdin)")
    result.add_argument("--output", metavar="FILE", help="appears when complete (default: stdout)")
    result.add_argument("--n-best", type=int, metavar="K", help="translations of each line")
    result.add_argument("--json", action="store_true", help="one JSON object a line")
    add_search_options(result)
    return result


def load_translator(args: argparse.Namespace) -> Translator:
    """Load the run that --run, --checkpoint and --device name, with the settings of search asked.

    Raises:
        UserError: no such run, or a wrong setting.
    """
    from seq2seq.cli.configure import compose
    from seq2seq.device import share_freed_memory
    from seq2seq.run_folder import load_run

    share_freed_memory()
    run = load_run(
        args.run, device=args.device, checkpoint=args.checkpoint, precision=args.precision
    )
    start = TranslateConfig(decode=dataclasses.replace(run.config.decode, n_best=1))
    values = chosen(args, SEARCH_OPTIONS)
    config = compose("translate", TranslateConfig, args.overrides, values, start=start)
    return make_translator(args, run, config.decode)


def fixed_lines(translation: Translation, n_best: int) -> list[str]:
    """The texts of the best translations, filled up with empty lines to exactly `n_best`."""
    texts = [candidate.text for candidate in translation.n_best[:n_best]]
    return texts + [""] * (n_best - len(texts))


def _translations(translator: Translator, source: str) -> Iterator[Translation]:
    """The translations of a file, or of stdin: line by line where somebody is typing."""
    from seq2seq.data.lines import STDIN, read_lines

    lines = read_lines(source, "--input")
    if source == STDIN and sys.stdin.isatty():
        yield from translator.translate_stream(lines, chunk=1)
        return
    block = list(islice(lines, BLOCK))
    with progress_bar("translating") as show:
        if len(block) < BLOCK:
            yield from translator.translate(block, progress=show)
            return
        stream = translator.translate_stream(chain(block, lines), chunk=BLOCK)
        for done, translation in enumerate(stream, start=1):
            if show and done % BLOCK == 0:
                show(done, None)
            yield translation

"""The records that `seq2seq attention` draws: one for each sentence, or two to compare."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import tee, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.attention_maps import AttentionMaps
from seq2seq.choices import Search
from seq2seq.cli.args import heads_off
from seq2seq.config import DecodeConfig
from seq2seq.data.lines import is_blank, read_lines
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.run_folder import LoadedRun

Partner = Callable[[AttentionMaps], AttentionMaps]


def records(args: argparse.Namespace) -> Iterator[tuple[AttentionMaps, ...]]:
    """For each sentence its record, and with --compare the record to set beside it.

    Raises:
        UserError: while reading, for a sentence or a file that cannot be used.
    """
    from seq2seq.analysis.capture import capture_each
    from seq2seq.decoding.translator import Translator
    from seq2seq.run_folder import load_run

    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
    decode = _search(args, run.config.decode)
    translator = Translator(run.model, run.tokenizer, decode)
    pairs = _pairs(args.input, args.target_input)
    if args.text is not None:
        pairs = iter([(args.text, args.target)])
    given = args.target is not None or args.target_input is not None
    left, right = tee(pairs)
    with heads_off(run.model, args.without_heads) as off:
        meta = _provenance(run, args.checkpoint, decode)
        if off:
            meta["without_heads"] = ", ".join(map(str, off))
            meta["notices"] = [f"heads switched off: {meta['without_heads']}"]

        def captured(
            sources: Iterator[str], targets: Iterator[str] | None
        ) -> Iterator[AttentionMaps]:
            return capture_each(
                run.model,
                run.tokenizer,
                sources,
                targets,
                translate=translator.translate,
                max_tokens=args.max_tokens,
                meta=meta,
                norms=args.norms,
                qk=args.qk,
            )

        other = _other_run(args) if _is_run(args) else None
        targets = (target for _, target in right if target is not None) if given else None
        for maps in captured((source for source, _ in left), targets):
            if args.compare is None:
                yield (maps,)
            elif other is not None:
                yield maps, other(maps)
            else:
                yield maps, *captured(iter([args.compare]), None)


def check_comparison(args: argparse.Namespace) -> None:
    """Refuse a --compare that is neither a run nor goes with one sentence.

    Raises:
        UserError: says what to do.
    """
    if args.compare is None:
        return
    if _is_run(args):
        _run_and_checkpoint(Path(args.compare))
        return
    if os.sep in args.compare and " " not in args.compare:
        raise UserError(f"--compare: there is no run folder {args.compare}.")
    if is_blank(args.compare):
        raise UserError("--compare is empty: give another run's folder or another sentence.")
    if args.text is None:
        raise UserError(
            "--compare with a sentence goes with --text; with --input, compare with another run."
        )


def _is_run(args: argparse.Namespace) -> bool:
    return args.compare is not None and Path(args.compare).is_dir()


def _run_and_checkpoint(path: Path) -> tuple[Path, str]:
    """RUN stands for its best checkpoint, RUN/step-500 for that one.

    Raises:
        UserError: the folder is neither.
    """
    from seq2seq.run_folder import CONFIG

    if (path / CONFIG).is_file():
        return path, "best"
    if (path.parent / CONFIG).is_file():
        return path.parent, path.name
    raise UserError(f"--compare: {path} is no run folder and no checkpoint of one.")


def _other_run(args: argparse.Namespace) -> Partner:
    """The same sentence and the same translation, seen by another run's model."""
    from seq2seq.analysis.capture import capture_each
    from seq2seq.run_folder import load_run

    path, checkpoint = _run_and_checkpoint(Path(args.compare))
    run = load_run(path, device=args.device, checkpoint=checkpoint)
    meta = _provenance(run, checkpoint, _search(args, run.config.decode))

    def other(maps: AttentionMaps) -> AttentionMaps:
        found = capture_each(
            run.model,
            run.tokenizer,
            [maps.text["source"]],
            [maps.text["target"]],
            max_tokens=args.max_tokens,
            meta=meta,
            norms=args.norms,
            qk=args.qk,
        )
        return next(iter(found))

    return other


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


def _search(args: argparse.Namespace, usual: DecodeConfig) -> DecodeConfig:
    """How translations are looked for: as the run says, unless --decode or --beam say otherwise."""
    beam = usual.beam if args.beam is None else args.beam
    search = usual.search if args.decode is None else Search.beam
    if args.decode == "greedy":
        beam = 1
    elif args.decode == "beam" and beam == 1:
        beam = DecodeConfig().beam
    return replace(usual, search=search, beam=beam, n_best=1)


def _provenance(run: LoadedRun, checkpoint: str, decode: DecodeConfig) -> dict[str, Any]:
    from seq2seq.run_folder import weights_hash

    search = "greedy" if decode.beam == 1 else f"beam {decode.beam}"
    return {
        "run": run.path.resolve().name,
        "step": run.step,
        "weights_hash": weights_hash(run.path, checkpoint),
        "removed_heads": len(run.config.model.removed_heads or ()),
        "decode": search if decode.search is Search.beam else "sampled",
    }

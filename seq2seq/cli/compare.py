"""`seq2seq compare`: whether two systems differ by more than chance."""

from __future__ import annotations

import json
from pathlib import Path

from seq2seq.cli.args import Parser
from seq2seq.config import RunConfig
from seq2seq.config_file import load_config
from seq2seq.errors import UserError

EVALUATIONS = "evaluations"
"""Folder inside a run where `seq2seq evaluate` keeps hypotheses and scores."""

EXAMPLES = """
seq2seq compare runs/one runs/two --split test
seq2seq compare baseline.de better.de --reference test.de --target-lang de
"""


def main(argv: list[str]) -> int:
    """Run `seq2seq compare`."""
    args = parser().parse(argv)
    from seq2seq.data.corpus import read_lines
    from seq2seq.evaluation import compare

    runs = [Path(system) for system in args.systems if Path(system).is_dir()]
    configs = [load_config(run / "config.json") for run in runs]
    files = [hypotheses_of(system, args.split) for system in args.systems]
    if args.reference:
        references = [list(read_lines(path, "--reference")) for path in args.reference]
    else:
        references = [common_references(runs, configs, args.split)]
    language = args.target_lang or (configs[0].data.target_lang if configs else "")
    a, b = (list(read_lines(file)) for file in files)
    found = compare(
        a, b, references, target_lang=language, resamples=args.resamples, seed=args.seed
    )
    if args.json:
        document = found.to_dict() | {"files": [str(file) for file in files]}
        print(json.dumps(document, ensure_ascii=False))
        return 0
    print(f"a: {files[0]}\nb: {files[1]}\n{found}")
    for metric in found.metrics:
        winner = found.better(metric)
        verdict = "no difference beyond chance" if winner is None else f"{winner} is better"
        print(f"{metric}: {verdict} (p < 0.05 needed)")
    return 0


def parser() -> Parser:
    """The options of `seq2seq compare`."""
    result = Parser(
        "compare",
        "Tests whether two systems differ by more than chance on the same sentences (approximate\n"
        "randomisation; the interval of the difference by the paired bootstrap). A system is a\n"
        "file of translations, or a run that `seq2seq evaluate` has evaluated.",
        EXAMPLES,
    )
    result.add_argument("systems", nargs=2, metavar="SYSTEM", help="run folder or text file")
    result.add_argument("--split", default="test", help="of the runs' corpus (default: test)")
    result.add_argument(
        "--reference", action="append", metavar="FILE", help="instead of a split; repeatable"
    )
    result.add_argument("--target-lang", metavar="CODE", help="decides how BLEU splits words")
    result.add_argument("--resamples", type=int, default=1000, metavar="N", help="default: 1000")
    result.add_argument("--seed", type=int, default=12345, help="of the samples")
    result.add_argument("--json", action="store_true", help="print one JSON object")
    return result


def hypotheses_of(system: str, split: str) -> Path:
    """The file of translations of a system: itself, or the newest that a run keeps of `split`.

    Raises:
        UserError: the run was not evaluated on this split.
    """
    path = Path(system)
    if not path.is_dir():
        return path
    names = (f"{split}.hyp.txt", f"{split}-*.hyp.txt")
    files = [file for name in names for file in (path / EVALUATIONS).glob(name)]
    if not files:
        raise UserError(
            f"{path} was not evaluated on {split}: first seq2seq evaluate --run {path} "
            f"--split {split}"
        )
    return max(files, key=lambda file: file.stat().st_mtime)


def common_references(runs: list[Path], configs: list[RunConfig], split: str) -> list[str]:
    """The references of a split, which must be the same for all runs.

    Raises:
        UserError: no run is given, or their references differ.
    """
    from seq2seq.data.corpus import named_split
    from seq2seq.run_folder import trained_on

    if not runs:
        raise UserError("What are the right translations? Give --reference FILE.")
    first, *others = (
        named_split(config.data, split, trained_on(run))
        for run, config in zip(runs, configs, strict=True)
    )
    if any(other != first for other in others):
        raise UserError(
            f"The {split} sets of the two runs differ, so their scores cannot be compared: give "
            "--reference FILE and two files of translations of the same text."
        )
    return [target for _, target in first]

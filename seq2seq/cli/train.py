"""`seq2seq train`: compose the configuration, choose the run folder, train."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.choices import DataKind, Positions
from seq2seq.cli import options
from seq2seq.cli.args import INTERRUPTED, Parser, chosen, show_warnings
from seq2seq.config import RunConfig
from seq2seq.config_file import load_config, to_dict
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.training.distributed import World
    from seq2seq.training.watch import Watch

FILE_FLAGS = {
    f"{part}_{kind}": f"data.{part}_{kind}"
    for part in ("train", "dev", "test")
    for kind in ("source", "target", "tsv")
}
FLAGS = {
    "name": "name",
    "runs": "runs",
    "resume": "resume",
    "device": "device",
    "source_lang": "data.source_lang",
    "target_lang": "data.target_lang",
    **FILE_FLAGS,
}
"""Flag → the configuration key that it sets."""

SMALL_TEXT = 10_000  # lines, below which a smaller model learns better and faster

EXAMPLES = """
seq2seq train --name demo experiment=grammar
seq2seq train --name mine --train-source train.en --train-target train.de
seq2seq train --name mine --train-tsv pairs.tsv train.max_minutes=10 model.dropout=0.3
seq2seq train --name mine --resume
seq2seq train --name m30k experiment=multi30k data.root=multi30k
seq2seq train --name heads --multirun model.encoder_heads=1,2,4 experiment=grammar
seq2seq train --name heads --multirun hydra/launcher=submitit_slurm seed=1,2,3 experiment=grammar
"""


def main(argv: list[str]) -> int:
    """Run `seq2seq train`; the last line printed is "run: PATH".

    Started by torchrun, this is one of several processes that train together.
    """
    with _processes() as world:
        return _main(argv, world)


@contextlib.contextmanager
def _processes() -> Iterator[World | None]:
    """All processes of this run, where it has several."""
    if "RANK" not in os.environ:
        yield None
        return
    from seq2seq.training.distributed import join_world

    with join_world() as world:
        yield world


def _main(argv: list[str], world: World | None) -> int:
    args = parser().parse(argv)
    settings: list[str] = []
    if args.multirun:
        from seq2seq.cli.launch import split

        settings, args.overrides = split(args.overrides)
    plans = [configure(args, overrides) for overrides in _points(args)]
    if args.cfg:
        from seq2seq.cli.configure import as_yaml

        print("---\n".join(as_yaml(config) for config in plans), end="")
        return 0
    show_warnings()
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S_%f")
    _name_runs(plans, world.same(now) if world else now)
    if settings:
        _launch(plans, settings, now, world)
    for plan in plans:
        status = 0 if settings else _train(plan, world)
        print(f"run: {run_folder(plan)}", flush=True)
        if status:
            return status
    return 0


def _launch(plans: list[RunConfig], settings: list[str], now: str, world: World | None) -> None:
    """Give all runs to a launcher of Hydra, which `settings` choose, and wait for them."""
    if world:
        raise UserError("A launcher starts processes by itself: leave torchrun out.")
    from seq2seq.cli.launch import launch

    for plan in plans:
        _refuse_taken(plan)
    folder = Path(plans[0].runs, ".sweeps", now)
    print(f"{len(plans)} runs; what the launcher writes is in {folder}", file=sys.stderr)
    launch(len(plans), partial(_launched, plans), settings, str(folder))


def _launched(plans: list[RunConfig], number: int) -> None:
    """Train one of many; a job that a cluster has stopped and starts again goes on."""
    show_warnings()
    plan = plans[number]
    plan.resume = plan.resume or (run_folder(plan) / "last.json").exists()
    with _processes() as world:
        if _train(plan, world):
            raise UserError(f"{run_folder(plan)} was interrupted: go on with it by --resume.")


def parser() -> Parser:
    """The options of `seq2seq train`."""
    result = Parser(
        "train",
        "Trains a translation model and keeps it, with all that made it, in the folder runs/NAME.\n"
        "Ctrl-C saves; --resume goes on exactly where it stopped. The last line is 'run: PATH'.",
        EXAMPLES,
        schema=RunConfig,
        groups=tuple(options.groups()),
    )
    run = result.add_argument_group("run")
    run.add_argument("--name", help="the run is kept in RUNS/NAME (default: date and time)")
    run.add_argument("--runs", metavar="RUNS", help="folder of all runs (default: runs)")
    run.add_argument("--run", metavar="PATH", help="its folder, in place of --runs and --name")
    run.add_argument(
        "--resume", action="store_true", default=None, help="go on with the run of this name"
    )
    run.add_argument("--device", help="auto (default: a GPU if there is one), cpu, cuda, cuda:1")
    text = result.add_argument_group("your own text (UTF-8, one sentence a line, may be .gz)")
    for part, what in (("train", "training"), ("dev", "validation"), ("test", "test")):
        text.add_argument(f"--{part}-source", metavar="FILE", help=f"{what} text, source language")
        text.add_argument(f"--{part}-target", metavar="FILE", help="its translation, line by line")
        text.add_argument(f"--{part}-tsv", metavar="FILE", help="or both: source TAB target")
    text.add_argument("--source-lang", metavar="CODE", help="such as en")
    text.add_argument("--target-lang", metavar="CODE", help="such as de; BLEU splits words by it")
    more = result.add_argument_group("configuration")
    more.add_argument(
        "--config-dir", metavar="DIR", help="a folder of your own experiment/*.yaml …"
    )
    more.add_argument("--cfg", choices=["job"], help="print the whole configuration and stop")
    more.add_argument(
        "-m", "--multirun", action="store_true", help="key=a,b trains once for each value"
    )
    return result


def configure(args: argparse.Namespace, overrides: list[str]) -> RunConfig:
    """Compose the configuration of one run from flags and overrides.

    Raises:
        UserError: a setting is wrong, or there is nothing to resume.
    """
    from seq2seq.cli.configure import compose, is_choice

    values = chosen(args, FLAGS) | _split_run(args)
    typed = overrides
    chose_data = any(is_choice(override, "data") for override in overrides)
    if not chose_data and not set(values).isdisjoint(FILE_FLAGS.values()):
        overrides = ["data=files", *overrides]
    config = compose("train", RunConfig, overrides, values, config_dir=args.config_dir)
    _check_name(config)
    if not config.resume:
        if _is_small(config) and not any(
            is_choice(o, "model") or is_choice(o, "experiment") or o.startswith("model.")
            for o in overrides
        ):
            print(
                "note: a small text, so experiment=small_text; model=small takes the usual model.",
                file=sys.stderr,
            )
            small = ["experiment=small_text", *overrides]
            config = compose("train", RunConfig, small, values, config_dir=args.config_dir)
        return config
    if config.name is None:
        raise UserError("Which run is to go on? Give --name NAME or --run PATH with --resume.")
    saved = load_config(run_folder(config) / "config.json")
    for name in ("name", "runs", "device", "threads"):
        setattr(saved, name, getattr(config, name))
    # What was trained so far decides, except for what the user says now.
    config = compose("resume", RunConfig, typed, values, start=saved, config_dir=args.config_dir)
    _refuse_changes(saved, config)
    return config


def _is_small(config: RunConfig) -> bool:
    """Whether the user's own training text has less than `SMALL_TEXT` lines."""
    path = config.data.train_source or config.data.train_tsv
    if config.data.kind is not DataKind.files or path is None:
        return False
    from seq2seq.data.lines import read_lines

    try:
        return sum(1 for _ in islice(read_lines(path), SMALL_TEXT)) < SMALL_TEXT
    except UserError:
        return False  # training will say it, with the option's name


def run_folder(config: RunConfig) -> Path:
    """The folder of a run that has a name."""
    return Path(config.runs, str(config.name))


def _points(args: argparse.Namespace) -> list[list[str]]:
    if not args.multirun:
        return [args.overrides]
    from seq2seq.cli.configure import sweep

    return sweep(args.overrides)


def _split_run(args: argparse.Namespace) -> dict[str, object]:
    if args.run is None:
        return {}
    if args.name is not None or args.runs is not None:
        raise UserError("--run names the whole folder: leave out --name and --runs.")
    path = Path(args.run)
    return {"runs": str(path.parent), "name": path.name}


def _check_name(config: RunConfig) -> None:
    name = config.name
    if name is None:
        return
    parts = Path(name).parts
    if not name.strip() or Path(name).is_absolute() or not parts or ".." in parts:
        raise UserError(f"--name {name!r} must be the name of a folder inside {config.runs}.")


def _refuse_changes(saved: RunConfig, config: RunConfig) -> None:
    """Refuse settings that contradict the weights and the data order trained so far."""
    before, now = to_dict(saved), to_dict(config)
    # Where the text lies may change: training itself checks that it is still the same text.
    free = re.compile(r"root|cache|.*_(source|target|tsv)|.*dropout")
    for section in ("data", "tokenizer", "model"):
        for key, value in before[section].items():
            if now[section][key] != value and not free.fullmatch(key):
                raise UserError(
                    f"{section}.{key} is {now[section][key]} now, but the run to be resumed was "
                    f"trained with {value}: leave it as it was, or train under another name."
                )
    if saved.seed != config.seed:
        raise UserError(f"seed is {config.seed} now, but the run was trained with {saved.seed}.")


def _name_runs(plans: list[RunConfig], now: str) -> None:
    """Name runs without a name by the time, to the microsecond; number those of one name."""
    for plan in plans:
        plan.name = plan.name or now
    times = Counter(plan.name for plan in plans)
    numbers: Counter[str | None] = Counter()
    for plan in plans:
        if times[name := plan.name] > 1:
            numbers[name] += 1
            plan.name = f"{name}-{numbers[name]}"


def _refuse_taken(config: RunConfig) -> None:
    folder = run_folder(config)
    if not config.resume and folder.exists():
        raise UserError(
            f"{folder} exists already: choose another --name, or go on with it by --resume."
        )


def _train(config: RunConfig, world: World | None) -> int:
    if world is None or world.is_main:
        _refuse_taken(config)
    folder = run_folder(config)
    from seq2seq.training.run import train

    watch = _watch(config, folder) if config.train.watched else None
    result = train(config, folder, resume=config.resume, watch=watch, world=world)
    return INTERRUPTED if result.interrupted else 0


def _watch(config: RunConfig, folder: Path) -> Watch:
    """What keeps attention while the model learns."""
    from seq2seq.analysis.track import tracker

    limit = config.model.max_positions if config.model.positions is Positions.learned else None
    return lambda tokenizer, dev: tracker(config.train, folder, tokenizer, dev, limit=limit)

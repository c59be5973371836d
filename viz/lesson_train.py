"""Training for the lesson: models of one width, budget and seed that differ in heads alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2seq.cli.configure import compose, is_choice
from seq2seq.config import RunConfig
from seq2seq.config_file import load_config
from seq2seq.errors import UserError
from seq2seq.lesson.runs import differences
from seq2seq.run_folder import CONFIG, FINISHED

# Small enough for two cores and a few minutes. Equal budgets are equal numbers of updates, not of
# minutes: a slower model must not learn less.
DEFAULTS = (
    "model.d_model=128",
    "model.d_ff=512",
    "model.encoder_layers=2",
    "model.decoder_layers=2",
    "train.max_minutes=null",
    "train.max_updates=800",
    "train.validate_every=200",
    "train.dev_limit=200",
)
GRAMMAR = ("experiment=grammar", "data.grammar_pairs=40000", "tokenizer.vocab_size=2000")
# What training itself fills in, so that a saved configuration may differ in it.
FILLED = ("precision", "train.max_tokens", "model.source_vocab", "model.target_vocab")


def train_runs(folder: Path, heads: Sequence[int], overrides: Sequence[str]) -> list[Path] | None:
    """Train a run for each number of heads, in folder/runs; those that are there already stay.

    Args:
        folder: of the lesson.
        heads: numbers of heads.
        overrides: settings of the reader's, as of `seq2seq train`.

    Returns:
        The run folders, or None when the user interrupted.

    Raises:
        UserError: wrong settings, or a folder that holds another run or an unfinished one.
    """
    from seq2seq.training.run import train

    if len(set(heads)) < 2:
        raise UserError("--train compares numbers of heads: give at least two, as --heads 1,4.")
    plans = [_plan(folder, count, overrides) for count in heads]
    paths = [Path(plan.runs, str(plan.name)) for plan in plans]
    new = [
        (plan, path) for plan, path in zip(plans, paths, strict=True) if not _is_done(plan, path)
    ]
    for plan, path in new:
        if train(plan, path).interrupted:
            return None
    return paths


def _plan(folder: Path, heads: int, overrides: Sequence[str]) -> RunConfig:
    before = [*_corpus(overrides), *DEFAULTS]
    before += [f"model.encoder_heads={heads}", f"model.decoder_heads={heads}"]
    values: dict[str, object] = {"runs": str(folder / "runs"), "name": f"heads-{heads}"}
    return compose("train", RunConfig, [*before, *overrides], values)


def _corpus(overrides: Sequence[str]) -> list[str]:
    """What to train on, unless the reader says."""
    if any(is_choice(one, "experiment") or is_choice(one, "data") for one in overrides):
        return []
    if any(one.startswith(("data.train_source=", "data.train_tsv=")) for one in overrides):
        return ["data=files"]
    return list(GRAMMAR)


def _is_done(plan: RunConfig, path: Path) -> bool:
    """Whether that very run has been trained.

    Raises:
        UserError: there is another one, or it was not finished.
    """
    if not path.exists():
        return False
    if not (path / FINISHED).exists():
        raise UserError(
            f"{path} holds a training that did not finish: go on with it (seq2seq train --run "
            f"{path} --resume), or give another --out."
        )
    other = [key for key in differences([plan, load_config(path / CONFIG)]) if key not in FILLED]
    if other:
        raise UserError(
            f"{path} was trained with another {other[0]}: give another --out, or compare finished "
            "runs with --runs."
        )
    return True

"""A run folder of a model without some heads: it translates, plots and goes on training like any.

Where the checkpoint is the one that training would resume from, Adam's moments and the weights
beside a moving average are cut as the weights are. The other checkpoints of a run keep no such
state, so training begins there with moments of zero.
"""

from __future__ import annotations

import dataclasses
import enum
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.config_file import save_config
from seq2seq.errors import UserError
from seq2seq.model.pruning import Kept, cut, kept_entries, remove
from seq2seq.model.transformer import Transformer, parameter_count
from seq2seq.run_folder import CONFIG, CORPUS, TRAINING, LoadedRun, step_folder, weights_hash
from seq2seq.training import checkpoint
from seq2seq.training.checkpoint import Progress
from seq2seq.training.optim import build_optimizer

PRUNED = "pruned.json"  # where the model comes from


class Resumption(enum.StrEnum):
    """How training of the pruned run goes on: with Adam's moments, anew, or not at all."""

    moments = "moments"
    anew = "anew"
    never = "never"


@dataclasses.dataclass(frozen=True)
class PrunedRun:
    """What was written.

    Attributes:
        path: the new run folder.
        before: parameters of the model.
        after: parameters of the smaller one.
        resumption: how training can go on.
    """

    path: Path
    before: int
    after: int
    resumption: Resumption


def write_pruned_run(
    run: LoadedRun, heads: Iterable[object], out: Path, *, which: str = "best"
) -> PrunedRun:
    """Write the run without some heads as a new run folder, all of it or nothing.

    Args:
        run: the run, with the checkpoint `which` loaded.
        heads: their names; those already removed change nothing.
        out: the new folder, which must not exist.
        which: the checkpoint, as of `load_run`.

    Raises:
        UserError: a head that the model never had, a folder that exists or cannot be made, or
            training state that is damaged.
    """
    if out.exists():
        raise UserError(f"{out} exists already: choose another folder for the pruned run.")
    smaller = remove(run.model, heads)
    progress, state, resumption = _training_state(run, which, smaller)
    config = dataclasses.replace(
        run.config, model=smaller.config, name=out.name, runs=str(out.parent), resume=False
    )
    origin = {
        "run": str(run.path),
        "checkpoint": step_folder(run.path, which).name,
        "weights": weights_hash(run.path, which),
        "removed_heads": smaller.config.removed_heads or [],
        "parameters": [parameter_count(run.model), parameter_count(smaller)],
    }
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}.") from None
    try:
        save_config(config, building / CONFIG)
        run.tokenizer.save(building)
        if (run.path / CORPUS).exists():
            shutil.copyfile(run.path / CORPUS, building / CORPUS)
        checkpoint.write_json(building / PRUNED, origin)
        step = checkpoint.write_step(
            building, progress, lambda file: checkpoint.save_model(smaller, file), state
        )
        if resumption is Resumption.never:
            (step / TRAINING).unlink()
        checkpoint.point_at_best(building, progress, config.train.metric.value)
        building.chmod(0o755)
        building.rename(out)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return PrunedRun(out, parameter_count(run.model), parameter_count(smaller), resumption)


def _training_state(
    run: LoadedRun, which: str, smaller: Transformer
) -> tuple[Progress, dict[str, Any], Resumption]:
    """Where training of the smaller model stands, and its optimizer's state."""
    if not _can_resume(run.path):
        step = max(run.step, 1)  # an average has no number of its own
        return Progress(update=step, best_step=step), {}, Resumption.never
    progress, state, folder = checkpoint.read_training_state(run.path, torch.device("cpu"))
    is_newest = folder == step_folder(run.path, which)
    # The next validation is the first of this model: what the larger one reached is no measure.
    progress = dataclasses.replace(progress, best_value=None, best_loss=None, worse=0)
    progress.update = run.step or progress.update
    progress.best_step = progress.update
    if not is_newest:
        state.pop("raw_weights", None)
        state["optimizer"] = {**state["optimizer"], "state": {}}
        progress.validated = progress.update
        return progress, state, Resumption.anew
    kept = kept_entries(run.model, smaller.config)
    state["optimizer"] = _cut_moments(state["optimizer"], run, kept)
    if raw := state.get("raw_weights"):
        names = [name for name, _ in run.model.named_parameters()]
        state["raw_weights"] = list(cut(dict(zip(names, raw, strict=True)), kept).values())
    return progress, state, Resumption.moments


def _can_resume(path: Path) -> bool:
    return (path / "last.json").exists() and (step_folder(path, "last") / TRAINING).exists()


def _cut_moments(optimizer: Mapping[str, Any], run: LoadedRun, kept: Kept) -> dict[str, Any]:
    """Adam's state, which numbers parameters in the order of the optimizer's groups."""
    names = {parameter: name for name, parameter in run.model.named_parameters()}
    groups = build_optimizer(run.model, run.config.optim).param_groups
    order = [names[parameter] for group in groups for parameter in group["params"]]

    def smaller(name: str, value: Tensor) -> Tensor:
        return cut({name: value}, kept)[name] if value.dim() else value  # steps are one number

    state = {
        index: {key: smaller(order[index], value) for key, value in entry.items()}
        for index, entry in optimizer["state"].items()
    }
    return {**optimizer, "state": state}

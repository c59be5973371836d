"""Writing checkpoints: whole or not at all, and only what resuming needs."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from seq2seq.config import TrainConfig
from seq2seq.data.store import to_disk
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import (
    REMOVED,
    TRAINING,
    WEIGHTS,
    step_folder,
    step_folders,
    step_of,
)

BUILDING = ".step-"


@dataclass
class Progress:
    """Where training stands; with weights and optimizer state, all that resuming needs.

    Random numbers are not in it: every update seeds the generators from (seed, update), and the
    batches follow from (seed, epoch). Nor is the number of processes: `batch` counts those of all.
    """

    update: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    tokens: int = 0  # target tokens learnt from
    seconds: float = 0.0  # of training, validation included
    skipped: int = 0  # updates skipped for a non-finite loss or gradient
    validated: int = 0  # the update after which the last validation was
    best_step: int = 0
    best_value: float | None = None
    best_loss: float | None = None  # dev loss of the best step
    worse: int = 0  # validations since best_value

    def share(self, limits: TrainConfig, epoch_batches: int) -> float:
        """How much of the training is done, in [0, 1], by the limit that is nearest."""
        shares = [0.0]
        if limits.max_updates is not None:
            shares.append(self.update / limits.max_updates)
        if limits.max_minutes is not None:
            shares.append(self.seconds / max(60.0 * limits.max_minutes, 1e-9))
        if limits.max_epochs is not None:
            shares.append((self.epoch + self.batch / epoch_batches) / limits.max_epochs)
        return min(max(shares), 1.0)


@dataclass(frozen=True)
class TrainResult:
    """How training ended."""

    run_dir: Path
    reason: str  # "finished", "no better for …", "interrupted"
    progress: Progress

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self.reason == "interrupted"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a small file in one step."""
    temporary = path.with_suffix(".json.new")
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    to_disk(temporary)
    temporary.replace(path)


def write_step(
    run: Path, progress: Progress, save_weights: Callable[[Path], None], state: dict[str, Any]
) -> Path:
    """Write step-N with weights and training state, then point last.json at it.

    Args:
        run: the run folder.
        progress: `progress.update` is N.
        save_weights: writes the weights to the file it is given.
        state: optimizer and other tensors and primitives, loadable with weights_only.
    """
    folder = run / f"step-{progress.update}"
    building = Path(tempfile.mkdtemp(prefix=BUILDING, dir=run))
    try:
        save_weights(building / WEIGHTS)
        torch.save({**state, "progress": dataclasses.asdict(progress)}, building / TRAINING)
        for file in building.iterdir():
            file.chmod(0o644)  # safetensors writes for the owner alone; a run is to be shared
            to_disk(file)
        building.chmod(0o755)
        if folder.exists():  # nothing points at it: `tidy` would have removed it
            shutil.rmtree(folder)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    write_json(run / "last.json", {"step": progress.update})
    return folder


def point_at_best(run: Path, progress: Progress, metric: str) -> None:
    """Let best.json name the best step so far."""
    best = {"step": progress.best_step, "value": progress.best_value, "metric": metric}
    write_json(run / "best.json", best)


def tidy(run: Path, progress: Progress, metric: str) -> None:
    """Before resuming from `progress`, undo what a killed process began after saving it.

    That is: half-written folders, steps that last.json does not count, and a best.json that was
    about to change.
    """
    for unfinished in run.glob(f"{BUILDING}*"):
        shutil.rmtree(unfinished)
    for folder in step_folders(run):
        if step_of(folder) > progress.update:
            shutil.rmtree(folder)
    if progress.best_step:
        point_at_best(run, progress, metric)


def save_model(model: Transformer, file: Path) -> None:
    """Write weights as safetensors, tied matrices once, with the names of removed heads."""
    removed = model.config.removed_heads
    metadata = {REMOVED: " ".join(removed)} if removed else None
    safetensors.torch.save_model(model, str(file), metadata)


def prune_steps(run: Path, keep_last: int, best_step: int) -> None:
    """Delete old step folders: all but the newest `keep_last` and the best.

    Only the newest keeps what resuming needs.
    """
    folders = step_folders(run)
    for folder in folders[:-keep_last]:
        if step_of(folder) != best_step:
            shutil.rmtree(folder)
    for folder in folders[:-1]:
        (folder / TRAINING).unlink(missing_ok=True)


def read_training_state(
    run: Path, device: torch.device | str
) -> tuple[Progress, dict[str, Any], Path]:
    """What `write_step` saved last.

    Returns:
        The progress, the rest of the state, and the step folder.

    Raises:
        UserError: there is nothing to resume from, or the file is damaged or holds code.
    """
    if not (run / "last.json").exists():
        raise UserError(
            f"{run} has no checkpoint to go on from, for training has saved none yet: remove the "
            "folder and train anew."
        )
    folder = step_folder(run, "last")
    file = folder / TRAINING
    try:
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
        progress = Progress(**state.pop("progress"))
    except FileNotFoundError:
        raise UserError(f"{file} is missing: without it this run cannot be resumed.") from None
    except Exception as error:  # unpickling fails in many ways; all mean the same to the user
        raise UserError(
            f"{file} cannot be read safely ({type(error).__name__}): it is damaged, or not a file "
            "that training wrote. Copy it anew."
        ) from None
    return progress, state, folder

"""Checkpoints are whole or absent, hold no code, and survive a kill at any point of writing."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from seq2seq.errors import UserError
from seq2seq.run_folder import TRAINING, WEIGHTS, step_folders
from seq2seq.training import checkpoint
from seq2seq.training.checkpoint import (
    Progress,
    point_at_best,
    prune_steps,
    read_training_state,
    tidy,
    write_json,
    write_step,
)

CPU = torch.device("cpu")


def write(run: Path, update: int, best: int = 0) -> Path:
    progress = Progress(update=update, best_step=best, best_value=float(best))
    state = {"optimizer": {"state": {0: {"step": torch.tensor(float(update))}}}}
    return write_step(run, progress, lambda file: file.write_text(f"weights {update}"), state)


def names(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir())


def last(run: Path) -> int:
    return int(json.loads((run / "last.json").read_text())["step"])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path, 7, best=5)
    assert folder == tmp_path / "step-7"
    assert names(folder) == [WEIGHTS, TRAINING]
    progress, state, found = read_training_state(tmp_path, CPU)
    assert found == folder
    assert progress == Progress(update=7, best_step=5, best_value=5.0)
    assert state["optimizer"]["state"][0]["step"] == 7.0
    assert names(tmp_path) == ["last.json", "step-7"]


def test_a_run_folder_can_be_read_by_others(tmp_path: Path) -> None:
    """Also the weights, which safetensors writes for the owner alone."""
    folder = write(tmp_path, 1)
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o044 == 0o044, path


def test_the_training_state_loads_without_unpickling_code(tmp_path: Path) -> None:
    folder = write(tmp_path, 3)
    state = torch.load(folder / TRAINING, weights_only=True)
    assert state["progress"] == asdict(Progress(update=3, best_value=0.0))


class Hostile:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.file}",)


def test_a_hostile_file_is_refused_and_not_run(tmp_path: Path) -> None:
    folder, trap = write(tmp_path, 3), tmp_path / "sprung"
    pickle.loads(pickle.dumps(Hostile(trap)))  # it is a trap indeed
    assert trap.exists()
    trap.unlink()

    def plain(content: object, file: Path) -> None:
        file.write_bytes(pickle.dumps(content, protocol=2))

    for save in (torch.save, plain):
        save({"progress": {}, "optimizer": Hostile(trap)}, folder / TRAINING)
        with pytest.raises(UserError, match=r"training\.pt cannot be read safely"):
            read_training_state(tmp_path, CPU)
        assert not trap.exists()


def test_a_damaged_or_missing_state_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="training has saved none yet"):
        read_training_state(tmp_path, CPU)
    file = write(tmp_path, 3) / TRAINING
    content = file.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"text"):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            read_training_state(tmp_path, CPU)
    file.unlink()
    with pytest.raises(UserError, match="cannot be resumed"):
        read_training_state(tmp_path, CPU)


class Killed(BaseException):
    """The process ends here: nothing after it runs, not even clean-up."""


@pytest.mark.parametrize("moment", ["weights", "state", "to disk"])
def test_an_interrupt_while_writing_leaves_the_previous_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write(tmp_path, 1)
    before = {file: file.read_bytes() for file in (tmp_path / "step-1").iterdir()}

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    def save(file: Path) -> None:
        file.write_text("half")
        if moment == "weights":
            raise KeyboardInterrupt

    if moment == "state":
        monkeypatch.setattr(torch, "save", fail)
    if moment == "to disk":
        monkeypatch.setattr(checkpoint, "to_disk", fail)
    with pytest.raises(KeyboardInterrupt):
        write_step(tmp_path, Progress(update=2), save, {})
    assert names(tmp_path) == ["last.json", "step-1"]
    assert {file: file.read_bytes() for file in before} == before
    assert read_training_state(tmp_path, CPU)[0].update == 1


def kill_at(monkeypatch: pytest.MonkeyPatch, call: int) -> list[str]:
    """Let the file system's `call`-th change be the last before the process is gone."""
    done: list[str] = []

    def watch(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def change(*args: object, **options: object) -> object:
            if len(done) >= call:
                raise Killed
            done.append(name)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, change)

    for name in ("rename", "replace", "unlink", "write_text"):
        watch(Path, name)
    watch(shutil, "rmtree")
    watch(torch, "save")
    return done


@pytest.mark.parametrize("is_best", [False, True])
@pytest.mark.parametrize("call", range(12))
def test_a_kill_at_any_point_leaves_something_to_resume_and_the_best(
    tmp_path: Path, call: int, is_best: bool
) -> None:
    """After every single change to the file system in turn."""

    def save(update: int, best: int) -> None:
        write(tmp_path, update, best)
        if best == update:
            point_at_best(tmp_path, Progress(best_step=best, best_value=float(best)), "bleu")
        prune_steps(tmp_path, 1, best)

    save(10, 10)
    save(20, 10)
    with pytest.MonkeyPatch.context() as patch:
        done = kill_at(patch, call)
        killed = False
        try:
            save(30, 30 if is_best else 10)
        except Killed:
            killed = True
    assert killed or len(done) <= call
    progress, _, folder = read_training_state(tmp_path, CPU)
    assert progress.update in (20, 30)
    assert (folder / WEIGHTS).read_text() == f"weights {progress.update}"

    tidy(tmp_path, progress, "bleu")
    steps = [int(step.name[5:]) for step in step_folders(tmp_path)]
    assert max(steps) == last(tmp_path) == progress.update
    assert json.loads((tmp_path / "best.json").read_text())["step"] == progress.best_step
    assert progress.best_step in steps
    assert not list(tmp_path.glob(".step-*"))

    # Training goes on, and stops at an earlier update than the killed process had reached.
    save(progress.update + 1, progress.best_step)
    assert read_training_state(tmp_path, CPU)[0].update == progress.update + 1
    assert (tmp_path / f"step-{progress.best_step}" / WEIGHTS).exists()


def test_clean_up_spares_the_best_and_the_newest(tmp_path: Path) -> None:
    for update in (1, 2, 3, 10, 20):
        write(tmp_path, update)
    prune_steps(tmp_path, keep_last=1, best_step=2)
    assert [step.name for step in step_folders(tmp_path)] == ["step-2", "step-20"]
    assert [step.name for step in step_folders(tmp_path) if (step / TRAINING).exists()] == [
        "step-20"
    ]


def test_as_many_as_asked_for_are_kept(tmp_path: Path) -> None:
    for update in (8, 9, 10, 11):
        write(tmp_path, update)
    (tmp_path / "average-3").mkdir()
    prune_steps(tmp_path, keep_last=3, best_step=8)
    assert [step.name for step in step_folders(tmp_path)] == [
        "step-8",
        "step-9",
        "step-10",
        "step-11",
    ]
    prune_steps(tmp_path, keep_last=3, best_step=10)
    assert len(step_folders(tmp_path)) == 3
    assert (tmp_path / "average-3").exists()


def test_a_small_file_is_replaced_in_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "best.json"
    write_json(path, {"step": 1})

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "to_disk", fail)
    with pytest.raises(OSError, match="disk full"):
        write_json(path, {"step": 2})
    assert json.loads(path.read_text()) == {"step": 1}

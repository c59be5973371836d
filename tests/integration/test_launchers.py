"""Sweeps through the launchers of the extra `cluster`, as a user would type them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

LAUNCHERS = {"joblib": "hydra_joblib_launcher", "submitit_local": "hydra_submitit_launcher"}
TINY = [
    *("--train-source", "text.a", "--train-target", "text.b"),
    *("model=tiny", "model.d_model=16", "model.d_ff=32", "tokenizer.kind=char"),
    *("device=cpu", "precision=fp32", "threads=1", "train.max_updates=6", "train.max_tokens=80"),
    *("train.dev_limit=2", "decode.max_len_a=1", "decode.max_len_b=5", "train.samples=0"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    for name, factor in (("text.a", 1), ("text.b", 7)):
        lines = [" ".join(str(i * factor)) for i in range(100, 160)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for seed in (1, 2):
        sweep(folder, "--name", f"alone-{seed}", f"seed={seed}")
    return folder


def sweep(place: Path, *arguments: str, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", "train", *TINY, *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def weights(run: Path) -> dict[str, torch.Tensor]:
    step = json.loads((run / "last.json").read_text())["step"]
    model = safetensors.torch.load_file(run / f"step-{step}" / "model.safetensors")
    return dict(sorted(model.items(), key=lambda item: (item[1].shape, float(item[1].sum()))))


def needs(launcher: str) -> None:
    pytest.importorskip(f"hydra_plugins.{LAUNCHERS[launcher]}", reason="needs the extra cluster")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_trains_what_each_command_alone_would(place: Path, launcher: str) -> None:
    needs(launcher)
    arguments = ["--multirun", f"hydra/launcher={launcher}", "--name", launcher, "seed=1,2"]
    out, _ = sweep(place, *arguments)
    assert out.split("\n")[-3:] == [f"run: runs/{launcher}-1", f"run: runs/{launcher}-2", ""]
    for seed in (1, 2):
        one = weights(place / "runs" / f"{launcher}-{seed}")
        other = weights(place / "runs" / f"alone-{seed}")
        assert all(map(torch.equal, one.values(), other.values()))


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_of_two_runs_one_may_fail(place: Path, launcher: str) -> None:
    needs(launcher)
    broken = ["optim.lr=1e30,1e-3", "optim.warmup=0", "optim.clip_norm=0", "train.max_skips=2"]
    name = f"half-{launcher}"
    arguments = ["--multirun", f"hydra/launcher={launcher}", "--name", name, *broken]
    _, err = sweep(place, *arguments, status=2)
    assert "error: The gradient was not finite in 2 updates in a row" in err
    assert "Traceback" not in err
    assert (place / "runs" / f"{name}-2" / "finished.json").exists()


@pytest.mark.slow
@pytest.mark.dist
def test_the_tasks_of_a_submitit_job_train_together(place: Path) -> None:
    needs("submitit_local")
    launcher = ["hydra/launcher=submitit_local", "hydra.launcher.tasks_per_node=2"]
    sweep(place, "--multirun", *launcher, "--name", "tasks", "seed=1")
    logs = [file.read_text() for file in (place / "runs/.sweeps").rglob("*_log.err")]
    assert sum("on 2 × cpu" in log for log in logs) == 1
    assert (place / "runs/tasks/finished.json").exists()

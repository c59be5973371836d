"""Stopping and resuming real training processes: killed, interrupted, and left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

UPDATES = 40
PACE = """
import time
from seq2seq.cli.main import main
from seq2seq.training.trainer import Trainer

step = Trainer._step
Trainer._step = lambda trainer: (step(trainer), time.sleep({pause}))[0]  # time to be stopped in
raise SystemExit(main())
"""
TINY = [
    "model=tiny",
    "model.d_model=16",
    "model.d_ff=32",
    "tokenizer.kind=char",
    "device=cpu",
    "precision=fp32",
    "threads=1",
    f"train.max_updates={UPDATES}",
    "train.max_tokens=80",
    "train.accumulate=2",
    "train.ema=0.9",
    "train.validate_every=7",
    "train.log_every=1",
    "train.dev_limit=2",
    "decode.max_len_a=1",
    "decode.max_len_b=5",
    "optim.warmup=25",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    for name, factor in (("text.a", 1), ("text.b", 7)):
        lines = [" ".join(str(i * factor)) for i in range(100, 160)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def start(place: Path, *arguments: str, pause: float = 0.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PACE.format(pause=pause), "train", *arguments],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == status, err
    return out, err


def text(name: str) -> list[str]:
    return ["--name", name, "--train-source", "text.a", "--train-target", "text.b", *TINY]


def until(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def logged(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    found = [json.loads(line) for line in lines]
    for line in found:
        line.pop("seconds")
        line.pop("tokens_per_second", None)
    return found


def updates_logged(run: Path) -> int:
    """Lines written so far; while the process runs the last may be half a line."""
    metrics = run / "metrics.jsonl"
    return metrics.read_text(encoding="utf-8").count('"train"') if metrics.exists() else 0


def final_state(run: Path) -> dict[str, torch.Tensor]:
    state = torch.load(run / f"step-{UPDATES}" / "training.pt", weights_only=True)
    raw = {f"raw {i}": weight for i, weight in enumerate(state["raw_weights"])}
    return safetensors.torch.load_file(run / f"step-{UPDATES}" / "model.safetensors") | raw


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    """The run that nothing disturbs."""
    out, _ = finish(start(place, *text("whole")))
    assert out == "run: runs/whole\n"
    return place / "runs" / "whole"


def assert_same(run: Path, whole: Path) -> None:
    one, other = final_state(run), final_state(whole)
    assert one.keys() == other.keys()
    for name, weight in one.items():
        assert torch.equal(weight, other[name]), name
    assert logged(run) == logged(whole)
    for name in ("best.json", "last.json", "tokenizer.model"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert {p.name for p in run.iterdir()} == {p.name for p in whole.iterdir()}


def test_killed_and_resumed_equals_uninterrupted(place: Path, whole: Path) -> None:
    """kill -9 in the middle of an epoch, of accumulation and of warm-up; twice."""
    run = place / "runs" / "killed"
    process = start(place, *text("killed"), pause=0.05)
    until(process, lambda: updates_logged(run) >= 17)
    process.kill()
    finish(process, -signal.SIGKILL)
    assert not (run / "finished.json").exists()
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "upd')  # as if killed while writing
    (run / ".step-abc").mkdir()
    (run / ".step-abc" / "model.safetensors").write_bytes(b"half")

    process = start(place, "--name", "killed", "--resume", pause=0.05)
    until(process, lambda: updates_logged(run) >= 30)
    process.kill()
    finish(process, -signal.SIGKILL)

    out, _ = finish(start(place, "--run", "runs/killed", "--resume"))
    assert out == "run: runs/killed\n"
    assert_same(run, whole)


def test_ctrl_c_saves_and_says_how_to_go_on(place: Path, whole: Path) -> None:
    run = place / "runs" / "stopped"
    process = start(place, *text("stopped"), pause=0.05)
    until(process, lambda: updates_logged(run) >= 9)
    process.send_signal(signal.SIGINT)
    out, err = finish(process, 130)
    assert out == "run: runs/stopped\n"
    assert "Traceback" not in err
    step = json.loads((run / "last.json").read_text())["step"]
    assert 9 <= step < UPDATES
    assert step == updates_logged(run)
    assert f"interrupted after {step} updates" in err
    command = err.rstrip().split("to go on: seq2seq train ")[1]
    assert command == "--run runs/stopped --resume"

    finish(start(place, *command.split()))
    assert_same(run, whole)


def test_a_run_is_never_overwritten(place: Path, whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    _, err = finish(start(place, *text("whole")), 2)
    assert "exists already" in err
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_text_may_move_between_two_parts_but_not_change(
    place: Path, whole: Path, tmp_path: Path
) -> None:
    for name in ("text.a", "text.b"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
        (tmp_path / name.replace("text", "moved")).write_bytes((place / name).read_bytes())
    finish(start(tmp_path, *text("run"), "train.max_updates=3"))
    moved = ["--train-source", "moved.a", "--train-target", "moved.b"]
    resumed = ["--name", "run", "--resume", *moved]
    finish(start(tmp_path, *resumed, "train.max_updates=4"))
    with (tmp_path / "moved.a").open("a") as a, (tmp_path / "moved.b").open("a") as b:
        a.write("9 9 9\n")
        b.write("7 7 7\n")
    _, err = finish(start(tmp_path, *resumed, "train.max_updates=5"), 2)
    assert "The training text is not the one that runs/run was trained on" in err

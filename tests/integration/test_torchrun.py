"""`torchrun … seq2seq train`: how it ends, goes on, fails and is stopped; on CPU and GPUs."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torchrunning import Process, ended, torchrun
from training_samples import metrics

from seq2seq.choices import Sharding
from seq2seq.cli.main import main

pytestmark = pytest.mark.dist

BREAK = """
import os, signal, time
from seq2seq.cli.main import main
from seq2seq.errors import UserError
from seq2seq.training.trainer import Trainer

step = Trainer._step

def stumble(trainer):
    time.sleep(0.1)
    if trainer.progress.update == 3 and trainer.world.rank == {rank}:
        {how}
    return step(trainer)

Trainer._step = stumble
raise SystemExit(main(["train", *{arguments}]))
"""
TINY = [
    *("--train-source", "text.a", "--train-target", "text.b", "device=cpu"),
    *("model=tiny", "model.d_model=16", "model.d_ff=32", "tokenizer.kind=char", "threads=1"),
    *("precision=fp32", "train.max_updates=400", "train.max_tokens=80", "train.samples=0"),
    *("train.validate_every=3", "train.dev_limit=3", "decode.max_len_a=1", "decode.max_len_b=5"),
]
WAYS = {  # what rank 1 does in update 4 → what is seen
    "an error of ours": ('raise RuntimeError("out of luck")', "RuntimeError: out of luck"),
    "an error of the user's": ('raise UserError("out of luck.")', "error: out of luck.\n"),
    "a kill": ("os.kill(os.getpid(), signal.SIGKILL)", "Signal 9 (SIGKILL) received"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, factor in (("text.a", 1), ("text.b", 7)):
        lines = [" ".join(str(i * factor)) for i in range(100, 160)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def command(place: Path, *arguments: str, rank: int = 9, how: str = "pass") -> Process:
    script = place / "script.py"
    script.write_text(
        BREAK.format(rank=rank, how=how, arguments=["--name", "x", *TINY, *arguments])
    )
    return torchrun(str(script), place=place)


@pytest.mark.parametrize(
    "way", ["an error of ours", *(pytest.param(w, marks=pytest.mark.slow) for w in list(WAYS)[1:])]
)
def test_when_one_rank_fails_all_end_at_once(place: Path, way: str) -> None:
    how, message = WAYS[way]
    process = command(place, rank=1, how=how)
    until_validated(process, place)  # however slow the machine starts
    status, _, err = ended(process, 25)  # torchrun itself would kill after 30
    assert status != 0
    assert err.count(message) == 1
    assert err.count("Traceback") <= 2  # torchrun's own is one
    assert json.loads((place / "runs/x/last.json").read_text()) == {"step": 3}


def test_the_command_trains_on_two_ranks_and_any_number_goes_on(place: Path) -> None:
    out, err = finished(command(place, "train.max_updates=4"))
    assert out == "run: runs/x\n"
    assert err.count("2 × cpu in fp32") == err.count("finished after 4 updates") == 1
    assert main_in(place, ["--run", "runs/x", "--resume", "train.max_updates=6"]) == 0
    assert [line["update"] for line in metrics(place / "runs/x", "dev")] == [3, 4, 6]


@pytest.mark.slow
def test_a_command_may_be_resumed_by_two_ranks(place: Path) -> None:
    assert main_in(place, ["--name", "x", *TINY, "train.max_updates=4"]) == 0
    out, err = finished(command(place, "--resume", "train.max_updates=6"))
    assert out == "run: runs/x\n"
    assert "finished after 6 updates" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_torchrun_saves_once(place: Path, number: signal.Signals) -> None:
    process = command(place)
    until_validated(process, place)
    process.send_signal(number)
    status, out, err = ended(process, 25)
    assert status != 0
    assert out == "run: runs/x\n"
    step = json.loads((place / "runs/x/last.json").read_text())["step"]
    assert err.count(f"interrupted after {step} updates") == 1
    assert not (place / "runs/x/finished.json").exists()


@pytest.mark.slow
def test_a_mistake_that_all_ranks_meet_is_told_once(place: Path) -> None:
    (place / "runs/x").mkdir(parents=True)
    status, out, err = ended(command(place))
    assert status != 0
    assert (out, err.count("runs/x exists already")) == ("", 1)
    _, _, err = ended(command(place, "train.max_epoch=3"))
    assert err.count("error: Unknown key train.max_epoch: did you mean train.max_epochs?") == 1


GPUS = torch.cuda.device_count()


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("sharding", list(Sharding))
def test_two_gpus_train_as_one_that_accumulates_two_batches(
    place: Path, sharding: Sharding
) -> None:
    options = ["device=cuda", "train.max_updates=20", "train.log_every=1", "model.dropout=0"]
    options += ["model.embedding_dropout=0", f"train.sharding={sharding}"]
    _, err = finished(command(place, *options))
    assert "2 × cuda in fp32" in err
    assert main_in(place, ["--name", "one", *TINY, *options, "train.accumulate=2"]) == 0
    two, one = (metrics(place / "runs" / name) for name in ("x", "one"))
    assert [line["tokens"] for line in two] == [line["tokens"] for line in one]
    losses = [line["loss"] for line in one]
    assert [line["loss"] for line in two] == pytest.approx(losses, rel=1e-3)


def finished(process: Process) -> tuple[str, str]:
    status, out, err = ended(process)
    assert status == 0, err
    return out, err


def until_validated(process: Process, place: Path) -> None:
    deadline = time.monotonic() + 200
    while not (place / "runs/x/step-3").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def main_in(place: Path, arguments: list[str]) -> int:
    """`seq2seq train` in this process."""
    before = Path.cwd()
    os.chdir(place)
    try:
        return main(["train", *arguments])
    finally:
        os.chdir(before)

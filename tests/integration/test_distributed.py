"""Several processes train one model: as exactly as one, and all end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from ranks import DEV, SHARDINGS, settings, validator
from training_samples import PAIRS, metrics, tokenizer, trained, trainer

from seq2seq.choices import Sharding
from seq2seq.cli.main import main
from seq2seq.data.batching import make_batch
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import TRAINING, WEIGHTS
from seq2seq.training.distributed import World

pytestmark = pytest.mark.dist
HERE = Path(__file__).parent
Process = subprocess.Popen[str]
EPOCH = 7  # batches


def torchrun(*command: str, processes: int = 2, **options: Any) -> Process:
    paths = [str(HERE.parents[1]), str(HERE), str(HERE.parent / "unit")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [sys.executable, *launcher, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


@pytest.fixture
def doubles() -> None:
    """As in ranks.py; the numbers of before come back by conftest.py."""
    torch.set_default_dtype(torch.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All experiments of ranks.py, done by two processes; and the same runs by one."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.set_default_dtype(torch.float64)
    try:
        for name in ("one", *(f"from-one-{sharding}" for sharding in SHARDINGS)):
            config = settings(max_updates=8 if name == "one" else 3, accumulate=2)
            trained(folder / name, config, validator(config, World()))
    finally:
        torch.set_default_dtype(torch.float32)
    process = torchrun(str(HERE / "ranks.py"), str(folder))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    return folder


@pytest.fixture(scope="module")
def seen(folder: Path) -> list[dict[str, Any]]:
    """What each rank saw."""
    return [torch.load(folder / f"seen-{rank}.pt", weights_only=False) for rank in (0, 1)]


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(run / f"step-{step}" / WEIGHTS)


def assert_close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], rtol=0, atol=1e-9, msg=name)


def numbers(line: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in line.items() if name != "kind"}


def test_ranks_agree(seen: list[dict[str, Any]]) -> None:
    for rank in (0, 1):
        sums, same, gathered, device = seen[rank]["agreement"]
        assert sums == [1.0, 2.0, 1.0]
        assert same == "first"
        assert gathered == [{"rank": 0}, {"rank": 1}]
        assert device == "cpu"
        assert seen[rank]["other options"] is None  # it raised what it should


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_the_gradient_is_that_of_one_process_on_all_pairs(
    seen: list[dict[str, Any]], doubles: None, sharding: Sharding, accumulate: int
) -> None:
    """PyTorch's own loss on one batch of the pairs of both; in the last update rank 1 is idle."""
    model_config = seen_config()
    torch.manual_seed(settings().seed)
    model = Transformer(model_config)
    words = tokenizer()
    updates = [rank[f"gradients {sharding} {accumulate}"] for rank in seen]
    shares = [[len(update[3]) for update in of_rank] for of_rank in updates]
    assert shares == ([[1, 1, 1, 1], [1, 1, 1, 0]] if accumulate == 1 else [[2, 2], [2, 1]])
    for one, other in zip(*updates, strict=True):
        pairs = [PAIRS[i] for batch in one[3] + other[3] for i in batch]
        batch = make_batch(
            words.encode_source([s for s, _ in pairs]), words.encode_target([t for _, t in pairs])
        )
        logits = model(batch.source, batch.target_in)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=0, label_smoothing=0.1
        )
        expected = torch.autograd.grad(loss, list(model.parameters()))
        norm = float(torch.cat([g.flatten() for g in expected]).norm())
        for found in (one, other):
            assert found[1] == pytest.approx(norm, rel=1e-12)
            for gradient, clipped, right in zip(found[0], found[2], expected, strict=True):
                torch.testing.assert_close(gradient, right, rtol=0, atol=1e-12)
                torch.testing.assert_close(
                    clipped, right * 1e-3 / (norm + 1e-6), rtol=1e-9, atol=1e-15
                )


def seen_config() -> Any:
    config = settings().model
    config.source_vocab = config.target_vocab = tokenizer().source_vocab
    return config


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_two_ranks_train_as_one_that_accumulates_two_batches(
    folder: Path, seen: list[dict[str, Any]], sharding: Sharding
) -> None:
    run = folder / f"whole-{sharding}"
    assert_close(weights(run, 8), weights(folder / "one", 8))
    mine, theirs = metrics(run), metrics(folder / "one")
    for kind in ("train", "dev"):
        mine, theirs = metrics(run, kind), metrics(folder / "one", kind)
        assert len(mine) == len(theirs) > 2
        for line, other in zip(mine, theirs, strict=True):
            assert numbers(line) == pytest.approx(numbers(other), rel=1e-9)
    assert [rank[f"whole {sharding}"]["reason"] for rank in seen] == ["finished"] * 2


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_the_run_folder_is_like_any_other(folder: Path, sharding: Sharding) -> None:
    """Written once, whole, and with what one process needs to go on."""
    run, one = folder / f"whole-{sharding}", folder / "one"
    assert {p.relative_to(run) for p in run.rglob("*") if "events" not in p.name} == {
        p.relative_to(one) for p in one.rglob("*") if "events" not in p.name
    }
    mine, theirs = (torch.load(r / "step-8" / TRAINING, weights_only=True) for r in (run, one))
    for state in (mine, theirs):
        state["progress"].pop("seconds")
    assert mine["progress"] == pytest.approx(theirs["progress"], rel=1e-9)
    assert mine["optimizer"]["param_groups"] == theirs["optimizer"]["param_groups"]
    for index, moments in theirs["optimizer"]["state"].items():
        assert_close(mine["optimizer"]["state"][index], moments)
    for raw, right in zip(mine["raw_weights"], theirs["raw_weights"], strict=True):
        torch.testing.assert_close(raw, right, rtol=0, atol=1e-9)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_pair_is_seen_once_an_epoch(seen: list[dict[str, Any]], sharding: Sharding) -> None:
    """Eight updates of two batches: an epoch takes four, the last of them with a single batch."""
    first, second = (rank[f"whole {sharding}"]["pairs"] for rank in seen)
    assert (len(first), len(second)) == (8, 6)
    for epoch in (0, 1):
        batches = first[4 * epoch : 4 * epoch + 4] + second[3 * epoch : 3 * epoch + 3]
        assert sorted(i for batch in batches for i in batch) == list(range(len(PAIRS)))


def test_dropout_differs_between_ranks_and_not_from_one_process(
    seen: list[dict[str, Any]],
) -> None:
    first, second = (rank["whole none"]["seeds"] for rank in seen)
    assert first == [1_000_003 + update for update in range(1, 9)]
    assert not set(first) & set(second)
    assert len(set(second)) == 8


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_one_goes_on_with_what_two_began(folder: Path, doubles: None, sharding: Sharding) -> None:
    config = settings(max_updates=8, accumulate=2)
    run = folder / f"half-{sharding}"
    trained(run, config, validator(config, World()), resume=True)
    assert_close(weights(run, 8), weights(folder / "one", 8))
    mine, right = metrics(run)[-1], metrics(folder / "one")[-1]
    assert numbers(mine) == pytest.approx(numbers(right), rel=1e-9)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_two_go_on_with_what_one_began(
    folder: Path, seen: list[dict[str, Any]], sharding: Sharding
) -> None:
    run = folder / f"from-one-{sharding}"
    assert_close(weights(run, 8), weights(folder / "one", 8))
    assert [line["update"] for line in metrics(run)] == list(range(1, 9))


def test_validation_is_that_of_one_process(
    folder: Path, seen: list[dict[str, Any]], doubles: None, tmp_path: Path
) -> None:
    config = settings(dev_limit=5, samples=5)
    with trainer(tmp_path / "alone", config) as it:
        alone = validator(config, World())(it.model)
    assert len(alone.samples) == len(DEV)
    for values, samples, warnings in (rank["validation"] for rank in seen):
        assert values == pytest.approx(alone.values, rel=1e-12)
        assert (samples, warnings) == (alone.samples, alone.warnings)


def test_rank_0_decides_on_early_stopping(seen: list[dict[str, Any]]) -> None:
    assert (
        seen[0]["early stop"]
        == seen[1]["early stop"]
        == ("no better bleu for 2 validations", 3, 7.0)
    )


def test_a_signal_to_any_rank_stops_all(folder: Path, seen: list[dict[str, Any]]) -> None:
    assert seen[0]["stopped"] == seen[1]["stopped"] == ("interrupted", 1)
    assert json.loads((folder / "stopped" / "last.json").read_text()) == {"step": 1}


def test_the_clock_of_rank_0_ends_training(seen: list[dict[str, Any]]) -> None:
    assert seen[0]["clock"] == seen[1]["clock"] == (3, 60.0)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_a_gradient_that_breaks_on_one_rank_is_skipped_by_all(
    seen: list[dict[str, Any]], sharding: Sharding
) -> None:
    for skipped, states in (rank[f"not finite {sharding}"] for rank in seen):
        assert skipped == 3
        assert all(map(torch.equal, states[0], states[1]))
        assert not any(map(torch.equal, states[1], states[2]))
        assert all(bool(weight.isfinite().all()) for weight in states[-1])


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
    *("--train-source", "text.a", "--train-target", "text.b", "--name", "x", "device=cpu"),
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
    script.write_text(BREAK.format(rank=rank, how=how, arguments=[*TINY, *arguments]))
    return torchrun(str(script), cwd=place)


@pytest.mark.parametrize(
    "way", ["an error of ours", *(pytest.param(w, marks=pytest.mark.slow) for w in list(WAYS)[1:])]
)
def test_when_one_rank_fails_all_end_at_once(place: Path, way: str) -> None:
    how, message = WAYS[way]
    process = command(place, rank=1, how=how)
    begin = time.monotonic()
    while not (place / "runs/x/step-3").exists():  # however slow the machine starts
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < begin + 200
        time.sleep(0.02)
    begin = time.monotonic()
    _, err = process.communicate(timeout=25)  # torchrun itself would kill after 30
    assert process.returncode != 0
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
    assert main_in(place, [*TINY, "train.max_updates=4"]) == 0
    out, err = finished(command(place, "--resume", "train.max_updates=6"))
    assert out == "run: runs/x\n"
    assert "finished after 6 updates" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_torchrun_saves_once(place: Path, number: signal.Signals) -> None:
    process = command(place)
    while not (place / "runs/x/step-3").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=25)
    assert process.returncode != 0
    assert out == "run: runs/x\n"
    step = json.loads((place / "runs/x/last.json").read_text())["step"]
    assert err.count(f"interrupted after {step} updates") == 1
    assert not (place / "runs/x/finished.json").exists()


@pytest.mark.slow
def test_a_mistake_that_all_ranks_meet_is_told_once(place: Path) -> None:
    (place / "runs/x").mkdir(parents=True)
    process = command(place)
    out, err = process.communicate(timeout=200)
    assert process.returncode != 0
    assert (out, err.count("runs/x exists already")) == ("", 1)
    process = command(place, "train.max_epoch=3")
    _, err = process.communicate(timeout=200)
    assert err.count("error: Unknown key train.max_epoch: did you mean train.max_epochs?") == 1


def finished(process: Process) -> tuple[str, str]:
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return out, err


def main_in(place: Path, arguments: list[str]) -> int:
    """`seq2seq train` in this process."""
    before = Path.cwd()
    os.chdir(place)
    try:
        return main(["train", *arguments])
    finally:
        os.chdir(before)

"""Several processes train one model: as exactly as one, and all end together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from ranks import DEV, SHARDINGS, settings, validator
from torchrunning import HERE, ended, torchrun
from training_samples import PAIRS, metrics, tokenizer, trained, trainer

from seq2seq.choices import Sharding
from seq2seq.data.batching import make_batch
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import TRAINING, WEIGHTS
from seq2seq.training.distributed import World

pytestmark = pytest.mark.dist


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
    status, _, err = ended(torchrun(str(HERE / "ranks.py"), str(folder)))
    assert status == 0, err
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

"""What each of several processes does in test_distributed.py; started by torchrun.

    torchrun … ranks.py FOLDER

Every experiment returns what this rank saw; FOLDER/seen-RANK.pt collects that by name. Numbers are
float64, so that the order of additions cannot hide a mistake.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from training_samples import PAIRS, configuration, tokenizer, trained, trainer

from seq2seq.choices import Sharding
from seq2seq.config import RunConfig
from seq2seq.data.batching import BatchPlan
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.training import parallel
from seq2seq.training.distributed import World, join_world
from seq2seq.training.run import _insist_on_one_run
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validator

SHARDINGS = list(Sharding)
DEV = PAIRS[:5]  # not divisible by 2


def settings(**options: Any) -> RunConfig:
    """Without dropout, which differs between ranks."""
    config = configuration(**{"ema": 0.9, "validate_every": 3} | options)
    config.model.dropout = config.model.embedding_dropout = 0.0
    config.model.encoder_layers = config.model.decoder_layers = 2
    config.decode.max_len_a, config.decode.max_len_b = 1.0, 3
    return config


def validator(config: RunConfig, world: World) -> Validator:
    return Validator(config, tokenizer(), DEV, world)


class Spy:
    """Notes which pairs this rank learns from, batch by batch, and its seeds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.pairs: list[list[int]] = []
        self.seeds: list[int] = []
        read: list[list[int]] = []  # perhaps beyond the end of training
        load, update, backward = BatchPlan.load, Trainer._update, Trainer._backward

        def loaded(plan: BatchPlan, pairs: Any) -> Any:
            read.append(pairs.tolist())
            return load(plan, pairs)

        def updated(it: Trainer, batches: Any) -> None:
            self.pairs += read
            read.clear()
            update(it, batches)

        def computed(it: Trainer, batch: Any, tokens: int) -> torch.Tensor:
            self.seeds.append(torch.initial_seed())
            return backward(it, batch, tokens)

        patch.setattr(BatchPlan, "load", loaded)
        patch.setattr(Trainer, "_update", updated)
        patch.setattr(Trainer, "_backward", computed)


def gradients(folder: Path, world: World, sharding: Sharding, accumulate: int) -> Any:
    """The gradient of every update of one epoch at the first weights, and their pairs."""
    config = settings(max_epochs=1, accumulate=accumulate, sharding=sharding, validate_every=99)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        spy = Spy(patch)
        with trainer(folder / f"gradients-{sharding}-{accumulate}", config, world=world) as it:

            def step() -> float:
                whole = [parallel.whole(p.grad).clone() for p in it.model.parameters()]
                norm = parallel.whole(torch.nn.utils.clip_grad_norm_(it.model.parameters(), 1e-3))
                clipped = [parallel.whole(p.grad).clone() for p in it.model.parameters()]
                found.append((whole, float(norm), clipped, spy.pairs.copy()))
                spy.pairs.clear()
                it.model.zero_grad()
                return float(norm)

            patch.setattr(it, "_step", step)
            it.run()
    return found


def whole_run(folder: Path, world: World, sharding: Sharding) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        spy = Spy(patch)
        config = settings(max_updates=8, sharding=sharding)
        result = trained(
            folder / f"whole-{sharding}", config, validator(config, world), world=world
        )
    return {"pairs": spy.pairs, "seeds": spy.seeds, "reason": result.reason}


def first_half(folder: Path, world: World, sharding: Sharding) -> Any:
    config = settings(max_updates=3, sharding=sharding)
    trained(folder / f"half-{sharding}", config, validator(config, world), world=world)


def second_half(folder: Path, world: World, sharding: Sharding) -> Any:
    """Goes on with what one process trained."""
    config = settings(max_updates=8, sharding=sharding)
    run = folder / f"from-one-{sharding}"
    trained(run, config, validator(config, world), resume=True, world=world)


def validation(folder: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of the weights that `from-one-none` began with."""
    config = settings(dev_limit=5, samples=5)
    with trainer(folder / "validated", config, world=world) as it:
        measured = validator(config, world)(it.model)
        lines = [f"{source}!" for source, _ in DEV]

        def shout(translator: Translator, texts: list[str]) -> Any:
            results = translate(translator, texts)
            for result, text in zip(results, texts, strict=True):
                object.__setattr__(result, "text", f"{text}!")
            return results

        translate = Translator.translate
        monkeypatch.setattr(Translator, "translate", shout)
        shouted = validator(config, world)(it.model)
        assert [triple[2] for triple in shouted.samples] == lines
    return measured.values, measured.samples, measured.warnings


def early_stop(folder: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rank 1 alone believes that BLEU rises; rank 0 decides."""
    scores = iter(range(100))

    def judge(measuring: Validator, texts: list[str]) -> dict[str, float]:
        return {"bleu": float(next(scores)) if world.rank else 7.0, "chrf": 0.0, "exact": 0.0}

    monkeypatch.setattr(Validator, "_scores", judge)
    config = settings(max_updates=9, validate_every=1, patience=2)
    run = folder / "early"
    result = trained(run, config, validator(config, world), world=world)
    return result.reason, result.progress.update, result.progress.best_value


def stopped(folder: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A signal that reached rank 1 alone."""
    with trainer(folder / "stopped", settings(max_updates=9), world=world) as it:
        update = it._update
        monkeypatch.setattr(it, "_update", lambda b: (update(b), world.rank == 1 and it.stop()))
        result = it.run()
    return result.reason, result.progress.update


def by_the_clock(folder: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The clock of rank 0 shows 20 seconds an update, that of rank 1 nothing at all."""
    config = settings(max_minutes=1, log_every=1, validate_every=99)
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with trainer(folder / "clock", config, world=world) as it:
        backward = it._backward

        def tick(batch: Any, tokens: int) -> torch.Tensor:
            now[0] += 0.0 if world.rank else 20.0
            return backward(batch, tokens)

        monkeypatch.setattr(it, "_backward", tick)
        result = it.run()
    return result.progress.update, result.progress.seconds


def not_finite(
    folder: Path, world: World, sharding: Sharding, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """The gradient of rank 1 alone breaks in update 2, and from update 5 on."""
    config = settings(max_updates=9, max_skips=2, sharding=sharding, validate_every=99)
    with trainer(folder / f"broken-{sharding}", config, world=world) as it:
        backward, states = it._backward, []

        def broken(batch: Any, tokens: int) -> torch.Tensor:
            bad = world.rank == 1 and (it.progress.update + 1) in (2, 5, 6)
            return backward(batch, 0 if bad else tokens)  # a loss divided by 0

        update = it._update

        def watched(batches: Any) -> None:
            update(batches)
            states.append([parallel.whole(p.detach()).clone() for p in it.model.parameters()])

        monkeypatch.setattr(it, "_backward", broken)
        monkeypatch.setattr(it, "_update", watched)
        with pytest.raises(UserError, match=r"2 updates in a row \(the last is 6\)"):
            it.run()
    return it.progress.skipped, states


def other_options(world: World) -> Any:
    config = configuration(seed=1 + world.rank)
    plan = type("Plan", (), {"identity": "the same"})()
    with pytest.raises(UserError, match="started with different options"):
        _insist_on_one_run(config, plan, world)


def agreement(world: World) -> Any:
    return (
        world.sum(world.rank, 1, 0.5),
        world.same(["first", "second"][world.rank]),
        world.gather({"rank": world.rank}),
        str(world.device("auto")),
    )


Experiments = dict[str, Callable[[], Any]]


def experiments(folder: Path, world: World, patch: pytest.MonkeyPatch) -> Experiments:
    """By name, in the order in which all ranks run them."""
    found: Experiments = {
        "agreement": lambda: agreement(world),
        "validation": lambda: validation(folder, world, patch),
        "early stop": lambda: early_stop(folder, world, patch),
        "stopped": lambda: stopped(folder, world, patch),
        "clock": lambda: by_the_clock(folder, world, patch),
        "other options": lambda: other_options(world),
    }
    for sharding in SHARDINGS:
        found |= {
            f"gradients {sharding} 1": lambda s=sharding: gradients(folder, world, s, 1),
            f"gradients {sharding} 2": lambda s=sharding: gradients(folder, world, s, 2),
            f"whole {sharding}": lambda s=sharding: whole_run(folder, world, s),
            f"first half {sharding}": lambda s=sharding: first_half(folder, world, s),
            f"second half {sharding}": lambda s=sharding: second_half(folder, world, s),
            f"not finite {sharding}": lambda s=sharding: not_finite(folder, world, s, patch),
        }
    return found


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    seen: dict[str, Any] = {}
    with join_world() as world:
        for name in experiments(folder, world, pytest.MonkeyPatch()):
            with pytest.MonkeyPatch.context() as patch:
                seen[name] = experiments(folder, world, patch)[name]()
        torch.save(seen, folder / f"seen-{world.rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

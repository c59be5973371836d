"""A tiny training run to experiment with: a copy task of digits, as small as it gets."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from seq2seq.choices import Precision, SubwordKind
from seq2seq.config import (
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    TokenizerConfig,
    TrainConfig,
)
from seq2seq.data.batching import BatchPlan
from seq2seq.data.store import build_store
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.model.transformer import Transformer
from seq2seq.training.distributed import World
from seq2seq.training.log import Mute, Reporter
from seq2seq.training.trainer import Trainer, TrainResult
from seq2seq.training.validation import Validation

CPU = torch.device("cpu")
PAIRS = [(f"{i} {i * 7 % 10} {i * i}", f"{i * i} {i}") for i in range(40)]


def configuration(**options: Any) -> RunConfig:
    """Options of training and of the optimizer by name, others as groups."""
    train = {"max_tokens": 60, "validate_every": 1000, "log_every": 1} | {
        name: options.pop(name) for name in list(options) if name in TrainConfig.__slots__
    }
    optim = {"lr": 3e-3, "warmup": 8} | {
        name: options.pop(name) for name in list(options) if name in OptimConfig.__slots__
    }
    model = {"d_model": 16, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    model |= {"encoder_heads": 2, "decoder_heads": 2, "dropout": 0.2}
    return RunConfig(
        device="cpu",
        precision=Precision.fp32,
        data=DataConfig(target_lang="en"),
        tokenizer=TokenizerConfig(kind=SubwordKind.char),
        train=TrainConfig(**train),
        optim=OptimConfig(**optim),
        model=ModelConfig(**model),
        **options,
    )


class Scripted:
    """A validator that reads its values from a list, and remembers when it was asked."""

    unknown = 0.0

    def __init__(self, values: Sequence[float | dict[str, float]] = ()) -> None:
        self.script = iter(values)
        self.given: list[float] = []
        self.seen: list[list[torch.Tensor]] = []

    def __call__(self, model: Transformer) -> Validation:
        value = next(self.script, 0.0)
        numbers = value if isinstance(value, dict) else {"bleu": value, "loss": 1.0}
        self.given.append(numbers.get("bleu", 0.0))
        self.seen.append([p.detach().clone() for p in model.parameters()])
        return Validation(numbers, [], [])


_tokenizers: list[Tokenizer] = []


def tokenizer() -> Tokenizer:
    if not _tokenizers:
        config = TokenizerConfig(kind=SubwordKind.char)
        _tokenizers.append(train_tokenizer(config, *zip(*PAIRS, strict=True)))
    return _tokenizers[0]


@contextmanager
def trainer(
    run: Path,
    config: RunConfig,
    validator: Callable[[Transformer], Validation] | None = None,
    world: World | None = None,
) -> Iterator[Trainer]:
    """A trainer over PAIRS; `.reporter.console.file` holds what people would see."""
    words, world = tokenizer(), world or World()
    with world.main_first():
        store = build_store(PAIRS, words, config.data, run.parent / "store")
        run.mkdir(parents=True, exist_ok=True)
    config.model.source_vocab = config.model.target_vocab = words.source_vocab
    plan = BatchPlan(store, config.train.max_tokens, config.seed)
    with Reporter(run, Console(file=io.StringIO(), width=200)) if world.is_main else Mute() as told:
        yield Trainer(config, run, plan, validator or Scripted(), told, CPU, world=world)  # type: ignore[arg-type]


def trained(
    run: Path,
    config: RunConfig,
    validator: Callable[[Transformer], Validation] | None = None,
    *,
    resume: bool = False,
    world: World | None = None,
) -> TrainResult:
    with trainer(run, config, validator, world) as it:
        if resume:
            it.resume()
        return it.run()


def metrics(run: Path, kind: str = "train") -> list[dict[str, Any]]:
    """The lines of one kind of metrics.jsonl, without what the clock decides."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    found = [json.loads(line, parse_constant=_refuse) for line in lines]
    timed = {"seconds", "tokens_per_second"}
    return [
        {name: value for name, value in line.items() if name not in timed}
        for line in found
        if line["kind"] == kind
    ]


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")

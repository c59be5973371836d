"""Training throughput and padding: non-padding target tokens per second.

    .venv/bin/python benchmarks/training.py --root DIR              # Multi30k folder
    .venv/bin/python benchmarks/training.py                         # the embedded grammar
    .venv/bin/python benchmarks/training.py --precision fp32 bf16 --profile

The model is "m30k-small": 3 + 3 layers, d_model 256, 4 heads, feed-forward 1024, joint 8k
vocabulary, tied embeddings, label smoothing 0.1, dropout 0.3, about 4,096 target tokens a batch.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common import conditions, median, save

from seq2seq.choices import DataKind, Precision, Schedule, SubwordKind
from seq2seq.config import (
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    TokenizerConfig,
    TrainConfig,
)
from seq2seq.data.batching import BatchPlan
from seq2seq.data.corpus import open_corpus
from seq2seq.data.store import build_store
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.device import keep_freed_memory, resolve_device
from seq2seq.training.trainer import Trainer


class Silent:
    """A reporter that tells nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def configuration(root: str | None, precision: str, max_tokens: int) -> RunConfig:
    kind = DataKind.multi30k if root else DataKind.grammar
    return RunConfig(
        precision=Precision(precision),
        data=DataConfig(kind=kind, root=root, grammar_pairs=30_000),
        tokenizer=TokenizerConfig(kind=SubwordKind.bpe, vocab_size=8000),
        model=ModelConfig(dropout=0.3, embedding_dropout=0.3),
        optim=OptimConfig(schedule=Schedule.constant, lr=1e-3, warmup=100),
        train=TrainConfig(max_tokens=max_tokens, max_updates=1_000_000, log_every=1_000_000),
    )


def trainer_for(config: RunConfig, folder: Path) -> Trainer:
    corpus = open_corpus(config.data)
    pairs = list(corpus.train())
    tokenizer = train_tokenizer(config.tokenizer, [s for s, _ in pairs], [t for _, t in pairs])
    store = build_store(pairs, tokenizer, config.data, folder / "store")
    config.model.source_vocab, config.model.target_vocab = (
        tokenizer.source_vocab,
        tokenizer.target_vocab,
    )
    plan = BatchPlan(store, config.train.max_tokens or 4096, config.seed)
    print(f"padding {plan.padding():.2%}, {len(plan.epoch(0))} batches an epoch")
    device = resolve_device("auto")
    reporter: Any = Silent()
    return Trainer(config, folder, plan, None, reporter, device)  # type: ignore[arg-type]


def measure(trainer: Trainer, updates: int, rounds: int) -> list[float]:
    """Target tokens per second in each round, after a round to warm up."""
    trainer.model.train()
    stream, speeds = trainer._updates(), []
    for round_ in range(rounds + 1):
        begin, before = time.perf_counter(), trainer.progress.tokens
        for _ in range(updates):
            trainer._update(next(stream))
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()
        if round_:
            seconds = time.perf_counter() - begin
            speeds.append((trainer.progress.tokens - before) / seconds)
    return speeds


def profile(trainer: Trainer) -> None:
    stream = trainer._updates()
    with torch.profiler.profile() as profiler:
        for _ in range(5):
            trainer._update(next(stream))
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="Multi30k folder")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--updates", type=int, default=10, help="in one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    keep_freed_memory()
    print(conditions())
    figures: dict[str, Any] = {"max_tokens": args.max_tokens, "corpus": args.root or "grammar"}
    for precision in args.precision:
        with TemporaryDirectory() as folder:
            config = configuration(args.root, precision, args.max_tokens)
            trainer = trainer_for(config, Path(folder))
            speeds = measure(trainer, args.updates, args.rounds)
            print(f"{precision}: {median(speeds):,.0f} target tokens/s (min {min(speeds):,.0f})")
            figures[precision] = {"tokens_per_second": speeds, "padding": trainer.plan.padding()}
            if args.profile:
                profile(trainer)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {figures['peak_mb']:,.0f} MB")
    print(save("training", figures))


if __name__ == "__main__":
    main()

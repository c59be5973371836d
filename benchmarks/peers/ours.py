"""This project, measured as the others are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inside import LENGTH, MAX_TOKENS, Job, Meter, main, timed

if TYPE_CHECKING:
    from venvs import Venv

TITLE = "seq2seq"
TRAINS, BEAMS = ("fp32", "bf16"), {"fp32": (1, 5), "bf16": (1, 5)}
PACKAGES = ("torch",)


def install(venv: Venv) -> None:
    """Nothing: the environment is the one that this runs in."""


def build(job: Job) -> tuple[Any, Any]:
    """A trainer, and the tokenizer that all share."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import torch
    from training import Silent, configuration

    from seq2seq.choices import DataKind
    from seq2seq.config import DataConfig
    from seq2seq.data.batching import BatchPlan
    from seq2seq.data.corpus import open_corpus
    from seq2seq.data.store import build_store
    from seq2seq.data.tokenizer import Tokenizer
    from seq2seq.device import keep_freed_memory
    from seq2seq.training.trainer import Trainer

    keep_freed_memory()  # as `seq2seq train` does
    config = configuration(None, job.precision, MAX_TOKENS)
    config.data = DataConfig(
        kind=DataKind.files,
        train_source=str(job.text("train", "en")),
        train_target=str(job.text("train", "de")),
        dev_source=str(job.text("dev", "en")),
        dev_target=str(job.text("dev", "de")),
    )
    tokenizer = Tokenizer.load(job.work, config.tokenizer.normalization)
    pairs = open_corpus(config.data).train()
    store = build_store(pairs, tokenizer, config.data, job.own / "store")
    config.model.source_vocab = config.model.target_vocab = tokenizer.target_vocab
    plan = BatchPlan(store, MAX_TOKENS, config.seed)
    trainer = Trainer(config, job.own, plan, None, Silent(), torch.device("cpu"))
    return trainer, tokenizer


def prepare(job: Job) -> None:
    build(job)


def train(job: Job) -> None:
    trainer, _ = build(job)
    meter = Meter(job)

    def count(_: Any, batches: list[Any]) -> tuple[int, int]:
        return sum(b.tokens for b in batches), sum(b.target_out.numel() for b in batches)

    meter.watch(type(trainer), "_update", count)
    trainer.model.train()
    for batches in trainer._updates():
        trainer._update(batches)


def decode(job: Job) -> dict[str, Any]:
    from seq2seq.choices import Precision
    from seq2seq.decoding.translator import Translator
    from seq2seq.device import DTYPES

    trainer, tokenizer = build(job)
    model = trainer.model.to(DTYPES[Precision(job.precision)])  # as `load_run` does
    translator = Translator(model, tokenizer)
    lines = job.text("test", "en").read_text(encoding="utf-8").split("\n")[: job.sentences]
    forced = {"max_len_a": 0.0, "max_len_b": LENGTH, "min_len": LENGTH}

    def translate(count: int) -> list[int]:
        found = translator.translate(lines[:count], beam=job.beam, **forced)
        return [len(output.tokens) - 1 for output in found]

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)

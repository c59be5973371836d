"""All figures of one GPU in at most eight minutes.

    .venv/bin/python benchmarks/gpu.py --root MULTI30K_DIR           # on a GPU
    .venv/bin/python benchmarks/gpu.py --root MULTI30K_DIR --smoke   # anywhere, to see that it runs

In turn: what the device multiplies at best; training speed of the base model, its share of that
(model FLOPs utilisation) and how long the device stood idle; a model trained for some minutes on
Multi30k; its BLEU; its decoding speed, greedy and beam 5, in fp32 and in half precision.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common import conditions, median, save
from decoding import sentences_per_second
from torch.utils.flop_counter import FlopCounterMode
from training import measure, trainer_for

from seq2seq.choices import DataKind, Precision, Schedule, SubwordKind
from seq2seq.config import (
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    TokenizerConfig,
    TrainConfig,
)
from seq2seq.data.corpus import open_corpus
from seq2seq.decoding.translator import Translator
from seq2seq.device import resolve_device, resolve_precision
from seq2seq.training.trainer import Trainer

# What one GPU and a smoke test do: base model or tiny, positions of a batch, updates of a round.
SIZES = {
    False: {"tokens": 25_000, "updates": 20, "minutes": 3.0, "lines": 1000, "matrix": 8192},
    True: {"tokens": 512, "updates": 2, "minutes": 0.1, "lines": 20, "matrix": 512},
}
BASE = {"d_model": 512, "d_ff": 2048, "encoder_layers": 6, "decoder_layers": 6}


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best_rate(device: torch.device, precision: Precision, size: int) -> float:
    """TFLOP/s of a large square matrix product in `precision`."""
    dtype = {Precision.bf16: torch.bfloat16, Precision.fp16: torch.float16}.get(precision)
    a = torch.randn(size, size, device=device, dtype=dtype or torch.float32)
    rates = []
    for _ in range(12):
        synchronise(device)
        begin = time.perf_counter()
        a @ a
        synchronise(device)
        rates.append(2 * size**3 / (time.perf_counter() - begin) / 1e12)
    return median(rates[2:])


def configuration(root: str, precision: Precision, tokens: int, smoke: bool) -> RunConfig:
    heads = {"encoder_heads": 8, "decoder_heads": 8}
    model = ModelConfig() if smoke else ModelConfig(**BASE, **heads)
    return RunConfig(
        precision=precision,
        data=DataConfig(kind=DataKind.multi30k, root=root),
        tokenizer=TokenizerConfig(kind=SubwordKind.bpe, vocab_size=8000),
        model=model,
        optim=OptimConfig(schedule=Schedule.constant, lr=1e-4, warmup=100),
        train=TrainConfig(max_tokens=tokens, max_updates=1_000_000, log_every=1_000_000),
    )


def flops_of_an_update(trainer: Trainer) -> tuple[float, int]:
    """FLOPs of the matrix products of one update, by PyTorch's counter, and its target tokens."""
    batches = next(trainer._updates())
    with FlopCounterMode(display=False) as counter:
        trainer._update(batches)
    return counter.get_total_flops(), sum(batch.tokens for batch in batches)


def busy_share(trainer: Trainer, updates: int) -> tuple[float | None, str]:
    """Share of the time in which the GPU computed, and the operations that took most of it."""
    stream = trainer._updates()
    trainer._update(next(stream))
    synchronise(trainer.device)
    with torch.profiler.profile() as profiler:
        begin = time.perf_counter()
        for _ in range(updates):
            trainer._update(next(stream))
        synchronise(trainer.device)
        wall = time.perf_counter() - begin
    averages = profiler.key_averages()
    cuda = trainer.device.type == "cuda"
    busy = sum(event.self_device_time_total for event in averages) / 1e6
    key = "self_device_time_total" if cuda else "self_cpu_time_total"
    return (busy / wall if cuda else None), averages.table(sort_by=key, row_limit=15)


def training(root: str, device: torch.device, precision: Precision, smoke: bool) -> dict[str, Any]:
    size = SIZES[smoke]
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(root, precision, int(size["tokens"]), smoke)
        trainer = trainer_for(config, Path(folder))
        trainer.model.train()
        speeds = measure(trainer, int(size["updates"]), 1 if smoke else 5)
        flops, tokens = flops_of_an_update(trainer)
        busy, table = busy_share(trainer, 2 if smoke else 10)
    rate = median(speeds) / tokens * flops / 1e12
    peak = best_rate(device, precision, int(size["matrix"]))
    print(table)
    print(f"training {precision.value}: {median(speeds):,.0f} target tokens/s")
    print(f"  {rate:.1f} TFLOP/s of {peak:.1f} measured at best: utilisation {rate / peak:.0%}")
    if busy is not None:
        print(f"  the GPU computed {busy:.0%} of the time")
        print(f"  peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    return {
        "tokens_per_second": speeds,
        "tflops": rate,
        "best_matmul_tflops": peak,
        "utilisation": rate / peak,
        "gpu_busy": busy,
        "batch_tokens": size["tokens"],
    }


def quality(root: str, runs: Path, smoke: bool) -> dict[str, Any]:
    """BLEU after some minutes of experiment=multi30k; the run stays in `runs`."""
    minutes = SIZES[smoke]["minutes"]
    command = [sys.executable, "-m", "seq2seq", "train", "--name", "gpu", "experiment=multi30k"]
    command += [f"data.root={root}", f"runs={runs}", f"train.max_minutes={minutes}"]
    command += ["train.dev_limit=20"] if smoke else ["train.max_tokens=4096", "optim.lr=3e-3"]
    subprocess.run(command, check=True)
    found: dict[str, Any] = {"minutes": minutes}
    for name, beam in (("beam_5", 5), ("greedy", 1)):
        command = [sys.executable, "-m", "seq2seq", "evaluate", "--run", str(runs / "gpu")]
        command += ["--split", "test", "--beam", str(beam), "--json"]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        found[name] = json.loads(result.stdout)
    return found


def decoding(root: str, run: Path, smoke: bool) -> dict[str, Any]:
    lines = [
        source for source, _ in open_corpus(DataConfig(kind=DataKind.multi30k, root=root)).test
    ]
    lines = lines[: int(SIZES[smoke]["lines"])]
    found = {}
    for precision in ("fp32", "auto"):
        translator = Translator.from_pretrained(run, precision=precision)
        for beam in (1, 5):
            options = {"beam": beam, "batch_tokens": 4096 if smoke else 65_536}
            speeds = sentences_per_second(translator, lines, options, rounds=1 if smoke else 5)
            print(f"decoding {precision}, beam {beam}: {median(speeds):,.1f} sentences/s")
            found[f"{precision}_beam_{beam}"] = speeds
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True, help="Multi30k folder")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, on any device")
    args = parser.parse_args()
    device = resolve_device("auto")
    if device.type != "cuda" and not args.smoke:
        raise SystemExit("No GPU here: give --smoke to see that the script runs.")
    precision = resolve_precision(Precision.auto, device)
    print(conditions(), flush=True)
    begin = time.perf_counter()
    figures: dict[str, Any] = {"smoke": args.smoke, "precision": precision.value}
    figures["training"] = training(args.root, device, precision, args.smoke)
    with tempfile.TemporaryDirectory() as folder:
        figures["quality"] = quality(args.root, Path(folder), args.smoke)
        figures["decoding"] = decoding(args.root, Path(folder) / "gpu", args.smoke)
    figures["minutes"] = (time.perf_counter() - begin) / 60
    print(f"{figures['minutes']:.1f} minutes")
    print(save("gpu-smoke" if args.smoke else "gpu", figures))


if __name__ == "__main__":
    main()

"""How time grows: attention with length and heads, decoding with length, training with the corpus.

    .venv/bin/python benchmarks/scaling.py attention     # n and h at fixed width
    .venv/bin/python benchmarks/scaling.py decoding      # seconds a step against output length
    .venv/bin/python benchmarks/scaling.py corpus        # tokens/s, memory: 10 k, 1 M pairs

Each figure is a median. `corpus` first prepares a million pairs (some minutes; kept under --cache).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import conditions, interleaved, median, save

from seq2seq.config import ModelConfig
from seq2seq.model.attention import MultiHeadAttention, scaled_dot_product_attention
from seq2seq.model.transformer import Transformer


def attention(repeats: int) -> dict[str, Any]:
    """Seconds of Q Kᵀ, softmax and A V, without the projections, at d_model 512."""
    width, lengths, heads = 512, (256, 512, 1024, 2048), (1, 2, 4, 8, 16)
    found: dict[str, Any] = {"d_model": width}
    with torch.inference_mode():

        def candidate(length: int, head_count: int) -> Any:
            module = MultiHeadAttention(width, head_count).eval()
            x = torch.randn(1, length, width)
            kv, query = module.project_kv(x), module.project_q(x)
            return lambda: scaled_dot_product_attention(query, *kv)

        by_length = interleaved({str(n): candidate(n, 8) for n in lengths}, repeats)
        by_heads = interleaved({str(h): candidate(1024, h) for h in heads}, repeats)
    print("\nfused attention without projections, d_model 512")
    base = median(by_length[str(lengths[0])]) / lengths[0] ** 2
    for n in lengths:
        t = median(by_length[str(n)])
        print(f"  h=8  n={n:5}  {t * 1e3:8.2f} ms   time / n² against n=256: {t / n**2 / base:.2f}")
    alone = median(by_heads["1"])
    for h in heads:
        t = median(by_heads[str(h)])
        print(f"  n=1024  h={h:2}  {t * 1e3:8.2f} ms   against one head: {t / alone:.2f}")
    return found | {"by_length": by_length, "by_heads": by_heads}


def decoding(repeats: int) -> dict[str, Any]:
    """Milliseconds a step of cached greedy decoding, for outputs of several lengths."""
    torch.manual_seed(0)
    config = ModelConfig(source_vocab=8000, target_vocab=8000)
    model = Transformer(config).eval()
    source = torch.randint(4, 8000, (32, 20))

    def run(length: int) -> Any:
        def steps() -> None:
            with torch.inference_mode():
                state = model.start(source, max_len=length)
                last = torch.full((32, 1), 2)
                for _ in range(length):
                    last = model.step(last, state)[:, 0].argmax(-1, keepdim=True)

        return steps

    lengths = (16, 32, 64, 128, 256)
    times = interleaved({str(n): run(n) for n in lengths}, repeats)
    print("\ngreedy decoding with cache, 32 sentences of 20 pieces, m30k-small")
    for n in lengths:
        print(f"  {n:4} pieces  {median(times[str(n)]) / n * 1e3:6.2f} ms a step")
    return {"seconds": times}


def corpus(sizes: list[int], cache: Path, updates: int) -> dict[str, Any]:
    """Speed and peak memory of `seq2seq train` on generated corpora of several sizes.

    The first run of each size prepares the text, the second is measured.
    """
    found = {}
    print("\ntraining on generated pairs, model=tiny, 1,024-token batches")
    for size in sizes:
        for name, count in (("prepare", 1), ("measure", updates)):
            run = cache / f"{name}-{size}"
            shutil.rmtree(run, ignore_errors=True)
            peak = train(run, size, count)
        lines = (cache / f"measure-{size}" / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        speeds = [r["tokens_per_second"] for r in records if "tokens_per_second" in r]
        found[str(size)] = {"tokens_per_second": speeds[2:], "peak_mb": peak}
        print(f"  {size:9,} pairs  {median(speeds[2:]):7,.0f} target tokens/s  peak {peak:,.0f} MB")
    return found


def train(run: Path, pairs: int, updates: int) -> float:
    """Run the command; returns its peak memory in MB."""
    options = {
        "runs": run.parent,
        "data.grammar_pairs": pairs,
        "data.cache": run.parent / "cache",
        "tokenizer.vocab_size": 3000,
        "tokenizer.sample": 10_000,
        "model": "tiny",
        "precision": "fp32",
        "optim.lr": 1e-3,
        "train.max_tokens": 1024,
        "train.max_updates": updates,
        "train.log_every": 20,
        "train.validate_every": updates,
        "train.dev_limit": 1,
    }
    command = [sys.executable, "-m", "seq2seq", "train", "--name", run.name]
    command += [f"{name}={value}" for name, value in options.items()]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["attention", "decoding", "corpus"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "seq2seq-scaling"
    )
    args = parser.parse_args()
    print(conditions())
    if args.what == "corpus":
        figures = corpus(args.pairs, args.cache, args.updates)
    else:
        figures = {"attention": attention, "decoding": decoding}[args.what](args.repeats)
    print(save(f"scaling-{args.what}", figures))


if __name__ == "__main__":
    main()

"""How time grows: attention with length and heads, decoding with length, training with the corpus.

    .venv/bin/python benchmarks/scaling.py attention     # n and h at fixed width
    .venv/bin/python benchmarks/scaling.py decoding      # seconds a step against output length
    .venv/bin/python benchmarks/scaling.py corpus        # tokens/s and memory, 10 k against 1 M pairs

Each figure is the median of interleaved runs. `corpus` prepares a million pairs (some minutes, once;
kept under --cache) and trains for some seconds on each size, every size in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import conditions, interleaved, median, save
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
from seq2seq.device import keep_freed_memory
from seq2seq.model.attention import MultiHeadAttention
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
            return lambda: torch.nn.functional.scaled_dot_product_attention(query, *kv)

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


def corpus(pairs: tuple[int, ...], cache: str, updates: int) -> dict[str, Any]:
    """Training speed and peak memory by corpus size, each in a process of its own."""
    found = {}
    print("\ntraining on generated pairs, 1,024-token batches")
    for count in pairs:
        command = [sys.executable, __file__, "corpus-worker", "--pairs", str(count)]
        command += ["--cache", cache, "--updates", str(updates)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        found[str(count)] = one = json.loads(result.stdout.splitlines()[-1])
        speed, memory = median(one["tokens_per_second"]), one["peak_mb"]
        print(f"  {count:9,} pairs  {speed:7,.0f} target tokens/s  peak {memory:,.0f} MB")
    return found


def corpus_worker(pairs: int, cache: str, updates: int) -> None:
    keep_freed_memory()
    config = RunConfig(
        precision=Precision.fp32,
        data=DataConfig(kind=DataKind.grammar, grammar_pairs=pairs, cache=cache),
        tokenizer=TokenizerConfig(kind=SubwordKind.bpe, vocab_size=3000, sample=100_000),
        model=ModelConfig(d_model=128, d_ff=512, encoder_layers=2, decoder_layers=2),
        optim=OptimConfig(schedule=Schedule.constant, lr=1e-3, warmup=100),
        train=TrainConfig(max_tokens=1024, max_updates=1_000_000, log_every=1_000_000),
    )
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        trainer = trainer_for(config, Path(folder))
        prepared = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        speeds = measure(trainer, updates, 5)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = {"start_mb": before, "prepared_mb": prepared, "peak_mb": peak}
    figures = {name: value / 1024 for name, value in figures.items()}
    print(json.dumps({"tokens_per_second": speeds} | figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["attention", "decoding", "corpus", "corpus-worker"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--updates", type=int, default=40, help="in each of five rounds")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "seq2seq-scaling"))
    args = parser.parse_args()
    if args.what == "corpus-worker":
        return corpus_worker(args.pairs[0], args.cache, args.updates)
    print(conditions())
    if args.what == "corpus":
        figures = corpus(tuple(args.pairs), args.cache, args.updates)
    else:
        figures = {"attention": attention, "decoding": decoding}[args.what](args.repeats)
    print(save(f"scaling-{args.what}", figures))
    return None


if __name__ == "__main__":
    main()

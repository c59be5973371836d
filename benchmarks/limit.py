"""The machine's limit: how fast it multiplies the matrices of the model, and what that allows.

    .venv/bin/python benchmarks/limit.py [--threads 2]

A system that did nothing but its matrix products, without padding, would train on so many target
tokens a second and decode so many sentences. The model is "m30k-small" (see training.py).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from common import conditions, save

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PEAK = (4096, 4096, 4096)


@dataclass(frozen=True)
class Work:
    """The model, and the text that it works on.

    Attributes:
        source: mean positions of a training source sentence, end of sentence included.
        target: likewise of a target sentence.
        test_source: likewise of a source sentence to decode.
        output: pieces of every output.
    """

    source: float = 15.28
    target: float = 15.77
    test_source: float = 15.18
    output: int = 16
    layers: int = 3
    d_model: int = 256
    d_ff: int = 1024
    vocabulary: int = 8000
    tokens: int = 4096

    @property
    def encoder(self) -> float:
        """Multiply-adds of the encoder's matrices for a source position."""
        return self.layers * (4 * self.d_model**2 + 2 * self.d_model * self.d_ff)

    @property
    def memory(self) -> float:
        """Of the decoder's keys and values of a source position."""
        return self.layers * 2 * self.d_model**2

    @property
    def decoder(self) -> float:
        """Of the decoder's other matrices for a target position, and of the output layer."""
        layer = 6 * self.d_model**2 + 2 * self.d_model * self.d_ff
        return self.layers * layer + self.d_model * self.vocabulary

    @property
    def attention(self) -> float:
        """Of scores and weighted sums of all attention in training, for a target position."""
        pairs = self.source**2 + self.target**2 + self.source * self.target
        return self.layers * 2 * self.d_model * pairs / self.target

    @property
    def training(self) -> float:
        """Of one forward pass, for a target token that is not padding."""
        source = (self.encoder + self.memory) * self.source / self.target
        return source + self.decoder + self.attention

    def decoding(self, beam: int) -> float:
        """Of the decoding of one sentence: its matrices, without attention and search."""
        source = (self.encoder + self.memory) * self.test_source
        return source + self.decoder * self.output * beam

    def products(self) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """How often each product [m, k] x [k, n] occurs in a forward pass of a batch."""
        source = round(self.tokens * self.source / self.target)
        square, wide = (self.d_model, self.d_model), (self.d_model, self.d_ff)
        yield self.layers * 6, (source, *square)  # 4 of the encoder, keys and values of memory
        yield self.layers * 6, (self.tokens, *square)
        for rows in (source, self.tokens):
            yield self.layers, (rows, *wide)
            yield self.layers, (rows, *reversed(wide))
        yield 1, (self.tokens, self.d_model, self.vocabulary)


def seconds(m: int, k: int, n: int, dtype: torch.dtype, budget: float) -> float:
    """Shortest time of a product [m, k] x [k, n]."""
    left, right = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    for _ in range(3):  # warm up
        left @ right
    best, end, runs = float("inf"), time.perf_counter() + budget, 0
    while runs < 3 or time.perf_counter() < end:  # on a busy machine three may take longer
        begin = time.perf_counter()
        left @ right
        best, runs = min(best, time.perf_counter() - begin), runs + 1
    return best


def measure(work: Work, dtype: torch.dtype, budget: float = 0.15) -> dict[str, Any]:
    """Rates in GFLOP/s, and what they allow at most."""
    spent = flops = 0.0
    for times, (m, k, n) in work.products():
        # Forward, and backward the gradients of the input and of the weight.
        for shape in ((m, k, n), (m, n, k), (k, m, n)):
            spent += times * seconds(*shape, dtype, budget)
            flops += times * 2.0 * m * k * n
    m, k, n = PEAK
    blended, peak = flops / spent, 2.0 * m * k * n / seconds(m, k, n, dtype, 1.0)
    return {
        "gflops": round(blended / 1e9, 1),
        "peak_gflops": round(peak / 1e9, 1),
        "tokens_per_second": round(blended / (6 * work.training)),
        "sentences_per_second": {
            str(beam): round(blended / (2 * work.decoding(beam)), 1) for beam in (1, 5)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, help="default: PyTorch's choice")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    print(conditions())
    work = Work()
    figures: dict[str, Any] = {"multiply_adds_per_token": round(work.training)}
    for name, dtype in DTYPES.items():
        figures[name] = found = measure(work, dtype)
        print(
            f"{name}: {found['gflops']:,.0f} GFLOP/s on the model's shapes "
            f"(peak {found['peak_gflops']:,.0f}): at most {found['tokens_per_second']:,} target "
            f"tokens/s; decoding {found['sentences_per_second']} sentences/s by beam"
        )
    print(save("limit", figures))


if __name__ == "__main__":
    main()

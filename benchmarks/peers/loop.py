"""The training loop that people write themselves: shuffled batches of a fixed number of pairs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from inside import (
    BOS,
    CLIP,
    EOS,
    MAX_TOKENS,
    PAD,
    RATE,
    SMOOTHING,
    WARM_UP_UPDATES,
    Job,
    Meter,
)
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence


def pad(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def batches(job: Job) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Source, decoder input and decoder output [B, ·], endlessly; B for about MAX_TOKENS."""
    source, target = job.ids("train", "en"), job.ids("train", "de")
    size = round(MAX_TOKENS * len(target) / sum(len(line) + 1 for line in target))
    order = list(range(len(target)))
    while True:
        random.shuffle(order)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield (
                pad([[*source[i], EOS] for i in chosen]),
                pad([[BOS, *target[i]] for i in chosen]),
                pad([[*target[i], EOS] for i in chosen]),
            )


def train(job: Job, model: Any, logits: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Train `model`, whose `logits` are of source and decoder input, until time is up."""
    meter = Meter(job)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    warm_up = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: min(1.0, (update + 1) / WARM_UP_UPDATES)
    )
    model.train()
    for source, target_in, target_out in batches(job):
        with torch.autocast("cpu", torch.bfloat16) if job.precision == "bf16" else nullcontext():
            scores = logits(source, target_in)
            loss = cross_entropy(
                scores.flatten(0, 1),
                target_out.flatten(),
                ignore_index=PAD,
                label_smoothing=SMOOTHING,
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        warm_up.step()
        meter.update(int((target_out != PAD).sum()), target_out.numel())

"""Batches of similar length within a token budget; the order is a pure function of (seed, epoch).

That function is what makes resuming exact: (epoch, batch number) is the whole position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.config import BOS, EOS, PAD
from seq2seq.data.store import TokenStore


@dataclass(frozen=True)
class Batch:
    """Padded ids, ready for the model."""

    source: Tensor  # [B, S]: pieces, end of sentence
    target_in: Tensor  # [B, T]: begin of sentence, pieces
    target_out: Tensor  # [B, T]: pieces, end of sentence
    tokens: int  # target tokens that are not padding

    def pin(self) -> Batch:
        """The same in page-locked memory, from which a GPU takes it without the CPU waiting."""
        return Batch(
            self.source.pin_memory(),
            self.target_in.pin_memory(),
            self.target_out.pin_memory(),
            self.tokens,
        )

    def to(self, device: torch.device) -> Batch:
        """The same on `device`."""
        return Batch(
            self.source.to(device, non_blocking=True),
            self.target_in.to(device, non_blocking=True),
            self.target_out.to(device, non_blocking=True),
            self.tokens,
        )


def make_batch(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    """Pad pairs of piece ids (without begin and end) into a batch."""
    return Batch(
        source=pad([[*ids, EOS] for ids in sources]),
        target_in=pad([[BOS, *ids] for ids in targets]),
        target_out=pad([[*ids, EOS] for ids in targets]),
        tokens=sum(len(ids) + 1 for ids in targets),
    )


def pad(rows: list[list[int]]) -> Tensor:
    """Rows of ids as one matrix [B, longest], padded on the right.

    >>> pad([[5], [6, 7]]).tolist()
    [[5, 0], [6, 7]]
    """
    matrix = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for line, row in zip(matrix, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(matrix)


EMPTY = Batch(torch.tensor([[EOS]]), torch.tensor([[BOS]]), torch.tensor([[PAD]]), tokens=0)
"""A batch without a word to learn from: its loss and gradient are 0."""


def plan_epoch(
    source: NDArray[np.int64], target: NDArray[np.int64], max_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Which pairs form each batch of an epoch.

    Pairs are sorted by target length, then by source length (up and down in turn, so that
    neighbours stay alike where the target length changes), cut where the budget is full, and the
    batches shuffled. Ties are in random order, so that batches differ from epoch to epoch.

    Args:
        source: model lengths of every pair, end of sentence included, [N].
        target: likewise.
        max_tokens: budget of each side of a batch, padding included. A pair longer than it forms a
            batch of its own.
        seed: of the run.
        epoch: number, from 0.

    Returns:
        Index arrays; every pair is in exactly one.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    shuffled = random.permutation(len(target))
    up_or_down = np.where(target[shuffled] % 2 == 0, 1, -1) * source[shuffled]
    order = shuffled[np.lexsort((up_or_down, target[shuffled]))]
    longest = np.maximum(source, target)[order]
    batches, start, width = [], 0, 0
    for end, length in enumerate(longest.tolist()):
        width = max(width, length)
        if end > start and width * (end + 1 - start) > max_tokens:
            batches.append(order[start:end])
            start, width = end, length
    if start < len(order):
        batches.append(order[start:])
    return [batches[i] for i in random.permutation(len(batches))]


class BatchPlan:
    """The batches of a store, epoch by epoch.

    Args:
        store: the training pairs.
        max_tokens: see `plan_epoch`.
        seed: of the run.
    """

    def __init__(self, store: TokenStore, max_tokens: int, seed: int) -> None:
        self.store = store
        self.max_tokens = max_tokens
        self.seed = seed
        self._lengths = (store.lengths(0) + 1, store.lengths(1) + 1)

    @property
    def identity(self) -> str:
        """Equal for plans with the same batches in every epoch."""
        return f"{self.store.name} {self.max_tokens} {self.seed}"

    def epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        """Index arrays of the batches of one epoch, in order."""
        return plan_epoch(*self._lengths, self.max_tokens, self.seed, epoch)

    def load(self, pairs: NDArray[np.int64]) -> Batch:
        """Read these pairs from the store."""
        sides = [[self.store.sentence(side, i).tolist() for i in pairs] for side in (0, 1)]
        return make_batch(sides[0], sides[1])

    def padding(self, epoch: int = 0) -> float:
        """Share of the target positions of an epoch that are padding."""
        target = self._lengths[1]
        positions = sum(int(target[batch].max()) * len(batch) for batch in self.epoch(epoch))
        return 1.0 - float(target.sum()) / positions

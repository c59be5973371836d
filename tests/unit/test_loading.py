"""Batches dealt to updates and ranks: each once, in the plan's order, read ahead or not."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from seq2seq.data.batching import Batch
from seq2seq.training.distributed import World
from seq2seq.training.loading import BatchLoader

CPU = torch.device("cpu")


class Numbers:
    """A plan of seven batches, each of which holds its own number."""

    def __init__(self) -> None:
        self.readers: set[str] = set()

    def epoch(self, epoch: int) -> list[np.ndarray]:
        return [np.array([10 * epoch + i]) for i in range(7)]

    def load(self, pairs: np.ndarray) -> Batch:
        self.readers.add(threading.current_thread().name)
        ids = torch.tensor([pairs.tolist()])
        return Batch(ids, ids, ids, tokens=1)


def dealt(loader: BatchLoader, epoch: int, start: int) -> list[list[int | None]]:
    return [
        [int(batch.source) if batch.tokens else None for batch in batches]
        for batches in loader.epoch(epoch, start)
    ]


def loader(plan: Numbers, accumulate: int, rank: int = 0, size: int = 1) -> BatchLoader:
    world = World()
    world.rank, world.size = rank, size
    return BatchLoader(plan, accumulate, world, CPU)  # type: ignore[arg-type]


def test_one_rank_takes_all_from_where_it_starts() -> None:
    assert dealt(loader(Numbers(), 2), 1, 0) == [[10, 11], [12, 13], [14, 15], [16]]
    assert dealt(loader(Numbers(), 2), 0, 4) == [[4, 5], [6]]
    assert dealt(loader(Numbers(), 1), 0, 7) == []
    assert loader(Numbers(), 3).length(0) == 7


def test_ranks_share_each_update_and_none_is_left_without() -> None:
    assert dealt(loader(Numbers(), 1, 0, 2), 0, 0) == [[0], [2], [4], [6]]
    assert dealt(loader(Numbers(), 1, 1, 2), 0, 0) == [[1], [3], [5], [None]]


@pytest.mark.parametrize("start", [0, 2, 6, 7])
def test_reading_ahead_gives_the_same_from_another_thread(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Batch, "pin", lambda self: self)  # pinning needs a GPU
    plan = Numbers()
    ahead = loader(plan, 2)
    ahead.is_ahead = True
    assert dealt(ahead, 0, start) == dealt(loader(Numbers(), 2), 0, start)
    assert all(name.startswith("batches") for name in plan.readers)


def test_leaving_in_the_middle_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "pin", lambda self: self)
    ahead = loader(Numbers(), 1)
    ahead.is_ahead = True
    stream = ahead.epoch(0, 0)
    next(stream)
    stream.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("batches")]

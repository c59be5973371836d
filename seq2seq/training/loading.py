"""The batches of each update, for one of several ranks; read ahead where a GPU would wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq.data.batching import EMPTY, Batch, BatchPlan
from seq2seq.training.distributed import World


class BatchLoader:
    """Deals the batches of a plan to updates and ranks, and brings them to the device.

    Args:
        plan: all batches.
        accumulate: batches an update on each rank.
        world: the ranks.
        device: of this rank. For a GPU, a thread reads the next update's batches into pinned
            memory while the GPU computes; otherwise reading takes no time to speak of.
    """

    def __init__(
        self, plan: BatchPlan, accumulate: int, world: World, device: torch.device
    ) -> None:
        self.plan = plan
        self.size = accumulate * world.size  # batches of an update
        self.world = world
        self.device = device
        self.is_ahead = device.type == "cuda"

    def length(self, epoch: int) -> int:
        """Batches of an epoch, of all ranks together."""
        return len(self.plan.epoch(epoch))

    def epoch(self, epoch: int, start: int) -> Iterator[list[Batch]]:
        """This rank's batches for one update after another, from batch number `start` on."""
        plan = self.plan.epoch(epoch)
        updates = [plan[i : i + self.size] for i in range(start, len(plan), self.size)]
        ready = self._read_ahead(updates) if self.is_ahead else map(self._read, updates)
        for batches in ready:
            yield [batch.to(self.device) for batch in batches]

    def _read(self, chosen: list[NDArray[np.int64]]) -> list[Batch]:
        rank, ranks = self.world.rank, self.world.size
        mine = [self.plan.load(pairs) for pairs in chosen[rank::ranks]]
        if rank >= len(chosen) % ranks > 0:  # all ranks must compute together
            mine.append(EMPTY)
        return [batch.pin() for batch in mine] if self.is_ahead else mine

    def _read_ahead(self, updates: list[list[NDArray[np.int64]]]) -> Iterator[list[Batch]]:
        if not updates:
            return
        with ThreadPoolExecutor(1, "batches") as reader:
            coming = [reader.submit(self._read, chosen) for chosen in updates[:1]]
            for following in [*updates[1:], None]:
                batches = coming.pop().result()
                if following is not None:
                    coming.append(reader.submit(self._read, following))
                yield batches

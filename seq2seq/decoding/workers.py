"""Batches side by side: on a CPU, one thread a batch is faster than all threads on one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

# More would wait for each other: Python itself starts operations one at a time.
MOST_WORKERS = 8


def worker_count(device: torch.device) -> int:
    """How many batches to work on at once; a GPU is filled by one."""
    return min(torch.get_num_threads(), MOST_WORKERS) if device.type == "cpu" else 1


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> Iterator[tuple[Item, Result]]:
    """`work` of every item, in the order in which they get done.

    A decoding step is a chain of small operations. Split over threads, each of them ends with the
    threads waiting for the slowest; whole batches wait for nothing. PyTorch's threads are shared
    out among the workers meanwhile.

    Args:
        work: does one item; is called from several threads at once. What it raises is raised here,
            after the items begun have ended; the others are left out.
        items: in the order to begin them.
        workers: how many at once.
    """
    workers = min(workers, len(items))
    if workers < 2:
        for item in items:
            yield item, work(item)
        return
    threads = torch.get_num_threads()
    share = max(1, threads // workers)
    torch.set_num_threads(share)
    try:
        with ThreadPoolExecutor(workers, "decode", torch.set_num_threads, (share,)) as pool:
            futures = {pool.submit(work, item): item for item in items}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        torch.set_num_threads(threads)

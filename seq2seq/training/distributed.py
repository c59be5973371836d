"""Several processes that train one model: who is who, what they agree on, and how they end.

`torchrun` starts the processes (ranks) and tells each its number in the environment. Numbers and
decisions travel over gloo on the CPU; gradients over NCCL where the model is on a GPU.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from seq2seq.device import resolve_device
from seq2seq.errors import UserError

T = TypeVar("T")

TIMEOUT = datetime.timedelta(minutes=30)  # for a rank that hangs; one that dies is noticed at once
FAILED = "failed"


class World:
    """All processes of a training run, as one of them sees them; by itself, a world of one.

    Every method but `device` must be called by all ranks in the same order.
    """

    rank: int = 0
    size: int = 1
    is_main: bool = True

    def device(self, name: str) -> torch.device:
        """The device of this rank; see `resolve_device`."""
        return resolve_device(name)

    def sum(self, *numbers: float) -> list[float]:
        """The sum over all ranks of each of some numbers, in float64; the same on all ranks."""
        return list(numbers)

    def same(self, value: T) -> T:
        """The value that rank 0 has."""
        return value

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        return [value]

    @contextlib.contextmanager
    def main_first(self) -> Iterator[None]:
        """Rank 0 runs the block, then the others do; they may find what it wrote."""
        yield


class Ranks(World):
    """Two or more processes.

    Args:
        store: what they share besides the process group; it answers at any time.
        local_rank: number of this process among those of its machine.
    """

    def __init__(self, store: dist.Store, local_rank: int) -> None:  # type: ignore[name-defined]
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.is_main = self.rank == 0
        self.store = dist.PrefixStore("seq2seq", store)  # type: ignore[attr-defined]
        self.local_rank = local_rank
        self._blocks = 0

    def device(self, name: str) -> torch.device:
        """The CPU, or for each rank of a machine a GPU of its own.

        Raises:
            UserError: a device that cannot be shared out.
        """
        device = resolve_device(name)
        if device.type == "cpu":
            return device
        if device.type != "cuda" or device.index is not None:
            raise UserError(
                f"device={name} is one device, but {self.size} processes train: use device=cuda, "
                "which gives each a GPU of its own, or cpu."
            )
        count = torch.cuda.device_count()
        if self.local_rank >= count:
            raise UserError(
                f"There are more processes here than GPUs: start torchrun with "
                f"--nproc-per-node {count}, or use device=cpu."
            )
        device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(device)
        return device

    def sum(self, *numbers: float) -> list[float]:
        """See `World.sum`."""
        total = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def same(self, value: T) -> T:
        """See `World.same`."""
        values = [value]
        dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def gather(self, value: T) -> list[T]:
        """See `World.gather`."""
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value)
        return values

    @contextlib.contextmanager
    def main_first(self) -> Iterator[None]:
        """See `World.main_first`; waiting has no time limit, for large texts take their time."""
        self._blocks += 1
        done = f"block {self._blocks}"
        while not self.is_main and not self.store.check([done]):
            if self.store.check([FAILED]):
                raise SystemExit(1)
            time.sleep(0.1)
        yield
        if self.is_main:
            self.store.set(done, "")

    def is_first_to_fail(self) -> bool:
        """Tell the others that this rank ends; whether none has told so before."""
        try:
            return self.store.add(FAILED, 1) == 1
        except dist.DistError:  # the rank that kept the store has ended already
            return False


@contextlib.contextmanager
def join_world() -> Iterator[World]:
    """Join the processes that torchrun started; without torchrun, a world of one.

    Only rank 0 is heard: the others say what it says. Of an error that several ranks meet, or that
    one meets because another has ended, only the first is told. A rank that fails waits for nobody,
    so that torchrun notices and ends the others.
    """
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE") == "1":
        yield World()
        return
    store, rank, size = next(rendezvous("env://"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    world = Ranks(store, int(os.environ.get("LOCAL_RANK", "0")))
    try:
        with contextlib.nullcontext() if world.is_main else _mute():
            yield world
    except SystemExit:
        raise
    except BaseException as error:
        if not world.is_first_to_fail():
            raise SystemExit(2 if isinstance(error, UserError) else 1) from None
        raise
    dist.destroy_process_group()


@contextlib.contextmanager
def _mute() -> Iterator[None]:
    """Nothing that Python writes to stdout or stderr is seen; a traceback after the block is."""
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield

"""Which device computes, and in which arithmetic."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from seq2seq.choices import Precision
from seq2seq.errors import UserError

DTYPES = {
    Precision.fp32: torch.float32,
    Precision.tf32: torch.float32,
    Precision.bf16: torch.bfloat16,
    Precision.fp16: torch.float16,
}


def resolve_device(name: str) -> torch.device:
    """A device from its name; `auto` takes the first of CUDA, MPS (Apple) and the CPU.

    Raises:
        UserError: no such device here.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError):
        device = torch.device("meta")
    if device.type == "meta":  # which computes nothing
        raise UserError(f"device={name} is not available here: use auto, cpu, cuda or mps.")
    return device


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """What `auto` means on `device`: bf16 where it is clearly faster at matrix products.

    CPUs differ: some multiply bf16 at twice the speed of float32, some at half. A measurement of a
    few milliseconds decides.

    Raises:
        UserError: fp16 on a CPU, which has no loss scaling here; tf32 on anything but CUDA.
    """
    if precision is Precision.fp16 and device.type == "cpu":
        raise UserError("precision=fp16 needs a GPU: use bf16 or fp32 on a CPU.")
    if precision is Precision.tf32 and device.type != "cuda":
        raise UserError("precision=tf32 is arithmetic of NVIDIA GPUs: use fp32 or bf16 here.")
    if precision is not Precision.auto:
        return precision
    if device.type == "cuda":
        # Older GPUs only emulate bf16, slowly.
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
        return Precision.bf16 if fast else Precision.fp16
    if device.type == "cpu" and _cpu_bf16_gain() > 1.2:
        return Precision.bf16
    return Precision.fp32


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """The context in which forward passes compute in `precision`."""
    if DTYPES[precision] is torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype=DTYPES[precision])


def set_products(precision: Precision) -> None:
    """Let float32 matrix products of this process be TF32, or forbid it."""
    torch.set_float32_matmul_precision("high" if precision is Precision.tf32 else "highest")


@contextmanager
def memory_advice(advice: str) -> Iterator[None]:
    """Say what to do, in one sentence, where the device's memory is too small for the block.

    Raises:
        UserError: it was.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(f"The device has too little memory: {advice}.") from None


def keep_freed_memory() -> None:
    """Let this process keep freed memory for the next tensor, where the C library is glibc.

    By default glibc hands large buffers back to the system at once and asks for them again in the
    next operation, paying for every page each time: 5 to 10 % of a training step on a CPU.
    """
    trim_threshold, top_pad, mmap_max = -1, -2, -4  # M_… of malloc.h
    _mallopt({mmap_max: 0, trim_threshold: 2**31 - 1, top_pad: 64 << 20})


def share_freed_memory() -> None:
    """Let the threads of this process take what others of them freed, where the C library is glibc.

    By default every thread keeps a pool of its own: a tenth more memory for two that decode.
    """
    arena_max = -8  # M_ARENA_MAX of malloc.h
    _mallopt({arena_max: 1})


def _mallopt(options: dict[int, int]) -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another C library: nothing to do
    for option, value in options.items():
        mallopt(option, value)


def _cpu_bf16_gain(repeats: int = 15) -> float:
    """How many times faster bf16 matrix products are; the smaller of two estimates."""
    wide = torch.ones(1024, 256)  # random numbers would be taken from others
    narrow = wide.bfloat16()
    times: list[tuple[float, float]] = []
    for _ in range(repeats):  # in turn, so that other work on the machine hits both
        times.append((_seconds(wide), _seconds(narrow)))
    slow, fast = ([pair[i] for pair in times[1:]] for i in (0, 1))
    return min(min(slow) / min(fast), statistics.median(slow) / statistics.median(fast))


def _seconds(x: torch.Tensor) -> float:
    begin = time.perf_counter()
    x @ x.T
    return time.perf_counter() - begin

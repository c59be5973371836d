"""Which device computes, and in which arithmetic."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from seq2seq.config import Precision
from seq2seq.errors import UserError


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
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(
            f"device={name} is not available here: use auto, cpu, cuda or mps."
        ) from None
    return device


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """What `auto` means on `device`: bf16 where it is clearly faster at matrix products.

    CPUs differ: some multiply bf16 at twice the speed of float32, some at half. A measurement of a
    few milliseconds decides.

    Raises:
        UserError: fp16 on a CPU, which has no loss scaling here.
    """
    if precision is Precision.fp16 and device.type == "cpu":
        raise UserError("precision=fp16 needs a GPU: use bf16 or fp32 on a CPU.")
    if precision is not Precision.auto:
        return precision
    if device.type == "cuda":
        return Precision.bf16 if torch.cuda.is_bf16_supported() else Precision.fp16
    if device.type == "cpu" and _cpu_bf16_gain() > 1.2:
        return Precision.bf16
    return Precision.fp32


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """The context in which forward passes compute in `precision`."""
    if precision is Precision.fp32:
        return nullcontext()
    dtype = torch.bfloat16 if precision is Precision.bf16 else torch.float16
    return torch.autocast(device.type, dtype=dtype)


def _cpu_bf16_gain() -> float:
    x, w = torch.randn(1024, 256), torch.randn(1024, 256)
    narrow = (x.bfloat16(), w.bfloat16())
    return _best_time(lambda: x @ w.T) / _best_time(lambda: narrow[0] @ narrow[1].T)


def _best_time(f: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return min(times)

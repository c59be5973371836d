"""Explicit against fused attention, forward and backward: which is faster where?

    .venv/bin/python benchmarks/attention_paths.py

Decides CPU_FUSED_MIN_KEYS of seq2seq/model/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from common import conditions, interleaved, median, save

from seq2seq.model import attention


def step(
    path: Callable[..., torch.Tensor], length: int, dtype: torch.dtype, heads: int = 4
) -> Callable[[], None]:
    batch = max(2048 // length, 1)  # about as many tokens in every case
    q, k, v = (
        torch.randn(batch, heads, length, 64, dtype=dtype, requires_grad=True) for _ in range(3)
    )
    mask = torch.ones(batch, 1, 1, length, dtype=torch.bool)
    mask[0, ..., -1] = False

    def run() -> None:
        path(q, k, v, mask).float().sum().backward()

    return run


def explicit(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attention.scaled_dot_product_attention(q, k, v, mask=mask, need_weights=True)[0]


def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def main() -> None:
    print(conditions())
    rows = []
    print(f"{'dtype':>9} {'length':>7} {'explicit ms':>12} {'fused ms':>9} {'ratio':>6}")
    for dtype in (torch.float32, torch.bfloat16):
        for length in (8, 16, 32, 64, 128, 256, 512):
            times = interleaved(
                {"explicit": step(explicit, length, dtype), "fused": step(fused, length, dtype)}
            )
            slow, fast = median(times["explicit"]) * 1e3, median(times["fused"]) * 1e3
            name = str(dtype).removeprefix("torch.")
            print(f"{name:>9} {length:>7} {slow:>12.2f} {fast:>9.2f} {fast / slow:>6.2f}")
            rows.append({"dtype": name, "length": length, "explicit_ms": slow, "fused_ms": fast})
    print(save("attention_paths", {"rows": rows}))


if __name__ == "__main__":
    main()

"""Dropout (paper, section 5.4), fast on a CPU.

PyTorch draws one float per element from a serial generator on the CPU, which takes longer than the
matrix products around it. Here a vectorised generator draws one *byte* per element, seeded from
PyTorch's own generator, so that `torch.manual_seed` still decides every mask.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zero each element with probability `p` and scale the others so that the mean stays.

    On a CPU `p` is rounded to a multiple of 1/256; the scale follows the rounded value, so the
    expectation is exact.

    Args:
        x: any shape.
        p: probability of zeroing, in [0, 1).
        training: False returns `x` itself.
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(max(round(p * 256), 1), 255)  # of 256 equally likely byte values
    seed = int(torch.randint(2**62, (), dtype=torch.int64))
    random = np.random.SFC64(seed).random_raw((x.numel() + 7) // 8).view(np.uint8)[: x.numel()]
    keep = torch.from_numpy(random).view(x.shape) >= dropped
    return x * keep * (256 / (256 - dropped))


class Dropout(nn.Module):
    """`dropout` as a module that is off in evaluation mode."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to `x` (any shape) in training mode."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Show the probability when printed."""
        return f"p={self.p}"

"""Masks: boolean, True = may attend."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad: int) -> Tensor | None:
    """Which keys are words rather than padding.

    Args:
        ids: [B, T].
        pad: the id of padding.

    Returns:
        [B, 1, 1, T], broadcasting over heads and queries. On a CPU, where looking costs nothing,
        None when there is no padding at all, so that attention need not apply it.
    """
    mask = ids != pad
    if ids.device.type == "cpu" and bool(mask.all()):
        return None
    return mask[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Position i may see positions ≤ i: lower-triangular [T, T].

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()

"""Positions (paper, section 3.5): sinusoidal, or a learned table (Table 3, row E)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.errors import UserError


def sinusoids(length: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same).

    Returns:
        [length, width], float32 rounded from float64; an odd width drops the last cosine.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = position / 10000.0 ** (even / width)  # [length, ceil(width / 2)]
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width].float()


class SinusoidalPositions(nn.Module):
    """Adds sinusoids; the table grows with the longest sentence seen, so there is no limit."""

    limit: int | None = None

    def __init__(self, d_model: int, initial: int = 256) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(initial, d_model), persistent=False)
        self.table: Tensor

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add to `x` [..., T, D] the positions start … start + T - 1."""
        end = start + x.shape[-2]
        table = self.table  # read once: another thread may grow it meanwhile
        if end > len(table):
            table = self.table = sinusoids(2 * end, x.shape[-1]).to(table)
        return x + table[start:end].to(x.dtype)


class LearnedPositions(nn.Module):
    """Adds one trained vector a position, up to `limit` of them."""

    def __init__(self, d_model: int, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.table = nn.Parameter(torch.empty(limit, d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add to `x` [..., T, D] the positions start … start + T - 1.

        Raises:
            UserError: beyond the table.
        """
        end = start + x.shape[-2]
        if end > self.limit:
            raise UserError(
                f"A sequence of {end} positions does not fit the {self.limit} learned ones: "
                "shorten it, or train with a larger model.max_positions or with "
                "model.positions=sinusoidal."
            )
        return x + self.table[start:end]

"""The position-wise feed-forward network (paper, section 3.3)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.choices import Activation
from seq2seq.model.dropout import Dropout


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2, equation 2; the same at every position."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation = Activation.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.activation = F.relu if activation is Activation.relu else F.gelu
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map `x` [..., D] to [..., D]."""
        return self.w_2(self.dropout(self.activation(self.w_1(x))))

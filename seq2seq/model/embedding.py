"""Token embeddings (paper, section 3.4): scaled by √d_model, plus positions, then dropout."""

from __future__ import annotations

import math

from torch import Tensor, nn

from seq2seq.model.dropout import Dropout
from seq2seq.model.positional import LearnedPositions, SinusoidalPositions


class TokenEmbedding(nn.Module):
    """Ids to vectors: dropout(E[id] · √d_model + position).

    Args:
        table: the embedding matrix [V, D], which may be shared with other parts of the model.
        positions: what is added for the position.
        dropout: on the sum.
    """

    def __init__(
        self, table: nn.Embedding, positions: SinusoidalPositions | LearnedPositions, dropout: float
    ) -> None:
        super().__init__()
        self.table = table
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(table.embedding_dim)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Embed `ids` [..., T], the first of which is at position `start`, as [..., T, D]."""
        x: Tensor = self.table(ids) * self.scale
        return self.dropout(self.positions(x, start))

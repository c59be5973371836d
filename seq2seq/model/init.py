"""Initial weights."""

from __future__ import annotations

import math

import torch
from torch import nn

from seq2seq.model.positional import LearnedPositions


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Draw every parameter from PyTorch's generator.

    Matrices are Glorot-uniform, W_Q, W_K and W_V counted as one matrix for all heads; biases are 0.
    Embeddings are normal with variance 1 / D: scaled by √D on the way in they have unit variance,
    and as output matrix (section 3.4) they give logits of about unit variance.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.embedding_dim))
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.table, std=0.02)

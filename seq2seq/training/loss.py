"""The training loss: cross-entropy with label smoothing (paper, section 5.4)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from seq2seq.config import PAD


def summed_loss(logits: Tensor, target_out: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Label-smoothed and plain negative log-likelihood, summed over the words of a batch.

    The smoothed target gives 1 - ε to the right piece and spreads ε over all V pieces, itself and
    the control pieces included. The caller divides by the target tokens of the whole update, so
    that accumulation and padding cannot change the gradient.

    Args:
        logits: [B, T, V].
        target_out: [B, T], padded with 0.
        smoothing: ε.

    Returns:
        The smoothed sum, to differentiate; and the plain sum without gradient, in nats.
    """
    flat, target = logits.float().flatten(0, 1), target_out.flatten()
    plain = F.cross_entropy(flat, target, ignore_index=PAD, reduction="sum")
    if smoothing == 0.0:
        return plain, plain.detach()
    words = (target != PAD).to(flat.dtype)
    # Σ_v log p_v = Σ_v z_v - V·log Z; with log p_y = z_y - log Z this needs no log-softmax table.
    log_z = flat.logsumexp(-1)
    uniform = ((log_z - flat.mean(-1)) * words).sum()
    return (1 - smoothing) * plain + smoothing * uniform, plain.detach()

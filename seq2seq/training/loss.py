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
    z, y = logits.float().flatten(0, 1), target_out.flatten()
    smoothed = F.cross_entropy(
        z, y, ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    # smoothed - plain = ε (z_y - mean z) at every word: cheaper than a second softmax.
    z = z.detach()
    excess = (z.gather(-1, y[:, None])[:, 0] - z.mean(-1)) * (y != PAD)
    return smoothed, smoothed.detach() - smoothing * excess.sum()

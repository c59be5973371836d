"""The training loss: cross-entropy with label smoothing (paper, section 5.4)."""

from __future__ import annotations

from typing import Any

import torch
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
    z = logits.flatten(0, 1)
    if z.dtype in (torch.bfloat16, torch.float16):
        z = z.float()
    smoothed, plain = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        z, target_out.flatten(), smoothing
    )
    return smoothed, plain.detach()


class _SmoothedCrossEntropy(torch.autograd.Function):
    """-Σ_v q_v log p_v with q = (1 - ε) onehot(y) + ε / V; the gradient is p - q.

    The logits are the largest tensor of a training step. PyTorch's own loss makes five more of
    their size, this makes two: p going forward, p - q coming back.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """`z` [N, V] logits, `y` [N] ids; see `summed_loss`."""
        words = (y != PAD).to(z.dtype)
        p = z.softmax(-1)
        log_sum = z.amax(-1) - p.amax(-1).log()  # log Σ exp z, from the largest of each row
        plain = log_sum - z.gather(-1, y[:, None])[:, 0]
        uniform = log_sum - z.mean(-1)
        ctx.save_for_backward(p, y, words)
        ctx.smoothing = smoothing
        smoothed = (1 - smoothing) * plain + smoothing * uniform
        return (smoothed * words).sum(), (plain * words).sum()

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, plain: Tensor) -> tuple[Tensor, None, None]:  # noqa: ARG004
        """The gradient of the smoothed sum; the plain one is for reading only."""
        p, y, words = ctx.saved_tensors
        gradient = p - ctx.smoothing / p.shape[-1]
        gradient.scatter_add_(-1, y[:, None], (ctx.smoothing - 1.0) * torch.ones_like(p[:, :1]))
        return gradient.mul_((words * smoothed)[:, None]), None, None

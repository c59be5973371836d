"""The training loss: cross-entropy with label smoothing (paper, section 5.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2seq.config import PAD

# Logits worked on at once. On a CPU as many as its cache holds: a pass over all of them takes as
# long as reading and writing memory, far longer than the arithmetic.
CPU_BLOCK, GPU_BLOCK = 1 << 19, 1 << 26


def summed_loss(logits: Tensor, target_out: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Label-smoothed and plain negative log-likelihood, summed over the words of a batch.

    The smoothed target gives 1 - ε to the right piece and spreads ε over all V pieces, itself and
    the control pieces included. The caller divides by the target tokens of the whole update, so
    that accumulation and padding cannot change the gradient.

    Args:
        logits: [B, T, V]; used up, where a gradient is wanted: afterwards they hold it. Half
            precision is worked on in float32.
        target_out: [B, T], padded with 0.
        smoothing: ε.

    Returns:
        The smoothed sum, to differentiate; and the plain sum without gradient, in nats.
    """
    smoothed, plain = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.flatten(0, 1), target_out.flatten(), smoothing
    )
    return smoothed, plain.detach()


class _SmoothedCrossEntropy(torch.autograd.Function):
    """-Σ_v q_v log p_v with q = (1 - ε) onehot(y) + ε / V; the gradient is p - q.

    The logits are the largest tensor of a training step. PyTorch's own loss makes five more of
    their size, this makes none: block by block, the gradient takes the place of the logits.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """`z` [N, V] logits, `y` [N] ids; see `summed_loss`."""
        size = CPU_BLOCK if z.device.type == "cpu" else GPU_BLOCK
        rows = max(1, size // z.shape[-1])
        blocks = zip(z.split(rows), y.split(rows), strict=True)  # type: ignore[no-untyped-call]
        sums = [_block(*block, smoothing, ctx.needs_input_grad[0]) for block in blocks]
        ctx.gradient = z
        smoothed, plain = torch.stack(sums).sum(0).unbind()
        return smoothed, plain

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, plain: Tensor) -> tuple[Tensor, None, None]:  # noqa: ARG004
        """The gradient of the smoothed sum; the plain one is for reading only."""
        gradient, ctx.gradient = ctx.gradient, None  # used up: a second time must not go unnoticed
        return gradient.mul_(smoothed), None, None


def _block(logits: Tensor, y: Tensor, smoothing: float, differentiate: bool) -> Tensor:
    """Smoothed and plain sum, [2], of some rows; their logits become the gradient if asked."""
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    gold, words = y[:, None], (y != PAD).to(z.dtype)
    gold_z, mean_z, largest = z.gather(-1, gold)[:, 0], z.mean(-1), z.amax(-1)
    p = z.softmax(-1)
    log_sum = largest - p.amax(-1).log()  # log Σ exp z, from the largest of each row
    plain, uniform = (log_sum - gold_z) @ words, (log_sum - mean_z) @ words
    if differentiate:
        p -= smoothing / p.shape[-1]
        p.scatter_add_(-1, gold, torch.full_like(p[:, :1], smoothing - 1.0))
        logits.copy_(p.mul_(words[:, None]))
    return torch.stack(((1 - smoothing) * plain + smoothing * uniform, plain))

"""Adam and the learning-rate schedule (paper, section 5.3)."""

from __future__ import annotations

import math

import torch
from torch import nn

from seq2seq.choices import Schedule
from seq2seq.config import OptimConfig


def peak_rate(config: OptimConfig, d_model: int) -> float:
    """The highest learning rate: as set, or d_model^-0.5 · warmup^-0.5, the paper's."""
    if config.lr is not None:
        return config.lr
    return 1.0 / math.sqrt(d_model * max(config.warmup, 1))


def learning_rate(config: OptimConfig, d_model: int, update: int, progress: float) -> float:
    """The learning rate of one update.

    It rises linearly over `warmup` updates to the peak. Then it falls as √(warmup / update), with
    which the whole is equation 3 of the paper; or linearly to 0 at the end; or stays.

    Args:
        config: schedule, peak and warm-up.
        d_model: width of the model, which sets the paper's peak.
        update: number of the update, from 1.
        progress: share of training done, in [0, 1]; only the linear schedule looks at it.
    """
    warmup = max(config.warmup, 1)
    rising = update / warmup
    if config.schedule is Schedule.inverse_sqrt:
        shape = min(rising, math.sqrt(warmup / update))
    elif config.schedule is Schedule.linear:
        shape = min(rising, 1.0 - progress)
    else:
        shape = min(rising, 1.0)
    return peak_rate(config, d_model) * shape


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """Adam with the paper's betas; weight decay, if any, is decoupled and spares vectors."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=0.0,  # set before every update
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )

"""Averages of weights: over the last checkpoints of a run, or moving along with training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from seq2seq.errors import UserError
from seq2seq.run_folder import WEIGHTS, removed_heads


def average_checkpoints(folders: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several step folders (paper, section 6.1), summed in float64.

    Raises:
        UserError: no folder, or weights of different shapes or of different heads.
    """
    if not folders:
        raise UserError("There is no checkpoint to average.")
    lacking = [removed_heads(folder / WEIGHTS) for folder in folders]
    for folder, heads in zip(folders, lacking, strict=True):
        if heads != lacking[0]:
            raise UserError(
                f"{folder} lacks {heads or 'no head'}, but {folders[0]} lacks "
                f"{lacking[0] or 'no head'}: models with different heads cannot be averaged."
            )
    total: dict[str, Tensor] = {}
    for folder in folders:
        weights = safetensors.torch.load_file(folder / WEIGHTS)
        shapes = {name: w.shape for name, w in weights.items()}
        if total and shapes != {name: w.shape for name, w in total.items()}:
            raise UserError(f"{folder} and {folders[0]} hold different models: cannot average.")
        for name, weight in weights.items():
            total[name] = total.get(name, torch.zeros((), dtype=torch.float64)) + weight.double()
    return {name: (weight / len(folders)).float() for name, weight in total.items()}


class MovingAverage:
    """An exponential moving average of a model's weights.

    The decay is min(decay, (1 + n) / (10 + n)) after n updates, so that early weights fade.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters: list[Tensor] = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Move towards the weights after `updates` updates."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(self.shadow, self.parameters, 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange average and weights; twice restores both."""
        for parameter, shadow in zip(self.parameters, self.shadow, strict=True):
            kept = parameter.clone()
            parameter.copy_(shadow)
            shadow.copy_(kept)

    @torch.no_grad()
    def restore(self, raw: list[Tensor]) -> None:
        """Take the model's present weights for the average, and `raw` for the weights."""
        for parameter, shadow, weight in zip(self.parameters, self.shadow, raw, strict=True):
            shadow.copy_(parameter)
            parameter.copy_(weight)


@contextmanager
def averaged(average: MovingAverage | None) -> Iterator[None]:
    """While the block runs, the model has the averaged weights, if there is an average."""
    if average is None:
        yield
        return
    average.swap()
    try:
        yield
    finally:
        average.swap()

"""Two sources whose translations agree up to one token: what interventions and probes run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.config import BOS, PAD
from seq2seq.errors import UserError


@dataclass(frozen=True)
class Contrast:
    """Two sources whose translations agree up to one token.

    Attributes:
        source: A as ids: pieces, EOS.
        other: B likewise.
        target_in: what the decoder reads: BOS and the pieces that both translations begin with.
        token: the id that follows in A's translation.
        other_token: the id that follows in B's.
    """

    source: list[int]
    other: list[int]
    target_in: list[int]
    token: int
    other_token: int

    @property
    def aligned(self) -> bool:
        """Whether the sources have as many pieces, so that encoder outputs can change places."""
        return len(self.source) == len(self.other)

    @property
    def turned(self) -> Contrast:
        """B as A and A as B."""
        return Contrast(self.other, self.source, self.target_in, self.other_token, self.token)


def contrast(
    source: list[int], other: list[int], target: list[int], other_target: list[int]
) -> Contrast:
    """The contrast of two sentences with their translations, all as ids that end with EOS.

    Raises:
        UserError: the sources or the translations do not differ.
    """
    if source == other:
        raise UserError("The two sentences are the same: give two that differ.")
    for place, (a, b) in enumerate(zip(target, other_target, strict=False)):
        if a != b:
            return Contrast(source, other, [BOS, *target[:place]], a, b)
    raise UserError(
        "Both sentences have the same translation, so there is no answer to move: choose a word "
        "that changes it, or give --target and --other-target."
    )


def padded(sequences: Sequence[list[int]], width: int, device: torch.device) -> Tensor:
    """Ids as a tensor [N, width], padded on the right."""
    rows = [ids + [PAD] * (width - len(ids)) for ids in sequences]
    return torch.tensor(rows, dtype=torch.int64, device=device)

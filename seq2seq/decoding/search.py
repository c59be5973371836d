"""What every search shares: the model as a step function, the rules, the record of a search.

Shapes: B sentences still running, K hypotheses of each (it may change from step to step),
V vocabulary, T steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from seq2seq.decoding.penalties import length_penalty
from seq2seq.errors import UserError


class SearchState(Protocol):
    """What the model remembers between steps; only the model knows what is inside."""

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep the rows `sentences` [B'] and, in each, the hypotheses `beams` [B', K']."""


State = TypeVar("State", bound=SearchState)
State_contra = TypeVar("State_contra", bound=SearchState, contravariant=True)


class StepFunction(Protocol[State_contra]):
    """One step of a model: logits for the next token of every hypothesis."""

    def __call__(self, last: Tensor, state: State_contra, /) -> Tensor:
        """Extend every hypothesis by its newest token `last` [B, K]; returns logits [B, K, V]."""


@dataclass(frozen=True)
class Hypothesis:
    """One finished output."""

    tokens: list[int]  # without the end-of-sentence token
    token_log_probs: list[float]  # natural; of each token and, last, of the end of sentence
    score: float  # log_prob / length penalty: what hypotheses are compared by
    hit_limit: bool  # as long as allowed, so perhaps cut short

    @property
    def log_prob(self) -> float:
        """Natural log-probability of the whole output, end of sentence included."""
        return sum(self.token_log_probs)


Hypotheses = list[list[Hypothesis]]  # for each sentence its hypotheses, best first


@dataclass(frozen=True)
class Rules:
    """What an output may look like, and how it is scored.

    Attributes:
        bos: token that every hypothesis starts from.
        eos: token that ends it.
        pad: never produced, nor is `bos`.
        max_len: [B], most tokens of each output, end of sentence not counted. A hypothesis that
            long is ended. On the device of the model.
        alpha: of the length penalty.
        min_len: fewest tokens before the end is allowed (where `max_len` leaves room for them).
        banned: further tokens that are never produced.
    """

    bos: int
    eos: int
    pad: int
    max_len: Tensor
    alpha: float = 0.0
    min_len: int = 0
    banned: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.max_len.dim() != 1 or bool((self.max_len < 0).any()):
            raise ValueError("max_len must be one number ≥ 0 for each sentence")
        if self.alpha < 0:
            raise ValueError("alpha must be ≥ 0: the bound that ends a search relies on it")

    @property
    def batch(self) -> int:
        """Number of sentences."""
        return len(self.max_len)

    def never(self) -> Tensor:
        """Ids [N] that no hypothesis may contain."""
        return torch.tensor([self.pad, self.bos, *self.banned], device=self.max_len.device)

    def hypothesis(self, tokens: list[int], log_probs: list[float], limit: int) -> Hypothesis:
        """The record of an output; its score follows from its tokens' log-probabilities."""
        score = sum(log_probs) / length_penalty(float(len(log_probs)), self.alpha)
        return Hypothesis(tokens, log_probs, score, len(tokens) >= limit)


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`values.topk(k)` along the last axis, several times faster on a CPU for long rows.

    A knock-out: columns are dealt into groups, and only the k groups with the largest members can
    hold one of the k largest values. Finding these members is a fast pass, and a group is small.

    Args:
        values: [..., N].
        k: at most N.

    Returns:
        Values [..., k], largest first, and their columns.
    """
    members = 16
    groups = values.shape[-1] // members
    if groups < members * k:
        best, columns = values.topk(k)
        return best, columns
    grouped = members * groups
    leaders = values[..., :grouped].reshape(*values.shape[:-1], members, groups).amax(-2)
    _, chosen = top_k(leaders, k)  # [..., k]
    starts = torch.arange(0, grouped, groups, device=values.device)
    columns = (chosen[..., None, :] + starts[:, None]).flatten(-2)  # [..., members · k]
    rest = torch.arange(grouped, values.shape[-1], device=values.device)
    columns = torch.cat((columns, rest.expand(*columns.shape[:-1], -1)), -1)
    best, place = values.gather(-1, columns).topk(k)
    return best, columns.gather(-1, place)


def log_probabilities(logits: Tensor) -> Tensor:
    """Natural log-probabilities from logits [..., V], as a tensor of their own.

    In at least float32: half precision has too few digits to add them up.
    """
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


class History:
    """Tensors [B, K] of every step, of which B falls as sentences finish and K may change."""

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, tuple[Tensor, ...]]] = []

    def add(self, rows: Tensor, *values: Tensor) -> None:
        """Append one step of the sentences `rows` [B], as numbered at the start."""
        self._steps.append((rows, values))

    def columns(self, batch: int) -> Iterator[Tensor]:
        """For each of the values of `add`, its steps as a tensor [T, batch, largest K] on the CPU.

        Sentences that had finished, and hypotheses that were not there, hold zeros.
        """
        width = max(values[0].shape[1] for _, values in self._steps)
        for index, example in enumerate(self._steps[0][1]):
            table = example.new_zeros(len(self._steps), batch, width)
            for step, (rows, values) in enumerate(self._steps):
                table[step, rows, : values[index].shape[1]] = values[index]
            yield table.cpu()


def check_finite(log_probs: Tensor) -> None:
    """Refuse to search on when a model's outputs are not numbers.

    Raises:
        UserError: some of `log_probs` is NaN.
    """
    if bool(log_probs.isnan().any()):
        raise UserError(
            "The model's outputs are not numbers (NaN): its weights are damaged or its training "
            "diverged; translate with an earlier checkpoint."
        )

"""Interchange intervention: swap a head's output from one run into another, see what changes.

Two sentences, A and B, whose translations first differ at one token. Run A is repeated, but chosen
heads put out what they put out in run B; how far does the answer move from A's token to B's? Vig et
al. 2020, Geiger et al. 2021. Weights say where a head looks; only this says what its content
decides.

Letters: N contrasts, H heads, S source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.analysis.contrast import Contrast, contrast, padded
from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.intervene import (
    HeadFunction,
    attentions,
    indices,
    on_heads,
    switched_off,
)
from seq2seq.analysis.observe import undisturbed
from seq2seq.errors import UserError
from seq2seq.model.cache import Memory
from seq2seq.model.transformer import Transformer

__all__ = ["Contrast", "Effect", "Interchange", "Outcome", "contrast", "padded"]

BATCH = 128  # contrasts in one pass
LEAST_GAP = 1e-3  # nats between the sentences; an effect is a share of it


@dataclass(frozen=True)
class Outcome:
    """Log-probabilities [N], in nats, at the token where the translations differ."""

    token: Tensor  # of A's token
    other_token: Tensor  # of B's

    @property
    def delta(self) -> Tensor:
        """Δ = log p(A's token) − log p(B's token): above 0 the answer is A's."""
        return self.token - self.other_token


@dataclass(frozen=True)
class Effect:
    """What an intervention did to all contrasts together.

    Attributes:
        effect: (Δ_A − Δ_patched) / (Δ_A − Δ_B), numerator and denominator summed over the
            contrasts: 0 if nothing moved, 1 if all answers became those of B.
        flips: how many answers changed sides, Δ_patched < 0.
        count: of how many.
    """

    effect: float
    flips: int
    count: int

    @property
    def flip_share(self) -> float:
        """Flips among all contrasts."""
        return self.flips / self.count


class Interchange:
    """The two runs of many contrasts, between which head outputs can be swapped.

    Args:
        model: a Transformer; it is left as it was.
        contrasts: at least one.

    Raises:
        UserError: none, or one longer than the model reads.
    """

    def __init__(self, model: Transformer, contrasts: Sequence[Contrast]) -> None:
        """Run both sides once and keep what every head put out in run B."""
        if not contrasts:
            raise UserError("There is no pair of sentences to trace.")
        _check_lengths(model, contrasts)
        self.model, self.contrasts = model, contrasts
        self.aligned = all(pair.aligned for pair in contrasts)
        self._batches = [
            _Batch(model, contrasts[start : start + BATCH])
            for start in range(0, len(contrasts), BATCH)
        ]
        self.before = _joined([batch.run(model) for batch in self._batches])
        self.goal = _joined([batch.goal for batch in self._batches])

    def swapped(
        self, heads: Collection[HeadId], at: Sequence[Collection[int]] | None = None
    ) -> Outcome:
        """Run A with these heads' outputs from run B.

        Args:
            heads: of any kinds.
            at: the positions of each contrast at which they are swapped, of the source for
                encoder heads and of `target_in` for the others; None: all.

        Raises:
            UserError: the model lacks a head, or encoder heads of sources that differ in length.
        """
        if not self.aligned and any(head.kind == "enc" for head in heads):
            raise UserError(
                "Encoder heads can change places only between sentences of as many pieces."
            )
        chosen = indices(self.model, heads)
        found = []
        for number, batch in enumerate(self._batches):
            rows = at[number * BATCH : (number + 1) * BATCH] if at is not None else None
            found.append(batch.run(self.model, batch.swaps(chosen, rows)))
        return _joined(found)

    def without(self, heads: Collection[HeadId]) -> Outcome:
        """Run A with these heads putting out 0.

        Raises:
            UserError: the model lacks one of them.
        """
        anew = any(head.kind == "enc" for head in heads)
        with switched_off(self.model, heads):
            return _joined([batch.run(self.model, anew=anew) for batch in self._batches])

    def effect(
        self, heads: Collection[HeadId], at: Sequence[Collection[int]] | None = None
    ) -> Effect:
        """How far swapping these heads moves the answers, and how many it turns.

        Raises:
            UserError: as `swapped`, or the model answers both sentences alike.
        """
        return self.judge(self.swapped(heads, at))

    def judge(self, after: Outcome) -> Effect:
        """How far run A has come towards B's answers with some heads swapped.

        Raises:
            UserError: the model answers both sentences alike.
        """
        gap = float((self.before.delta - self.goal.delta).sum())
        if not gap > LEAST_GAP * len(self.contrasts):
            raise UserError(
                "The model does not tell the two sentences apart where their translations differ, "
                "so no head can be said to: choose others, or train further."
            )
        moved = float((self.before.delta - after.delta).sum())
        flips = int(((self.before.delta > 0) & (after.delta < 0)).sum())
        return Effect(moved / gap, flips, len(self.contrasts))

    def weights(self, number: int) -> dict[Place, Tensor]:
        """Every attention [H, queries, keys] of run A of one contrast."""
        chosen = self.contrasts[number]
        device = next(self.model.parameters()).device
        source = padded([chosen.source], len(chosen.source), device)
        target_in = padded([chosen.target_in], len(chosen.target_in), device)
        with undisturbed(self.model):
            found = self.model.attention_weights(source, target_in)
        kinds = {"enc": found.encoder, "dec": found.decoder, "cross": found.cross}
        return {
            (kind, layer): weights[0].float().cpu()
            for kind, layers in kinds.items()
            for layer, weights in enumerate(layers)
        }


class _Batch:
    def __init__(self, model: Transformer, contrasts: Sequence[Contrast]) -> None:
        device = next(model.parameters()).device
        width = max(max(len(pair.source), len(pair.other)) for pair in contrasts)
        self.source = padded([pair.source for pair in contrasts], width, device)
        other = padded([pair.other for pair in contrasts], width, device)
        length = max(len(pair.target_in) for pair in contrasts)
        self.target_in = padded([pair.target_in for pair in contrasts], length, device)
        last = [len(pair.target_in) - 1 for pair in contrasts]
        self.last = torch.tensor(last, device=device)
        tokens = [[pair.token, pair.other_token] for pair in contrasts]
        self.tokens = torch.tensor(tokens, device=device)
        self._donors: dict[Place, Tensor] = {}
        with undisturbed(model), on_heads(model, self._recorders(model)):
            self.goal = self._outcome(model, model.encode(other))
        with undisturbed(model):
            self._memory = model.encode(self.source)

    def run(
        self,
        model: Transformer,
        functions: Mapping[Place, HeadFunction] | None = None,
        *,
        anew: bool = False,
    ) -> Outcome:
        """Run A; `anew`: also its encoder, which otherwise runs only if functions reach into it."""
        functions = functions or {}
        with undisturbed(model), on_heads(model, functions):
            if anew or any(kind == "enc" for kind, _ in functions):
                return self._outcome(model, model.encode(self.source))
            return self._outcome(model, self._memory)

    def swaps(
        self, chosen: Mapping[Place, list[int]], at: Sequence[Collection[int]] | None
    ) -> dict[Place, HeadFunction]:
        return {place: _swap(self._donors[place], heads, at) for place, heads in chosen.items()}

    def _recorders(self, model: Transformer) -> dict[Place, HeadFunction]:
        def recorder(place: Place) -> HeadFunction:
            def record(outputs: Tensor) -> None:
                self._donors[place] = outputs

            return record

        return {place: recorder(place) for place in attentions(model)}

    def _outcome(self, model: Transformer, memory: Memory) -> Outcome:
        x, _, _ = model.decoder(model.target_embedding(self.target_in), memory)
        rows = torch.arange(len(x), device=x.device)
        logits = model.output(x[rows, self.last])  # [N, V]
        logs = logits.float() if logits.dtype is not torch.float64 else logits
        logs = logs.log_softmax(-1).gather(-1, self.tokens).cpu()  # [N, 2]
        return Outcome(logs[:, 0], logs[:, 1])


def _swap(donor: Tensor, heads: list[int], at: Sequence[Collection[int]] | None) -> HeadFunction:
    gate = torch.zeros(donor.shape[:3], dtype=torch.bool)  # [N, H, T]
    if at is None:
        gate[:, heads] = True
    else:
        for row, places in enumerate(at):
            for head in heads:
                gate[row, head, list(places)] = True
    gate = gate[..., None].to(donor.device)
    return lambda outputs: torch.where(gate, donor, outputs)


def _joined(parts: list[Outcome]) -> Outcome:
    return Outcome(
        torch.cat([part.token for part in parts]), torch.cat([part.other_token for part in parts])
    )


def _check_lengths(model: Transformer, contrasts: Sequence[Contrast]) -> None:
    limit = model.position_limit or math.inf
    for pair in contrasts:
        longest = max(len(pair.source), len(pair.other), len(pair.target_in))
        if longest > limit:
            raise UserError(
                f"A sentence has {longest} tokens, but the model's position table ends at "
                f"{limit}: choose a shorter one."
            )

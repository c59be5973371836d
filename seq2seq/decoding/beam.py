"""Beam search over any model that is given as a step function and an opaque state.

Two sets a sentence: *live* prefixes, the K likeliest that have not ended, and *finished* outputs,
the n with the best scores. Every step looks at the 2K likeliest extensions of all live prefixes:
those that end the sentence may enter the finished set, the K likeliest others live on. (At most K
of the 2K can be ends, so K others are always among them.) A sentence is done when no live prefix
can still beat its worst finished output: log-probabilities only fall, and the penalty is largest
at the length limit, so log-probability / penalty(limit) bounds every score to come.

Shapes: B sentences still running, K live prefixes of each, n outputs kept, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.penalties import length_penalty
from seq2seq.decoding.search import (
    History,
    Hypotheses,
    Rules,
    State,
    StepFunction,
    check_finite,
    log_probabilities,
    top_k,
)


def beam_search(  # noqa: PLR0913 — the rules of a search, each with its own name
    step: StepFunction[State],
    state: State,
    *,
    batch: int,
    beam: int,
    bos: int,
    eos: int,
    pad: int,
    max_len: Tensor,
    alpha: float,
    n_best: int = 1,
    min_len: int = 0,
    banned: Sequence[int] = (),
) -> Hypotheses:
    """The outputs with the best log-probability / length penalty that a beam of prefixes finds.

    Exact if the beam has room for every prefix. A beam of one is greedy search. The result of a
    sentence does not depend on the other sentences.

    Args:
        step: `step(last [B, K], state)` gives logits [B, K, V] for the next token of each prefix.
            K is 1 at the first step and at most `beam` later.
        state: what `step` needs; prefixes are reordered, and finished sentences dropped, by its
            `select`.
        batch: number of sentences.
        beam: largest number of live prefixes; may exceed the vocabulary.
        bos: token that every prefix starts from; never produced.
        eos: token that ends an output.
        pad: never produced.
        max_len: [batch], most tokens of each output, end of sentence not counted; on the model's
            device. Outputs that reach it are ended, and marked `hit_limit`.
        alpha: of the length penalty, ≥ 0; see `length_penalty`.
        n_best: outputs wanted a sentence.
        min_len: fewest tokens before the end is allowed (where `max_len` leaves room for them).
        banned: further tokens never produced.

    Returns:
        For each sentence at most `n_best` outputs, best first: fewer if no more exist that the
        model holds possible. Log-probabilities are of the model, whatever was banned.

    Raises:
        UserError: the model's outputs are NaN.
        ValueError: a number out of its range.
    """
    if len(max_len) != batch:
        raise ValueError(f"max_len is for {len(max_len)} sentences, not for {batch}")
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best={n_best} must be from 1 to beam={beam}")
    rules = Rules(
        bos=bos, eos=eos, pad=pad, max_len=max_len, alpha=alpha, min_len=min_len, banned=banned
    )
    if beam == 1:
        return greedy_search(step, state, rules)
    search = _Search(rules, beam, n_best)
    last = torch.full((batch, 1), bos, device=max_len.device)
    while len(search.rows):
        tokens, beams = search.advance(step(last, state))
        kept = search.drop_finished()
        if len(kept):
            state.select(kept, beams[kept])
            last = tokens[kept]
    return search.results()


@dataclass
class _Finished:
    """The n best outputs so far; each is named by the live prefix that it ended."""

    scores: Tensor  # [B, n], best first; -inf = none yet
    origins: Tensor  # [B, n], position · beam + live prefix

    def take(self, rows: Tensor) -> _Finished:
        """Those of some sentences."""
        return _Finished(self.scores[rows], self.origins[rows])


class _Search:
    """The two sets of every sentence that is still running, and the way there."""

    def __init__(self, rules: Rules, beam: int, n_best: int) -> None:
        device, batch = rules.max_len.device, rules.batch
        self.rules = rules
        self.beam = beam
        self.never = torch.cat((rules.never(), torch.tensor([rules.eos], device=device)))
        self.shortest = int(rules.max_len.min()) if batch else 0  # nothing is at its limit before
        self.position = 0  # length of the live prefixes
        self.history = History()
        self.rows = torch.arange(batch, device=device)  # [B], their places in the batch
        self.limits = rules.max_len  # [B]
        self.best_penalty = length_penalty(rules.max_len + 1.0, rules.alpha)  # [B]
        self.live = torch.zeros(batch, 1, device=device)  # [B, K] log-probabilities, best first
        self.finished = _Finished(
            torch.full((batch, n_best), -torch.inf, device=device),
            torch.zeros(batch, n_best, dtype=torch.int64, device=device),
        )
        self.done: list[tuple[Tensor, _Finished]] = []  # rows, and what was found for them

    def advance(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step with `logits` [B, K, V].

        Returns:
            The newest tokens [B, K'] of the live prefixes, and which prefix each extends [B, K'].
        """
        vocabulary = logits.shape[-1]
        extended = log_probabilities(logits)
        ends = extended[..., self.rules.eos].clone()  # [B, K]
        ended = self.live + ends
        room = self.live
        if self.position < self.rules.min_len:
            ended = ended.masked_fill((self.limits > self.position)[:, None], -torch.inf)
        if self.position >= self.shortest:
            room = room.masked_fill((self.limits <= self.position)[:, None], -torch.inf)

        extended.index_fill_(-1, self.never, -torch.inf)
        extended = extended.add_(room[..., None]).flatten(1)  # [B, K·V], of whole prefixes
        best, columns = top_k(extended, min(2 * self.beam, extended.shape[1]))
        self._finish(ended, best)

        parents, tokens = columns // vocabulary, columns % vocabulary
        parents, tokens = parents[:, : self.beam], tokens[:, : self.beam]
        live = best[:, : self.beam]
        log_probs = live - self.live.gather(1, parents)
        self.history.add(self.rows, tokens, parents, log_probs, ends)
        self.live = live
        self.position += 1
        return tokens, parents

    def _finish(self, ended: Tensor, best: Tensor) -> None:
        """Let ends [B, K] enter the finished set if they are among the 2K best extensions."""
        everything = torch.cat((ended, best), 1)
        enough = min(2 * self.beam, everything.shape[1])
        worst = everything.topk(enough).values[:, -1:]
        scores = ended / length_penalty(self.position + 1.0, self.rules.alpha)
        scores = scores.masked_fill(ended < worst, -torch.inf)
        names = torch.arange(ended.shape[1], device=ended.device) + self.position * self.beam
        old = self.finished
        scores = torch.cat((old.scores, scores), 1)
        origins = torch.cat((old.origins, names.expand_as(ended)), 1)
        scores, places = scores.topk(old.scores.shape[1])
        self.finished = _Finished(scores, origins.gather(1, places))

    def drop_finished(self) -> Tensor:
        """Leave out sentences that are done; returns the rows that stay of those there were."""
        running = self.live[:, 0] / self.best_penalty > self.finished.scores[:, -1]
        count = int(running.sum())  # the one time a step that the device is waited for
        if count == len(running):
            return torch.arange(count, device=running.device)
        check_finite(self.live[:, 0])
        gone, kept = (~running).nonzero()[:, 0], running.nonzero()[:, 0]
        self.done.append((self.rows[gone], self.finished.take(gone)))
        self.finished = self.finished.take(kept)
        self.rows, self.limits, self.live = self.rows[kept], self.limits[kept], self.live[kept]
        self.best_penalty = self.best_penalty[kept]
        return kept

    def results(self) -> Hypotheses:
        """What was found for every sentence of the batch."""
        found: Hypotheses = [[] for _ in range(self.rules.batch)]
        if not found:
            return found
        limits = self.rules.max_len.tolist()
        history = [values.tolist() for values in self.history.columns(len(found))]
        for rows, finished in self.done:
            names = zip(
                rows.tolist(), finished.scores.tolist(), finished.origins.tolist(), strict=True
            )
            for row, scores, origins in names:
                paths = [
                    self._trace(history, row, origin)
                    for score, origin in zip(scores, origins, strict=True)
                    if score > -math.inf
                ]
                found[row] = [self.rules.hypothesis(*path, limits[row]) for path in paths]
        return found

    def _trace(
        self, history: list[list[list[list[Any]]]], row: int, origin: int
    ) -> tuple[list[int], list[float]]:
        """Follow a finished output back to its start; returns its tokens and log-probabilities."""
        tokens, parents, log_probs, ends = history  # each [T][B][K]
        position, prefix = divmod(origin, self.beam)
        path, steps = [], [ends[position][row][prefix]]
        for step in reversed(range(position)):
            path.append(tokens[step][row][prefix])
            steps.append(log_probs[step][row][prefix])
            prefix = parents[step][row][prefix]
        return path[::-1], steps[::-1]

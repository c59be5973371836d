"""Searches that follow single paths: greedy search here, sampling by another choice of token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

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

# Given log-probabilities [B, K, V], -inf for what is not allowed, and the places [B] of the
# sentences in the batch of the start; returns the tokens taken, [B, K].
Choice = Callable[[Tensor, Tensor], Tensor]


def greedy_search(step: StepFunction[State], state: State, rules: Rules) -> Hypotheses:
    """The likeliest token at every step; one hypothesis a sentence.

    See `beam_search` for the arguments.
    """

    def likeliest(log_probs: Tensor, _rows: Tensor) -> Tensor:
        return top_k(log_probs, 1)[1][..., 0]

    return follow(step, state, rules, paths=1, choose=likeliest)


def follow(
    step: StepFunction[State], state: State, rules: Rules, *, paths: int, choose: Choice
) -> Hypotheses:
    """Extend `paths` hypotheses of each sentence, independently, one chosen token at a time.

    Log-probabilities are of the model, whatever was banned and however the token was chosen.

    Args:
        step: the model.
        state: of its first step, with `paths` hypotheses of each of B sentences.
        rules: what is allowed.
        paths: K, hypotheses a sentence.
        choose: picks the next tokens.

    Returns:
        For each sentence its K hypotheses, best first.
    """
    device = rules.max_len.device
    never = rules.never()
    rows, limits = torch.arange(rules.batch, device=device), rules.max_len
    shortest = int(limits.min()) if rules.batch else 0
    last = torch.full((rules.batch, paths), rules.bos, device=device)
    ended = torch.zeros((rules.batch, paths), dtype=torch.bool, device=device)
    beams = torch.arange(paths, device=device)
    history = History()
    position = 0
    while len(rows):
        scores = log_probabilities(step(last, state))  # [B, K, V]
        scores.index_fill_(-1, never, -torch.inf)
        if position < rules.min_len:
            scores[..., rules.eos].masked_fill_((limits > position)[:, None], -torch.inf)
        last = choose(scores, rows)
        if position >= shortest:
            last = last.masked_fill((limits <= position)[:, None], rules.eos)
        log_probs = scores.gather(-1, last[..., None])[..., 0]
        history.add(rows, last, log_probs)
        ended = ended | (last == rules.eos)
        position += 1
        running = ~ended.all(1)
        count = int(running.sum())
        # Finished sentences cost a little while they stay, and copying the cache to be rid of them
        # costs something, too; so they leave several at a time.
        if count == 0 or count <= 7 / 8 * len(rows):
            kept = running.nonzero()[:, 0]
            if count:
                state.select(kept, beams.expand(count, -1))
            rows, limits, last, ended = rows[kept], limits[kept], last[kept], ended[kept]
    return _collect(history, rules)


def _collect(history: History, rules: Rules) -> Hypotheses:
    """The hypotheses of a finished search."""
    if not rules.batch:
        return []
    tokens, log_probs = history.columns(rules.batch)  # [T, B, K] each
    check_finite(log_probs)
    lengths = (tokens == rules.eos).int().argmax(0).tolist()  # [B, K], before the end of sentence
    limits = rules.max_len.tolist()
    found: Hypotheses = []
    for row, row_lengths in enumerate(lengths):
        row_tokens, row_log_probs = tokens[:, row].T.tolist(), log_probs[:, row].T.tolist()
        hypotheses = [
            rules.hypothesis(row_tokens[k][:n], row_log_probs[k][: n + 1], limits[row])
            for k, n in enumerate(row_lengths)
        ]
        possible = [h for h in hypotheses if h.score > -torch.inf]
        found.append(sorted(possible, key=lambda h: -h.score))
    return found

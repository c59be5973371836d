"""Sampling: translations drawn at random from the model's distribution, or a sharpened part of it.

One number in [0, 1) decides each token: the point where the cumulative distribution passes it. The
numbers come from one generator a sentence, so that a draw does not depend on the other sentences
of its batch, nor on the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seq2seq.decoding.greedy import follow
from seq2seq.decoding.search import Hypotheses, Rules, State, StepFunction

# Below this the likeliest token is certain in every precision; dividing by less might overflow.
COLDEST = 1e-6


def sample(  # noqa: PLR0913 — the rules of a search, each with its own name
    step: StepFunction[State],
    state: State,
    *,
    batch: int,
    bos: int,
    eos: int,
    pad: int,
    max_len: Tensor,
    alpha: float,
    generators: Sequence[np.random.Generator],
    draws: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_len: int = 0,
    banned: Sequence[int] = (),
) -> Hypotheses:
    """Draw outputs token by token.

    Log-probabilities and scores that are reported are of the model itself: before temperature,
    truncation to the likeliest tokens and bans. They say how likely the model holds an output, not
    how often it is drawn.

    Args:
        step: as in `beam_search`, logits [B, K, V]. K is `draws`.
        state: what `step` needs.
        batch: number of sentences.
        bos: token that every output starts from; never produced.
        eos: token that ends an output.
        pad: never produced.
        max_len: [batch], most tokens of each output, as in `beam_search`.
        alpha: of the length penalty in the scores.
        generators: one a sentence.
        draws: K, outputs drawn for each sentence, independently; the same may come twice.
        temperature: logits are divided by it. Towards 0 the draw becomes greedy search; 0 is it.
        top_k: draw from the k likeliest tokens only; 0 = from all.
        top_p: of these, draw from the likeliest that together reach this probability
            (Holtzman et al. 2020); 1 = from all.
        min_len: fewest tokens before the end is allowed.
        banned: further tokens never produced.

    Returns:
        For each sentence its draws, best score first.

    Raises:
        UserError: the model's outputs are NaN.
        ValueError: not one generator a sentence.
    """
    rules = Rules(
        bos=bos, eos=eos, pad=pad, max_len=max_len, alpha=alpha, min_len=min_len, banned=banned
    )
    if not len(generators) == rules.batch == batch:
        raise ValueError(
            f"{len(generators)} generators and {rules.batch} limits for {batch} sentences"
        )
    if temperature < COLDEST:
        temperature, top_k = 1.0, 1

    def choose(logits: Tensor, rows: Tensor) -> Tensor:
        points = np.stack([generators[row].random(draws) for row in rows.tolist()])
        return pick(logits / temperature, torch.from_numpy(points), top_k=top_k, top_p=top_p)

    return follow(step, state, rules, paths=draws, choose=choose)


def pick(logits: Tensor, points: Tensor, *, top_k: int, top_p: float) -> Tensor:
    """The tokens at which the cumulative distributions pass `points`, likeliest tokens first.

    Args:
        logits: [B, K, V]; -inf for what must not be drawn.
        points: [B, K] in [0, 1).
        top_k: how many of the likeliest tokens to keep; 0 = all.
        top_p: probability that the kept ones reach at least.

    Returns:
        Tokens [B, K].
    """
    vocabulary = logits.shape[-1]
    values, tokens = logits.topk(min(top_k or vocabulary, vocabulary))  # likeliest first
    probabilities = values.softmax(-1)
    reached = probabilities.cumsum(-1)  # [B, K, k]
    # Up to and with the token that reaches top_p; rounding must not let in what is impossible.
    kept = (reached < top_p).sum(-1, keepdim=True) + 1
    possible = (probabilities > 0).sum(-1, keepdim=True).clamp(min=1)
    last = torch.minimum(kept, possible) - 1
    points = points.to(reached.dtype).to(reached.device)
    goal = points[..., None] * reached.gather(-1, last)
    place = torch.searchsorted(reached, goal, right=True)
    return tokens.gather(-1, torch.minimum(place, last))[..., 0]

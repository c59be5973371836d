"""Sampling against probabilities written by hand, and against greedy search."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.sampling import pick, sample
from seq2seq.decoding.search import Hypotheses
from seq2seq.errors import UserError

PAD, UNK, BOS, EOS = range(4)
A, B, C = 4, 5, 6
VOCABULARY = 7


class LastToken:
    """A state for models that look at nothing but the last token; keeps which sentence is which."""

    def __init__(self, batch: int) -> None:
        self.sentences = torch.arange(batch)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self.sentences = self.sentences[sentences]


def chain(rows: dict[int, dict[int, float]]) -> Tensor:
    """Log-probabilities [V, V] of the next token given the last."""
    table = torch.full((VOCABULARY, VOCABULARY), -torch.inf, dtype=torch.float64)
    table[:, EOS] = 0.0
    for last, row in rows.items():
        table[last] = -torch.inf
        for token, probability in row.items():
            table[last, token] = math.log(probability)
    return table


def random_chain(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(VOCABULARY, VOCABULARY, generator=generator, dtype=torch.float64)


def draw(
    table: Tensor, batch: int = 1, *, seeds: list[int] | None = None, limit: int = 1, **options
) -> Hypotheses:
    state = LastToken(batch)
    if seeds is not None:
        state.sentences = torch.tensor(seeds)

    return sample(
        lambda last, state: table[last],
        state,
        batch=batch,
        bos=BOS,
        eos=EOS,
        pad=PAD,
        max_len=torch.full((batch,), limit),
        alpha=0.0,
        generators=[np.random.default_rng(seed) for seed in seeds or range(batch)],
        **options,
    )


def greedy(table: Tensor, batch: int, limit: int) -> list[list[int]]:
    found = beam_search(
        lambda last, state: table[last],
        LastToken(batch),
        batch=batch,
        beam=1,
        bos=BOS,
        eos=EOS,
        pad=PAD,
        max_len=torch.full((batch,), limit),
        alpha=0.0,
    )
    return [hypotheses[0].tokens for hypotheses in found]


FIRST = {A: 0.5, B: 0.25, C: 0.15, EOS: 0.1}
DRAWS = 5000


def frequencies(**options) -> dict[int, float]:
    """Shares of the first token; EOS stands for the empty output."""
    (found,) = draw(chain({BOS: FIRST}), draws=DRAWS, **options)
    counts = Counter(hypothesis.tokens[0] if hypothesis.tokens else EOS for hypothesis in found)
    assert sum(counts.values()) == DRAWS
    return {token: count / DRAWS for token, count in counts.items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, FIRST),
        ({"top_p": 1.0, "top_k": 0}, FIRST),
        ({"top_k": 100}, FIRST),
        # p² / Σp²: 0.25, 0.0625, 0.0225, 0.01 of 0.345
        ({"temperature": 0.5}, {A: 0.7246, B: 0.1812, C: 0.0652, EOS: 0.0290}),
        # √p / Σ√p: 0.7071, 0.5, 0.3873, 0.3162 of 1.9106
        ({"temperature": 2.0}, {A: 0.3701, B: 0.2617, C: 0.2027, EOS: 0.1655}),
        ({"top_k": 2}, {A: 2 / 3, B: 1 / 3}),
        ({"top_p": 0.7}, {A: 2 / 3, B: 1 / 3}),  # 0.5 is not enough, 0.75 is
        ({"top_p": 0.76}, {A: 0.5 / 0.9, B: 0.25 / 0.9, C: 0.15 / 0.9}),
        ({"top_p": 0.5}, {A: 1.0}),
        ({"top_k": 3, "top_p": 0.8}, {A: 2 / 3, B: 1 / 3}),  # 0.5 + 0.25 of 0.9 is 0.83
        ({"banned": (B,)}, {A: 0.5 / 0.75, C: 0.15 / 0.75, EOS: 0.1 / 0.75}),
        ({"min_len": 1}, {A: 0.5 / 0.9, B: 0.25 / 0.9, C: 0.15 / 0.9}),
    ],
)
def test_frequencies_of_5000_draws(options: dict[str, float], expected: dict[int, float]) -> None:
    found = frequencies(**options)
    assert set(found) == set(expected)
    for token, share in expected.items():
        # four standard deviations of a binomial share, plus the rounding of the figures above
        assert abs(found[token] - share) <= 4 * math.sqrt(share * (1 - share) / DRAWS) + 1e-4


def test_chi_square_of_whole_outputs() -> None:
    table = chain({BOS: {A: 0.6, B: 0.4}, A: {A: 0.3, B: 0.3, EOS: 0.4}, B: {A: 0.5, EOS: 0.5}})
    (found,) = draw(table, draws=DRAWS, limit=2)
    expected = {
        (A,): 0.6 * 0.4,
        (A, A): 0.6 * 0.3,
        (A, B): 0.6 * 0.3,
        (B,): 0.4 * 0.5,
        (B, A): 0.4 * 0.5,
    }
    counts = Counter(tuple(hypothesis.tokens) for hypothesis in found)
    assert set(counts) == set(expected)
    statistic = sum(
        (counts[output] - DRAWS * share) ** 2 / (DRAWS * share)
        for output, share in expected.items()
    )
    assert statistic < 18.5  # the 0.1 % point of χ² with 4 degrees of freedom


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 1e-30},
        {"temperature": 1e-3},
        {"top_k": 1},
        {"top_p": 1e-9},
        {"temperature": 50.0, "top_k": 1},
    ],
)
def test_what_must_equal_greedy_search(options: dict[str, float]) -> None:
    for seed in range(5):
        table = random_chain(seed)
        found = draw(table, 3, limit=8, **options)
        assert [hypotheses[0].tokens for hypotheses in found] == greedy(table, 3, 8)


def test_same_seeds_same_draws_and_other_seeds_others() -> None:
    table = random_chain(1)
    first, again = draw(table, 8, limit=10), draw(table, 8, limit=10)
    other = draw(table, 8, seeds=list(range(100, 108)), limit=10)
    assert first == again
    assert first != other
    assert len({tuple(hypotheses[0].tokens) for hypotheses in first}) > 1


def test_draws_do_not_depend_on_the_other_sentences() -> None:
    table = random_chain(2)
    together = draw(table, 6, draws=3, limit=10)
    for seed in range(6):
        assert draw(table, 1, seeds=[seed], draws=3, limit=10) == [together[seed]]


def test_reported_log_probabilities_are_of_the_model_itself() -> None:
    table = random_chain(3)
    log_probs = table.log_softmax(-1)
    options = {"temperature": 0.7, "top_k": 3, "top_p": 0.9, "banned": (UNK,), "min_len": 2}
    for hypotheses in draw(table, 5, draws=4, limit=6, **options):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for hypothesis in hypotheses:
            path = [BOS, *hypothesis.tokens, EOS]
            steps = [log_probs[a, b].item() for a, b in itertools.pairwise(path)]
            assert hypothesis.token_log_probs == pytest.approx(steps, abs=1e-12)
            assert hypothesis.score == pytest.approx(sum(steps), abs=1e-12)


def test_limits_and_control_tokens() -> None:
    table = random_chain(4)
    table[:, [PAD, BOS, UNK]] += 5.0
    found = draw(table, 20, limit=4, banned=(UNK,), min_len=3, draws=2)
    hypotheses = [h for both in found for h in both]
    assert {len(h.tokens) for h in hypotheses} == {3, 4}
    assert all(h.hit_limit == (len(h.tokens) == 4) for h in hypotheses)
    assert {token for h in hypotheses for token in h.tokens} <= {A, B, C}


def test_a_point_on_the_edge_never_picks_the_impossible() -> None:
    logits = torch.tensor([[[-torch.inf, 1.0, 1.0, 1.0, -torch.inf]]])
    almost_one = torch.tensor([[1.0 - 2.0**-53]], dtype=torch.float64)  # 1 in single precision
    assert pick(logits, almost_one, top_k=0, top_p=1.0).item() in (1, 2, 3)
    assert pick(logits, almost_one, top_k=4, top_p=1.0).item() in (1, 2, 3)
    assert pick(logits, torch.zeros(1, 1), top_k=0, top_p=1.0).item() in (1, 2, 3)


def test_each_third_of_the_line_is_a_token() -> None:
    logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(1, 4, 3)
    points = torch.tensor([[0.49, 0.51, 0.79, 0.81]])
    assert pick(logits, points, top_k=0, top_p=1.0).tolist() == [[1, 2, 2, 0]]


def test_a_token_owns_the_start_of_its_stretch_but_not_the_end() -> None:
    points = torch.tensor([[0.0, 0.25, 0.5, 0.75]])
    found = pick(torch.zeros(1, 4, 4), points, top_k=0, top_p=1.0).flatten().tolist()
    assert sorted(found) == [0, 1, 2, 3]  # equal shares of ¼: each point begins another


def test_outputs_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="not numbers"):
        draw(torch.full((VOCABULARY, VOCABULARY), torch.nan))


def test_one_generator_a_sentence() -> None:
    with pytest.raises(ValueError, match="generators"):
        draw(random_chain(0), 2, seeds=[1])

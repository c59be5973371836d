"""What holds of every epoch of every corpus."""

from __future__ import annotations

from itertools import chain

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from seq2seq.data.batching import plan_epoch

Lengths = NDArray[np.int64]
lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=120).map(
    lambda pairs: np.array(pairs, dtype=np.int64)
)
budgets = st.integers(1, 200)
seeds = st.integers(0, 2**32)


def plan(pairs: Lengths, budget: int, seed: int, epoch: int) -> list[list[int]]:
    batches = plan_epoch(pairs[:, 0], pairs[:, 1], budget, seed, epoch)
    return [batch.tolist() for batch in batches]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(lengths, budgets, seeds, st.integers(0, 5))
def test_every_pair_once_an_epoch(pairs: Lengths, budget: int, seed: int, epoch: int) -> None:
    batches = plan(pairs, budget, seed, epoch)
    assert all(batches)
    assert sorted(chain(*batches)) == list(range(len(pairs)))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(lengths, budgets, seeds)
def test_within_the_budget_unless_alone(pairs: Lengths, budget: int, seed: int) -> None:
    for batch in plan(pairs, budget, seed, 0):
        padded = int(pairs[batch].max()) * len(batch)  # the wider of the two sides
        assert padded <= budget or len(batch) == 1


@settings(deadline=None, derandomize=True, max_examples=30)
@given(lengths, budgets, seeds, st.integers(0, 5))
def test_seed_and_epoch_decide(pairs: Lengths, budget: int, seed: int, epoch: int) -> None:
    np.random.seed(7)  # noqa: NPY002  no global state has a say
    first = plan(pairs, budget, seed, epoch)
    np.random.seed(8)  # noqa: NPY002
    assert plan(pairs.copy(), budget, seed, epoch) == first


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seeds)
def test_epochs_and_seeds_differ(seed: int) -> None:
    """Not only the order of the batches: also which pairs of one length stand together."""
    pairs = np.full((60, 2), 5, dtype=np.int64)
    plans = [plan(pairs, 20, seed, epoch) for epoch in range(3)] + [plan(pairs, 20, seed + 1, 0)]
    contents = {frozenset(map(frozenset, batches)) for batches in plans}
    assert len(contents) == 4

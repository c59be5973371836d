"""Batches: what they hold, how little of them is padding, and in which order they come."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from seq2seq.choices import SubwordKind
from seq2seq.config import BOS, EOS, PAD, DataConfig, TokenizerConfig
from seq2seq.data.batching import BatchPlan, make_batch, pad, plan_epoch
from seq2seq.data.lines import read_lines
from seq2seq.data.store import TokenStore, build_store
from seq2seq.data.tokenizer import train_tokenizer

MULTI30K = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"


def test_a_batch_by_hand() -> None:
    batch = make_batch([[5], [6, 7, 8]], [[9, 4], []])
    assert batch.source.tolist() == [[5, EOS, PAD, PAD], [6, 7, 8, EOS]]
    assert batch.target_in.tolist() == [[BOS, 9, 4], [BOS, PAD, PAD]]
    assert batch.target_out.tolist() == [[9, 4, EOS], [EOS, PAD, PAD]]
    assert batch.tokens == 4
    assert batch.source.dtype == torch.int64


def test_targets_are_inputs_moved_by_one() -> None:
    batch = make_batch([[4]] * 2, [[5, 6, 7, 8], [9]])
    for inside, outside in zip(batch.target_in.tolist(), batch.target_out.tolist(), strict=True):
        length = outside.index(EOS)
        assert inside[1 : length + 1] == outside[:length]
    assert batch.to(torch.device("cpu")).tokens == batch.tokens


def test_padding_nothing() -> None:
    assert pad([]).shape == (0, 0)
    assert pad([[], [1]]).tolist() == [[PAD], [1]]


def plan(source: list[int], target: list[int], budget: int, epoch: int = 0) -> list[list[int]]:
    arrays = np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)
    return [batch.tolist() for batch in plan_epoch(*arrays, budget, 1, epoch)]


def test_equal_lengths_go_together() -> None:
    """Two kinds of pairs whose lengths let three of a kind fill a batch exactly."""
    source, target = [4, 9] * 6, [5, 10] * 6
    batches = plan(source, target, 30)
    kinds = [{target[i] for i in batch} for batch in batches]
    assert sorted(map(len, batches)) == [3, 3, 6]
    assert all(len(kind) == 1 for kind in kinds)


def test_the_longer_side_counts() -> None:
    """Ten pairs of one target token and of 10 source tokens: five of them hold 50."""
    assert sorted(map(len, plan([10] * 10, [1] * 10, 50))) == [5, 5]
    assert sorted(map(len, plan([1] * 10, [10] * 10, 50))) == [5, 5]


def test_a_pair_longer_than_the_budget_stands_alone() -> None:
    batches = plan([3, 3, 20_000, 3], [3, 3, 2, 3], 500)
    assert [2] in batches
    assert sorted(chain(*batches)) == [0, 1, 2, 3]


def test_one_pair() -> None:
    assert plan([3], [4], 1) == [[0]]


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    pairs = [("abcdefgh"[: i % 8 + 1], "hgfedcba"[: i % 7 + 1]) for i in range(56)]
    config = TokenizerConfig(kind=SubwordKind.char)
    tokenizer = train_tokenizer(config, *zip(*pairs, strict=True))
    return build_store(pairs, tokenizer, DataConfig(), tmp_path / "store")


def test_a_plan_reads_its_pairs_from_the_store(store: TokenStore) -> None:
    batches = BatchPlan(store, 60, seed=3)
    seen = []
    for pairs in batches.epoch(0):
        batch = batches.load(pairs)
        assert batch.source.numel() <= 60
        assert batch.target_out.numel() <= 60
        assert batch.tokens == int((batch.target_out != PAD).sum())
        for row, pair in enumerate(pairs):
            assert batch.source[row].tolist()[: len(store.sentence(0, pair)) + 1] == [
                *store.sentence(0, pair).tolist(),
                EOS,
            ]
        seen += pairs.tolist()
    assert sorted(seen) == list(range(len(store)))


def test_padding_is_the_share_of_target_positions(store: TokenStore) -> None:
    batches = BatchPlan(store, 60, seed=3)
    loaded = [batches.load(pairs) for pairs in batches.epoch(4)]
    positions = sum(batch.target_out.numel() for batch in loaded)
    words = sum(batch.tokens for batch in loaded)
    assert batches.padding(4) == pytest.approx(1 - words / positions)
    assert BatchPlan(store, 10_000, seed=3).padding() > batches.padding()


def test_what_makes_two_plans_the_same(store: TokenStore) -> None:
    assert BatchPlan(store, 60, 3).identity == BatchPlan(store, 60, 3).identity
    assert len({BatchPlan(store, tokens, 3).identity for tokens in (60, 61)}) == 2
    assert len({BatchPlan(store, 60, seed).identity for seed in (3, 4)}) == 2


@pytest.mark.skipif(not MULTI30K.exists(), reason=f"no Multi30k corpus in {MULTI30K}")
@pytest.mark.parametrize("budget", [1024, 4096])
def test_little_of_a_real_epoch_is_padding(budget: int) -> None:
    """Under 10 %, both sides together; lengths in words stand for pieces."""
    lengths = [
        np.array([len(line.split()) + 1 for line in read_lines(MULTI30K / f"train.{lang}.gz")])
        for lang in ("en", "de")
    ]
    batches = plan_epoch(lengths[0], lengths[1], budget, 1, 0)
    assert sum(map(len, batches)) == len(lengths[0]) == 29_000
    padding = []
    for side in lengths:
        positions = sum(int(side[batch].max()) * len(batch) for batch in batches)
        padding.append(1 - int(side.sum()) / positions)
    assert padding[1] < 0.05
    assert sum(padding) / 2 < 0.10

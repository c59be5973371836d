"""Divergence, trees and planes of heads: closed forms, brute force, and shapes that come back."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights, without_heads

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.similarity import (
    Distances,
    Similarity,
    cut,
    js,
    leaves,
    linkage,
    mds,
    table,
)
from seq2seq.attention_maps import AttentionError
from seq2seq.errors import UserError


def previous(n: int) -> np.ndarray:
    return np.eye(n)[[max(i - 1, 0) for i in range(n)]]


def by_definition(p: np.ndarray, q: np.ndarray) -> float:
    """½ KL(P‖M) + ½ KL(Q‖M), term by term."""
    total = 0.0
    for a, b in zip(p.tolist(), q.tolist(), strict=True):
        m = (a + b) / 2
        total += (a * math.log(a / m) if a else 0) + (b * math.log(b / m) if b else 0)
    return total / 2


class TestJensenShannon:
    def test_pinned_values(self):
        a, b = 0.6697615493266569, 0.3302384506733431  # the lesson's two attention weights
        assert js(np.array([a, b]), np.array([b, a])) == pytest.approx(0.058799806210, abs=1e-12)
        assert js(np.eye(2)[0], np.eye(2)[1]) == pytest.approx(math.log(2), abs=1e-12)
        uniform = np.full((6, 6), 1 / 6)
        assert js(uniform, previous(6)).mean() == pytest.approx(0.4539126616, abs=1e-10)

    def test_equal_rows_are_exactly_0_and_the_order_does_not_matter(self):
        rows = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 40))
        assert js(rows[0], rows[0]).max() == 0.0
        assert np.array_equal(js(rows[0], rows[1]), js(rows[1], rows[0]))

    def test_any_rows_also_with_zeros(self):
        rng = np.random.default_rng(1)
        for _ in range(20):
            p, q = rng.dirichlet(np.full(7, 0.3), size=2)
            p[rng.integers(7)], q[rng.integers(7)] = 0, 0
            p, q = p / p.sum(), q / q.sum()
            assert js(p, q) == pytest.approx(by_definition(p, q), abs=1e-12)


class TestStream:
    def test_rows_are_pooled_over_sentences_of_different_length(self):
        records = [make_record(seed=1), make_record(["a"], ["x", "y"], seed=2)]
        stream = Similarity()
        for maps in records:
            stream.add(maps)
        found = stream.distances()["cross"]
        assert [str(h) for h in found.heads[:3]] == ["cross.0.0", "cross.0.1", "cross.1.0"]
        values = [  # rows of words only: </s> as a row does not count
            by_definition(maps.head("cross", 0, 1)[t], maps.head("cross", 2, 0)[t])
            for maps in records
            for t in range(len(maps.tgt_out) - 1)
        ]
        assert len(values) == 6
        assert found.matrix[1, 4] == pytest.approx(np.mean(values), abs=1e-7)
        assert np.array_equal(found.matrix, found.matrix.T)
        assert found.matrix.diagonal().tolist() == [0.0] * 6

    def test_two_heads_that_do_the_same_are_at_distance_0(self):
        maps = make_record()
        weights = maps.layers("enc")[0].copy()
        weights[3] = weights[1]
        stream = Similarity()
        stream.add(with_weights(maps, "enc", 0, weights))
        rows = table(stream.distances()).rows
        assert rows[HeadId("enc", 0, 1)]["nearest"] == "enc.0.3"
        assert rows[HeadId("enc", 0, 3)]["nearest_js"] == 0.0
        assert rows[HeadId("enc", 0, 1)]["group"] == rows[HeadId("enc", 0, 3)]["group"]
        assert len({row["group"] for head, row in rows.items() if head.kind == "enc"}) == 7

    def test_numbers_of_pruned_heads_stay(self):
        stream = Similarity()
        stream.add(without_heads(make_record(), "enc", 1, [0, 2]))
        heads = stream.distances()["enc"].heads
        assert [str(h) for h in heads] == [f"enc.0.{i}" for i in range(4)] + ["enc.1.0", "enc.1.2"]

    def test_records_of_different_models_do_not_mix(self):
        stream = Similarity()
        stream.add(make_record())
        with pytest.raises(AttentionError, match="different models"):
            stream.add(without_heads(make_record(), "dec", 0, [1]))

    def test_a_kind_with_one_head_has_no_neighbour(self):
        stream = Similarity()
        maps = make_record(shape={"enc": (1, 1), "dec": (1, 1), "cross": (1, 1)})
        stream.add(replace(maps, cross=[], layer_ids={**maps.layer_ids, "cross": []},
                           head_ids={**maps.head_ids, "cross": []}))  # fmt: skip
        rows = table(stream.distances()).rows
        assert rows == {HeadId("enc", 0, 0): {"group": 0}, HeadId("dec", 0, 0): {"group": 0}}


def distances_of(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))


class TestTree:
    def test_average_linkage_by_hand(self):
        #  0 and 1 at 1; then 2 to them at (3 + 5) / 2 = 4; then 3 at (10 + 12 + 8) / 3 = 10
        matrix = np.array([[0, 1, 3, 10], [1, 0, 5, 12], [3, 5, 0, 8], [10, 12, 8, 0.0]])
        merges = linkage(matrix)
        assert merges == [(0, 1, 1.0), (4, 2, 4.0), (5, 3, 10.0)]
        assert leaves(merges, 4) == [0, 1, 2, 3]
        assert cut(merges, 4, below=4.5) == [0, 0, 0, 1]
        assert cut(merges, 4, below=1) == [0, 1, 2, 3]

    def test_mean_over_all_pairs_whatever_the_order_of_merging(self):
        matrix = distances_of(np.random.default_rng(3).normal(size=(9, 3)))
        members = {i: [i] for i in range(9)}
        for number, merge in enumerate(linkage(matrix)):
            means = {
                pair: np.mean([matrix[i, j] for i in members[pair[0]] for j in members[pair[1]]])
                for pair in itertools.combinations(members, 2)
            }
            assert merge.distance == pytest.approx(min(means.values()))
            assert means[tuple(sorted((merge.left, merge.right), key=list(members).index))] == (
                pytest.approx(merge.distance)
            )
            members[9 + number] = members.pop(merge.left) + members.pop(merge.right)
        assert sorted(leaves(linkage(matrix), 9)) == list(range(9))

    def test_one_head_or_none(self):
        assert linkage(np.zeros((1, 1))) == []
        assert leaves([], 1) == [0]
        assert leaves([], 0) == []
        assert cut([], 1, 0.5) == [0]

    def test_order_puts_what_is_alike_side_by_side(self):
        points = np.array([[0.0], [10], [0.1], [10.1], [0.2]])
        heads = [HeadId("enc", 0, i) for i in range(5)]
        found = Distances(heads, distances_of(points))
        near = [place in (1, 3) for place in found.order()]
        assert near in ([False] * 3 + [True] * 2, [True] * 2 + [False] * 3)
        assert list(found.groups(below=1).values()) == [0, 1, 0, 1, 0]


class TestPlane:
    def test_points_of_a_plane_come_back_up_to_rotation(self):
        points = np.random.default_rng(0).normal(size=(8, 2))
        plane = mds(distances_of(points))
        assert distances_of(plane.points) == pytest.approx(distances_of(points), abs=1e-9)
        assert plane.share == pytest.approx(1)

    def test_the_same_bytes_twice_and_a_fixed_sign(self):
        matrix = distances_of(np.random.default_rng(2).normal(size=(10, 4)))
        first, second = mds(matrix), mds(matrix.copy())
        assert first.points.tobytes() == second.points.tobytes()
        assert first.share < 1
        for axis in first.points.T:
            assert axis[np.abs(axis).argmax()] > 0

    def test_no_distance_and_few_heads(self):
        assert np.array_equal(mds(np.zeros((3, 3))).points, np.zeros((3, 2)))
        assert mds(np.zeros((1, 1))).points.tolist() == [[0, 0]]
        two = mds(np.array([[0, 4.0], [4, 0]])).points
        assert np.abs(two[0] - two[1]).tolist() == pytest.approx([4, 0])

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (np.zeros((2, 3)), "square"),
            (np.array([[0, np.nan], [np.nan, 0]]), "finite"),
            (np.array([[0, 1.0], [2, 0]]), "both directions"),
        ],
    )
    def test_what_are_no_distances_is_refused(self, matrix, message):
        with pytest.raises(UserError, match=message):
            mds(matrix)

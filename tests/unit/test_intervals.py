"""Bootstrap intervals against theory, and that groups stay together."""

import numpy as np
import pytest

from seq2seq.analysis.intervals import Bootstrap, wilson


def test_of_a_mean_it_is_about_two_standard_errors():
    values = np.random.default_rng(1).normal(3, 2, size=400)
    low, high = Bootstrap(range(400), trials=4000).interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_a_ratio_of_sums_weighs_what_it_is_over():
    over = np.array([1.0, 2.0, 5.0, 9.0])
    assert Bootstrap(range(4)).interval(0.25 * over, over) == pytest.approx((0.25, 0.25))
    low, high = Bootstrap(range(2)).interval(np.array([1.0, 0.0]), np.array([1.0, 3.0]))
    assert (low, high) == (0, 1)  # samples of the first twice, of the second twice


def test_what_belongs_together_is_drawn_together():
    values = np.array([1.0, 5.0, -2.0, -1.0, -5.0, 2.0])
    assert Bootstrap([0, 1, 2, 0, 1, 2]).interval(values) == (0, 0)
    low, high = Bootstrap(range(6)).interval(values)
    assert low < 0 < high


def test_the_same_every_time_and_nothing_for_a_single_group():
    values = np.arange(7.0)
    assert Bootstrap(range(7)).interval(values) == Bootstrap(range(7)).interval(values)
    assert Bootstrap([3, 3, 3]).interval(values[:3]) is None


@pytest.mark.parametrize("count", [1, 3, 20, 999])
def test_wilson_never_leaves_0_to_1_and_holds_the_share(count):
    for hits in (0, count // 2, count):
        low, high = wilson(hits, count)
        assert 0 <= low <= hits / count + 1e-12
        assert hits / count - 1e-12 <= high <= 1

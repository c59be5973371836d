"""The learning-rate schedules against the paper's equation and at their corners."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from seq2seq.choices import Schedule
from seq2seq.config import OptimConfig
from seq2seq.training.optim import build_optimizer, learning_rate, peak_rate

SCHEDULES = list(Schedule)


def equation_3(d_model: int, step: int, warmup: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


@pytest.mark.parametrize("step", [1, 2, 3999, 4000, 4001, 16_000, 100_000])
def test_the_paper_s_equation(step: int) -> None:
    rate = learning_rate(OptimConfig(), 512, step, 0.0)
    assert rate == pytest.approx(equation_3(512, step, 4000), rel=1e-12)


def test_the_paper_s_numbers() -> None:
    """With width 512 and warm-up 4000: worked out by hand."""
    config = OptimConfig()
    peak = 1 / math.sqrt(512 * 4000)
    assert peak == pytest.approx(6.987712e-4, rel=1e-6)
    assert peak_rate(config, 512) == pytest.approx(peak, rel=1e-12)
    assert learning_rate(config, 512, 1, 0.0) == pytest.approx(peak / 4000, rel=1e-12)
    assert learning_rate(config, 512, 4000, 0.3) == pytest.approx(peak, rel=1e-12)
    assert learning_rate(config, 512, 16_000, 0.9) == pytest.approx(peak / 2, rel=1e-12)


def test_a_peak_of_one_s_own_scales_the_same_shape() -> None:
    config = OptimConfig(lr=0.1, warmup=100)
    rates = [learning_rate(config, 512, step, 0.0) for step in (1, 50, 100, 400)]
    assert rates == pytest.approx([0.001, 0.05, 0.1, 0.05], rel=1e-12)


def test_linear_falls_to_nothing_at_the_end() -> None:
    config = OptimConfig(schedule=Schedule.linear, lr=1.0, warmup=10)
    rates = [learning_rate(config, 64, step, (step - 1) / 100) for step in range(1, 101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[4] == pytest.approx(0.5)
    assert rates[50] == pytest.approx(0.5)
    assert rates[-1] == pytest.approx(0.01)  # the last update still learns
    assert learning_rate(config, 64, 101, 1.0) == 0.0
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_constant_stays() -> None:
    config = OptimConfig(schedule=Schedule.constant, lr=0.3, warmup=3)
    rates = [learning_rate(config, 64, step, step / 1000) for step in (1, 2, 3, 4, 1000)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.3])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 7, 1000])
def test_every_warm_up_starts_above_zero_and_peaks_at_its_end(
    schedule: Schedule, warmup: int
) -> None:
    """No warm-up, one update of it, and more of it than there is training."""
    config = OptimConfig(schedule=schedule, lr=0.5, warmup=warmup)
    rates = [learning_rate(config, 32, step, (step - 1) / 50) for step in range(1, 51)]
    assert all(0.0 < rate <= 0.5 for rate in rates)
    assert rates[0] == pytest.approx(0.5 / max(warmup, 1))
    if warmup <= 1:
        assert rates[0] == max(rates)
    if warmup == 7 and schedule is not Schedule.linear:
        assert rates[6] == max(rates) == 0.5
    if warmup == 1000 and schedule is not Schedule.linear:
        assert rates == sorted(rates)


def test_the_paper_s_peak_without_warm_up_is_finite() -> None:
    assert peak_rate(OptimConfig(warmup=0), 256) == peak_rate(OptimConfig(warmup=1), 256) == 1 / 16


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[3.0, -2.0]], dtype=torch.float64))
        self.vector = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))


def test_adam_is_the_paper_s() -> None:
    """Two steps worked out from Kingma and Ba's algorithm 1."""
    model = Small()
    optimizer = build_optimizer(model, OptimConfig())
    m = v = 0.0
    x = 1.0
    for step, gradient in enumerate((0.5, -2.0), start=1):
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        model.matrix.grad = torch.zeros_like(model.matrix)
        model.vector.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        x -= 0.1 * (m / (1 - 0.9**step)) / (math.sqrt(v / (1 - 0.98**step)) + 1e-9)
        assert float(model.vector.detach()) == pytest.approx(x, rel=1e-12)
    assert model.matrix.tolist() == [[3.0, -2.0]]


def test_weight_decay_spares_vectors() -> None:
    model = Small()
    optimizer = build_optimizer(model, OptimConfig(weight_decay=0.1))
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert model.matrix.tolist() == [[pytest.approx(3.0 * 0.95), pytest.approx(-2.0 * 0.95)]]
    assert model.vector.tolist() == [1.0]

"""Dropout: the share, the scale, the seed, on every path."""

import math

import pytest
import torch
import torch.nn.functional as F

from seq2seq.model.dropout import Dropout, dropout

N = 200_000


def rounded(p):
    return max(round(p * 256), 1) / 256


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_share_and_scale(p):
    out = dropout(torch.ones(N, dtype=torch.float64), p)
    p = min(rounded(p), 255 / 256)
    zeros = (out == 0).sum().item() / N
    assert abs(zeros - p) < 5 * math.sqrt(p * (1 - p) / N)
    # every element that stays is divided by the keep-probability, so that the mean stays 1
    assert torch.allclose(out[out != 0], torch.tensor(1 / (1 - p), dtype=torch.float64))
    assert abs(out.mean().item() - 1) < 5 * math.sqrt(p / (1 - p) / N)


def test_the_share_is_the_one_asked_for_to_a_512th():
    for p in (0.05, 0.1, 0.2, 0.3, 0.5):
        assert abs(rounded(p) - p) <= 1 / 512


def test_as_pytorchs_dropout_in_distribution():
    ours, theirs = dropout(torch.ones(N), 0.25), F.dropout(torch.ones(N), 0.25)
    assert ours.unique().tolist() == theirs.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    bound = 5 * math.sqrt(2 * 0.25 * 0.75 / N)
    assert abs(((ours == 0).float().mean() - (theirs == 0).float().mean()).item()) < bound


@pytest.mark.parametrize("axis", [0, 1])
def test_neighbours_are_independent(axis):
    zero = dropout(torch.ones(500, 400), 0.5) == 0
    both = zero.narrow(axis, 0, zero.shape[axis] - 1) & zero.narrow(axis, 1, zero.shape[axis] - 1)
    assert abs(both.float().mean().item() - 0.25) < 0.01


def test_off_returns_the_input_itself():
    x = torch.randn(3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
    assert Dropout(0.5).eval()(x) is x


def test_the_module_is_on_in_training():
    assert (Dropout(0.5).train()(torch.ones(100)) == 0).any()


def test_gradient_passes_where_the_value_passed():
    x = torch.ones(1000, requires_grad=True)
    out = dropout(x, 0.5)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_reproducible_by_pytorchs_seed_alone():
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(dropout(torch.ones(64), 0.5))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_two_calls_draw_different_masks():
    x = torch.ones(64)
    assert not torch.equal(dropout(x, 0.5), dropout(x, 0.5))


@pytest.mark.parametrize("shape", [(0,), (), (1,), (7,), (3, 0, 2), (5, 3)])
def test_any_shape(shape):
    assert dropout(torch.ones(shape), 0.5).shape == shape


def test_a_transposed_tensor():
    x = torch.rand(30, 20).T + 1
    out = dropout(x, 0.5)
    assert torch.allclose(out[out != 0], 2 * x[out != 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_type_stays(dtype):
    assert dropout(torch.ones(4, dtype=dtype), 0.5).dtype == dtype


def test_other_devices_take_pytorchs_kernel(monkeypatch):
    calls = []
    monkeypatch.setattr(F, "dropout", lambda x, p: calls.append(p) or x)
    dropout(torch.ones(4, device="meta"), 0.3)
    assert calls == [0.3]


def test_printing_shows_the_probability():
    assert repr(Dropout(0.1)) == "Dropout(p=0.1)"

"""The training loss against the paper's definition, written out by hand in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seq2seq.config import PAD, ModelConfig
from seq2seq.data.batching import make_batch
from seq2seq.model.transformer import Transformer
from seq2seq.training import loss
from seq2seq.training.loss import summed_loss

SMOOTHINGS = [0.0, 0.1, 0.7]


def by_hand(logits: np.ndarray, targets: np.ndarray, smoothing: float) -> tuple[float, float]:
    """-Σ q log p, word by word, with q = 1 - ε on the gold piece plus ε / V on every piece."""
    smoothed = plain = 0.0
    for row, gold in zip(logits.reshape(-1, logits.shape[-1]), targets.ravel(), strict=True):
        if gold == PAD:
            continue
        log_p = row - math.log(sum(math.exp(x) for x in row))
        q = np.full(len(row), smoothing / len(row))
        q[gold] += 1.0 - smoothing
        smoothed -= float(q @ log_p)
        plain -= float(log_p[gold])
    return smoothed, plain


def example(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = np.random.default_rng(seed)
    targets = random.integers(1, 7, (3, 5))
    targets[0, 3:] = PAD
    targets[2, 1:] = PAD
    return torch.tensor(3 * random.standard_normal((3, 5, 7))), torch.tensor(targets)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_it_is_the_definition(smoothing: float) -> None:
    logits, targets = example()
    smoothed, plain = summed_loss(logits, targets, smoothing)
    expected = by_hand(logits.numpy(), targets.numpy(), smoothing)
    assert float(smoothed) == pytest.approx(expected[0], rel=1e-12)
    assert float(plain) == pytest.approx(expected[1], rel=1e-12)
    assert not plain.requires_grad


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_uniform_logits_cost_log_v_a_word(smoothing: float) -> None:
    targets = torch.tensor([[4, 5, 3, PAD], [6, 3, PAD, PAD]])
    smoothed, plain = summed_loss(torch.full((2, 4, 11), 2.5), targets, smoothing)
    assert float(smoothed) == pytest.approx(5 * math.log(11), rel=1e-6)
    assert float(plain) == pytest.approx(5 * math.log(11), rel=1e-6)


def test_a_perfect_model_pays_the_entropy_of_the_smoothed_target() -> None:
    """With p = q the loss is the entropy of q, which no model can beat."""
    vocabulary, smoothing = 9, 0.1
    q = torch.full((vocabulary,), smoothing / vocabulary, dtype=torch.float64)
    q[4] += 1 - smoothing
    entropy = -float((q * q.log()).sum())
    best, _ = summed_loss(q.log()[None, None], torch.tensor([[4]]), smoothing)
    surer, _ = summed_loss(3 * q.log()[None, None], torch.tensor([[4]]), smoothing)
    assert float(best) == pytest.approx(entropy, rel=1e-12)
    assert float(surer) > entropy


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_gradient_is_that_of_the_definition(smoothing: float) -> None:
    """Against finite differences, and p - q in closed form."""
    logits, targets = example(1)
    logits.requires_grad_()
    slopes = torch.zeros_like(logits).flatten()
    for place in range(slopes.numel()):
        step = torch.zeros_like(slopes)
        step[place] = 1e-5
        ahead, behind = (
            logits.detach() + step.view_as(logits),
            logits.detach() - step.view_as(logits),
        )
        rise = (
            summed_loss(ahead, targets, smoothing)[0] - summed_loss(behind, targets, smoothing)[0]
        )
        slopes[place] = rise / 2e-5
    (2.0 * summed_loss(logits.clone(), targets, smoothing)[0]).backward()
    q = torch.nn.functional.one_hot(targets, 7).double() * (1 - smoothing) + smoothing / 7
    expected = 2.0 * (logits.softmax(-1) - q) * (targets != PAD)[..., None]
    assert torch.allclose(logits.grad, expected, rtol=0, atol=1e-12)  # type: ignore[arg-type]
    assert torch.allclose(slopes.view_as(logits), expected / 2.0, rtol=0, atol=1e-8)


def test_a_gradient_cannot_be_taken_twice() -> None:
    """It took the place of the logits: a second time must not give something else silently."""
    logits, targets = example(1)
    smoothed, _ = summed_loss(logits.requires_grad_() * 1.0, targets, 0.1)
    smoothed.backward(retain_graph=True)
    with pytest.raises(AttributeError):
        smoothed.backward()


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_blocks_change_nothing(smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are worked on at once; here one, two, and the whole."""
    found = []
    for block in (1, 14, 1 << 20):
        monkeypatch.setattr(loss, "CPU_BLOCK", block)
        logits, targets = example(2)
        logits.requires_grad_()
        smoothed, plain = summed_loss(logits * 1.0, targets, smoothing)
        smoothed.backward()
        assert logits.grad is not None
        found.append(torch.cat((logits.grad.flatten(), smoothed.detach()[None], plain[None])))
    for other in found[1:]:
        assert torch.allclose(found[0], other, rtol=0, atol=1e-12)


def test_logits_are_kept_where_no_gradient_is_wanted_and_misuse_is_an_error() -> None:
    logits, targets = example(3)
    before = logits.clone()
    summed_loss(logits, targets, 0.1)
    assert torch.equal(logits, before)
    root = logits.clone().requires_grad_()
    used = root * 1.0
    square = used * used  # needs the logits going back
    smoothed, _ = summed_loss(used, targets, 0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (smoothed + square.sum()).backward()


def test_large_logits_neither_overflow_nor_lose_the_small_difference() -> None:
    logits = torch.tensor([[[1e4, 1e4 - 1.0, 0.0, -1e4]]], dtype=torch.float32)
    smoothed, plain = summed_loss(logits, torch.tensor([[1]]), 0.0)
    assert float(plain) == pytest.approx(1 + math.log1p(math.exp(-1)), rel=1e-3)
    assert float(smoothed) == float(plain)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.zeros(64, 64, 16, dtype=dtype)
    smoothed, plain = summed_loss(logits, torch.full((64, 64), 5), 0.1)
    assert smoothed.dtype == plain.dtype == torch.float32
    assert float(plain) == pytest.approx(4096 * math.log(16), rel=1e-5)  # float16 ends at 65504


def test_not_a_number_stays_visible() -> None:
    logits, targets = example()
    logits[1, 0, 2] = math.nan
    smoothed, plain = summed_loss(logits, targets, 0.1)
    assert math.isnan(float(smoothed))
    assert math.isnan(float(plain))


PAIRS = [([4, 5], [6]), ([5, 6, 7, 8], [7, 4, 5, 9, 4, 6]), ([9], [8, 8]), ([6, 6, 4], [5, 7, 9])]


def gradients(model: Transformer, parts: list[list[int]], extra: int = 0) -> list[Tensor]:
    """Gradient of one update whose micro-batches hold the pairs of these numbers."""
    model.zero_grad()
    batches = [make_batch([PAIRS[i][0] for i in p], [PAIRS[i][1] for i in p]) for p in parts]
    tokens = sum(batch.tokens for batch in batches)
    for batch in batches:
        wide = [
            torch.nn.functional.pad(ids, (0, extra), value=PAD)
            for ids in (batch.source, batch.target_in, batch.target_out)
        ]
        total, _ = summed_loss(model(wide[0], wide[1]), wide[2], 0.1)
        (total / tokens).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=16, d_ff=32, encoder_heads=2, decoder_heads=2, encoder_layers=2, decoder_layers=2
    )
    config.source_vocab = config.target_vocab = 10
    return Transformer(config).double().eval()


@pytest.mark.parametrize("parts", [[[0, 1], [2, 3]], [[1], [0, 2, 3]], [[0], [1], [2], [3]]])
def test_micro_batches_add_up_to_one_large_batch(
    model: Transformer, parts: list[list[int]]
) -> None:
    """However the pairs of an update are cut up, and though the parts differ in length."""
    whole = gradients(model, [[0, 1, 2, 3]])
    assert max(float(g.abs().max()) for g in whole) > 1e-3
    for one, many in zip(whole, gradients(model, parts), strict=True):
        assert torch.allclose(one, many, rtol=0, atol=1e-10)


def test_padding_changes_neither_loss_nor_gradient(model: Transformer) -> None:
    tight = gradients(model, [[0, 1, 2, 3]])
    for one, padded in zip(tight, gradients(model, [[0, 1, 2, 3]], extra=7), strict=True):
        assert torch.allclose(one, padded, rtol=0, atol=1e-10)

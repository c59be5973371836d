"""Scaled dot-product attention: its two paths, masks and dropout, against loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from model_samples import assert_same, random_mask

from seq2seq.model import attention
from seq2seq.model.attention import MultiHeadAttention, scaled_dot_product_attention
from seq2seq.model.masks import causal_mask

B, H, T, DK, DV = 2, 3, 5, 4, 7


@pytest.fixture(params=["explicit", "fused"])
def path(request, monkeypatch):
    return use(monkeypatch, request.param)


def use(monkeypatch, path):
    monkeypatch.setattr(attention, "CPU_FUSED_MIN_KEYS", 0 if path == "fused" else 10**9)
    return path


def qkv(tq=T, tk=T, dtype=torch.float64, grad=False):
    shapes = (B, H, tq, DK), (B, H, tk, DK), (B, H, tk, DV)
    return tuple(torch.randn(shape, dtype=dtype, requires_grad=grad) for shape in shapes)


def loop(query, key, value, allowed):
    """Equation 1, one number at a time; `allowed(b, h, i, j)`."""
    out = torch.zeros(*query.shape[:3], value.shape[-1], dtype=torch.float64)
    weights = torch.zeros(*query.shape[:3], key.shape[2], dtype=torch.float64)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for i in range(query.shape[2]):
                keys = [j for j in range(key.shape[2]) if allowed(b, h, i, j)]
                scores = [
                    math.exp((query[b, h, i] @ key[b, h, j]).item() / math.sqrt(query.shape[-1]))
                    for j in keys
                ]
                for j, score in zip(keys, scores, strict=True):
                    weights[b, h, i, j] = score / sum(scores)
                    out[b, h, i] += weights[b, h, i, j] * value[b, h, j]
    return out, weights


MASKS = {
    "none": lambda: None,
    "keys": lambda: random_mask(B, 1, 1, T),
    "keys of all": lambda: random_mask(1, 1, 1, T),
    "queries and keys": lambda: random_mask(B, 1, T, T),
    "heads": lambda: random_mask(B, H, T, T),
}


@pytest.mark.parametrize("kind", MASKS)
def test_each_path_equals_the_loop(kind, path):
    query, key, value = qkv()
    mask = MASKS[kind]()
    full = torch.ones(B, H, T, T, dtype=torch.bool) if mask is None else mask.expand(B, H, T, T)
    out, _ = scaled_dot_product_attention(query, key, value, mask=mask)
    assert_same(out, loop(query, key, value, lambda *at: full[at])[0])


def test_each_path_is_causal(path):
    query, key, value = qkv()
    out, _ = scaled_dot_product_attention(query, key, value, causal=True)
    assert_same(out, loop(query, key, value, lambda b, h, i, j: j <= i)[0])


@pytest.mark.parametrize("kind", MASKS)
def test_weights_equal_the_loop(kind):
    query, key, value = qkv(tq=3)
    mask = None if kind == "none" else random_mask(B, H, 3, T)
    out, weights = scaled_dot_product_attention(query, key, value, mask=mask, need_weights=True)
    wanted = loop(query, key, value, lambda *at: mask is None or mask[at])
    assert_same(out, wanted[0])
    assert_same(weights, wanted[1])


def test_causal_weights_equal_the_loop_and_are_exactly_0_above_the_diagonal():
    query, key, value = qkv()
    _, weights = scaled_dot_product_attention(query, key, value, causal=True, need_weights=True)
    assert_same(weights, loop(query, key, value, lambda b, h, i, j: j <= i)[1])
    assert weights.triu(1).abs().max() == 0.0


def test_gradients_of_the_paths_agree(monkeypatch):
    inputs = qkv(grad=True)
    mask = random_mask(B, 1, T, T)
    mask[0, 0, 2] = False
    gradients = {}
    for name in ("explicit", "fused"):
        use(monkeypatch, name)
        out, _ = scaled_dot_product_attention(*inputs, mask=mask)
        gradients[name] = torch.autograd.grad(out.square().sum(), inputs)
    for a, b in zip(gradients["explicit"], gradients["fused"], strict=True):
        assert_same(a, b)


def test_the_switch_really_chooses_the_path(monkeypatch):
    calls = []

    def fused(*args, **kwargs):
        calls.append(kwargs)
        return torch.zeros(1)

    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    few, many = attention.CPU_FUSED_MIN_KEYS - 1, attention.CPU_FUSED_MIN_KEYS
    scaled_dot_product_attention(*qkv(tq=1, tk=few))
    assert not calls
    scaled_dot_product_attention(*qkv(tq=1, tk=many))
    assert len(calls) == 1
    scaled_dot_product_attention(*qkv(tq=1, tk=many), need_weights=True)
    assert len(calls) == 1


def test_weights_are_not_returned_unless_asked(path):
    module = MultiHeadAttention(8, 2)
    x = torch.randn(1, 3, 8)
    assert module(x, module.project_kv(x))[1] is None
    assert module(x, module.project_kv(x), need_weights=True)[1].shape == (1, 2, 3, 3)


def test_asking_for_weights_does_not_change_the_output(path):
    inputs = qkv()
    mask = random_mask(B, 1, 1, T)
    plain, _ = scaled_dot_product_attention(*inputs, mask=mask)
    looked_at, _ = scaled_dot_product_attention(*inputs, mask=mask, need_weights=True)
    assert_same(plain, looked_at)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_query_without_any_key_gives_0_with_finite_gradients(dtype, path):
    inputs = qkv(dtype=dtype, grad=True)
    mask = torch.ones(B, 1, T, T, dtype=torch.bool)
    mask[0, 0, 2] = False  # one query of one sentence
    mask[1] = False  # a whole sentence
    out, _ = scaled_dot_product_attention(*inputs, mask=mask)
    assert out[0, :, 2].abs().max() == 0.0
    assert out[1].abs().max() == 0.0
    assert out[0, :, [0, 1, 3, 4]].abs().min() > 0.0
    for gradient in torch.autograd.grad(out.sum(), inputs):
        assert gradient.isfinite().all()
        assert gradient[0].abs().max() > 0.0


def test_the_weights_of_a_query_without_any_key_are_0():
    mask = torch.ones(B, 1, T, T, dtype=torch.bool)
    mask[0, 0, 2] = False
    _, weights = scaled_dot_product_attention(*qkv(), mask=mask, need_weights=True)
    assert weights[0, :, 2].abs().max() == 0.0
    assert_same(weights.sum(-1)[1], torch.ones(H, T, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masked_keys_get_exactly_0_at_any_size_of_scores(dtype):
    query, key, value = qkv(dtype=dtype)
    mask = random_mask(B, 1, 1, T)
    mask[..., -1] = False
    for scale in (1e-3, 1.0, 60.0):
        _, weights = scaled_dot_product_attention(
            query * scale, key * scale, value, mask=mask, need_weights=True
        )
        assert weights.isfinite().all()
        assert weights.masked_select(~mask.expand_as(weights)).abs().max() == 0.0


def test_causal_needs_as_many_queries_as_keys(path):
    # The fused kernel would align the triangle with the top left corner: the first keys only.
    with pytest.raises(ValueError, match="1 and 5"):
        scaled_dot_product_attention(*qkv(tq=1), causal=True)


def test_causal_excludes_a_mask(path):
    mask = torch.ones(B, 1, 1, T, dtype=torch.bool)
    with pytest.raises(ValueError, match="not both"):
        scaled_dot_product_attention(*qkv(), mask=mask, causal=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8])
def test_a_mask_that_is_not_boolean_is_refused(dtype, path):
    # As numbers, the fused kernel would add it to the scores.
    with pytest.raises(ValueError, match="boolean"):
        scaled_dot_product_attention(*qkv(), mask=torch.ones(B, 1, 1, T, dtype=dtype))


def test_causal_equals_the_lower_triangle_as_a_mask(path):
    inputs = qkv()
    by_flag, _ = scaled_dot_product_attention(*inputs, causal=True)
    by_mask, _ = scaled_dot_product_attention(*inputs, mask=causal_mask(T)[None, None])
    assert_same(by_flag, by_mask)


# Dropout on the weights


def test_dropout_falls_on_weights_not_on_values(path):
    # All values are 1, so an output is the sum of a row's weights: dropping features of the
    # output would give 0 or 2 in single columns, dropping weights gives equal columns.
    query, key, _ = qkv(tq=40, tk=40)
    value = torch.ones(B, H, 40, 3, dtype=torch.float64)
    out, _ = scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert_same(out[..., :1].expand_as(out), out)
    assert out.std() > 0.01
    assert abs(out.mean().item() - 1.0) < 0.05


def test_returned_weights_are_those_before_dropout():
    inputs = qkv()
    _, clean = scaled_dot_product_attention(*inputs, need_weights=True)
    out, weights = scaled_dot_product_attention(*inputs, dropout_p=0.5, need_weights=True)
    assert torch.equal(weights, clean)
    assert not torch.allclose(out, weights @ inputs[2])


def test_attention_dropout_is_for_training_only(path):
    module = MultiHeadAttention(8, 2, dropout=0.5).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    kv = module.project_kv(x)
    without = MultiHeadAttention(8, 2).double()
    without.load_state_dict(module.state_dict())
    assert_same(module.eval()(x, kv)[0], without(x, kv)[0])
    assert not torch.allclose(module.train()(x, kv)[0], without(x, kv)[0])


def test_attention_dropout_follows_the_seed(path):
    module = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(2, 6, 8)
    kv = module.project_kv(x)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(module(x, kv)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])

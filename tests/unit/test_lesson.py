"""The worked example and the counts of the lesson on multi-head attention, by the real module."""

import math

import pytest
import torch
from model_samples import assert_same, random_ids, tiny_model
from torch.utils.flop_counter import FlopCounterMode

from seq2seq.config import BOS
from seq2seq.model.attention import MultiHeadAttention, scaled_dot_product_attention
from seq2seq.model.transformer import parameter_count

X = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]], dtype=torch.float64)  # "I", "learn."
A, C = 0.6697615493266569, 0.3302384506733431  # softmax of (1/√2, 0)


def lesson_module(n_heads=2):
    """Projections that hand dimensions 2i, 2i+1 to head i; W_O the identity; no biases."""
    module = MultiHeadAttention(4, n_heads).double().eval()
    with torch.no_grad():
        for linear in (module.w_q, module.w_k, module.w_v, module.w_o):
            linear.weight.copy_(torch.eye(4))
            linear.bias.zero_()
    return module


def attend(module, x):
    out, weights = module(x[None], module.project_kv(x[None]), need_weights=True)
    return out[0], weights[0]


def jensen_shannon(p, q):
    m = (p + q) / 2
    return ((p * (p / m).log() + q * (q / m).log()).sum(-1) / 2).mean().item()


def test_the_constants_follow_from_the_equation():
    assert math.isclose(A, 1 / (1 + math.exp(-1 / math.sqrt(2))), rel_tol=1e-15)
    assert math.isclose(A + C, 1.0, rel_tol=1e-15)


def test_projections_select_pairs_of_dimensions():
    module = lesson_module()
    query = module.project_q(X[None])[0]
    identity = torch.eye(2, dtype=torch.float64)
    assert torch.equal(query[0], identity)
    assert torch.equal(query[1], identity)
    key, value = module.project_kv(X[None])
    assert torch.equal(key[0], query)
    assert torch.equal(value[0], query)


def test_weights_of_both_heads():
    _, weights = attend(lesson_module(), X)
    wanted = torch.tensor([[A, C], [C, A]], dtype=torch.float64)
    assert_same(weights, torch.stack((wanted, wanted)), 1e-15)


def test_concatenation_and_identity_output_projection():
    out, _ = attend(lesson_module(), X)
    wanted = torch.tensor([[A, C, A, C], [C, A, C, A]], dtype=torch.float64)
    assert_same(out, wanted, 1e-15)


def test_equal_heads_read_different_dimensions():
    _, weights = attend(lesson_module(), X)
    assert jensen_shannon(weights[0], weights[1]) == 0.0
    changed = X.clone()
    changed[0, 2] = 0.0  # a dimension that only the second head reads
    _, weights = attend(lesson_module(), changed)
    assert_same(weights[0], torch.tensor([[A, C], [C, A]], dtype=torch.float64), 1e-15)
    assert jensen_shannon(weights[0], weights[1]) > 0.005
    # its first query is 0 now, so it attends evenly
    assert_same(weights[1][0], torch.tensor([0.5, 0.5], dtype=torch.float64), 1e-15)


def test_one_head_gives_one_distribution_that_is_sharper():
    _, weights = attend(lesson_module(n_heads=1), X)
    assert weights.shape == (1, 2, 2)
    # dot product 2 on the diagonal, 2 / √4 = 1
    assert math.isclose(weights[0, 0, 0].item(), 0.731058578630, abs_tol=1e-12)


def test_scaling_by_the_root_of_the_width():
    x = torch.eye(2, dtype=torch.float64)[None, None]
    _, scaled = scaled_dot_product_attention(x, x, x, need_weights=True)
    _, unscaled = scaled_dot_product_attention(x * math.sqrt(2), x, x, need_weights=True)
    assert math.isclose(scaled[0, 0, 0, 0].item(), 0.669761549327, abs_tol=1e-12)
    assert math.isclose(unscaled[0, 0, 0, 0].item(), 0.731058578630, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("d_model", "n_heads", "d_k", "width"),
    [(512, 8, None, 64), (512, 4, 64, 64), (768, 12, None, 64)],
)
def test_shapes_of_the_lesson_from_the_tensors_themselves(d_model, n_heads, d_k, width):
    module = MultiHeadAttention(d_model, n_heads, d_k, d_k)
    seen = {}
    for name in ("w_q", "w_k", "w_v", "w_o"):
        getattr(module, name).register_forward_hook(
            lambda _, inputs, output, name=name: seen.update(
                {name: (inputs[0].shape, output.shape)}
            )
        )
    x = torch.randn(1, 4, d_model)
    kv = module.project_kv(x)
    assert module.project_q(x).shape == kv.key.shape == kv.value.shape == (1, n_heads, 4, width)
    out, weights = module(x, kv, need_weights=True)
    concat = n_heads * width
    assert seen["w_q"] == seen["w_k"] == seen["w_v"] == ((1, 4, d_model), (1, 4, concat))
    assert seen["w_o"] == ((1, 4, concat), (1, 4, d_model))
    assert out.shape == x.shape
    assert weights.numel() == n_heads * 4 * 4


def test_number_of_score_entries():
    model = tiny_model(encoder_heads=8, decoder_heads=8)
    source, target = random_ids(1, 4, 11), random_ids(1, 5, 13)
    seen = model.attention_weights(source, target)
    assert [w.numel() for w in seen.encoder] == [8 * 4 * 4] * 2 == [128] * 2
    assert [w.numel() for w in seen.decoder] == [8 * 5 * 5] * 3
    assert [w.numel() for w in seen.cross] == [8 * 5 * 4] * 3


def flops(n_heads, n, d=64):
    module = MultiHeadAttention(d, n_heads)
    x = torch.randn(1, n, d)
    with FlopCounterMode(display=False) as counter:
        module(x, module.project_kv(x), need_weights=True)
    return counter.get_total_flops()


def test_cost_does_not_grow_with_the_number_of_heads():
    n, d = 10, 64
    wanted = 4 * n * n * d + 8 * n * d * d  # QKᵀ and AV, and the four projections
    assert [flops(h, n) for h in (1, 2, 4, 8)] == [wanted] * 4


def test_cost_is_quadratic_in_length():
    d, n = 64, 10
    quadratic = [flops(4, length) - 8 * length * d * d for length in (n, 2 * n)]
    assert quadratic[1] == 4 * quadratic[0] == 16 * n * n * d
    crossing = 2 * d  # there the quadratic part equals the projections
    assert flops(4, crossing) == 2 * 8 * crossing * d * d


def test_heads_add_no_parameters():
    d = 24
    counts = {parameter_count(MultiHeadAttention(d, h)) for h in (1, 2, 3, 4, 6, 8)}
    assert counts == {4 * d * d + 4 * d}  # W_Q, W_K, W_V, W_O and their biases


def test_queries_come_from_the_decoder_keys_and_values_from_the_encoder():
    model = tiny_model()
    seen = {}
    cross = model.decoder.layers[0].cross_attention
    for name in ("w_q", "w_k", "w_v"):
        getattr(cross, name).register_forward_hook(
            lambda _, inputs, output, name=name: seen.update({name: output})
        )
    source, target = random_ids(1, 6, 11), random_ids(1, 4, 13)
    target[0, 0] = BOS

    def run(source, target):
        weights = model.attention_weights(source, target).cross[0]
        return weights, dict(seen)

    weights, before = run(source, target)
    assert weights.shape == (1, 4, 4, 6)  # [B, H, T, S]: rows are queries of the target
    assert_same(weights.sum(-1), torch.ones(1, 4, 4, dtype=torch.float64))
    other_source = source.clone()
    other_source[0, 2] = 4 + (source[0, 2] - 3) % 7
    _, after = run(other_source, target)
    assert torch.equal(before["w_q"], after["w_q"])  # in the first layer
    assert not torch.equal(before["w_k"], after["w_k"])
    assert not torch.equal(before["w_v"], after["w_v"])
    other_target = target.clone()
    other_target[0, 2] = 4 + (target[0, 2] - 3) % 9
    _, after = run(source, other_target)
    assert not torch.equal(before["w_q"], after["w_q"])
    assert torch.equal(before["w_k"], after["w_k"])
    assert torch.equal(before["w_v"], after["w_v"])

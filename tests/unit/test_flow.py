"""What attention adds, rebuilt from its parts, by hand-derived values."""

import pytest
import torch
from model_samples import SOURCE_VOCAB, TARGET_VOCAB, assert_same, padded, random_ids, tiny_model

from seq2seq.analysis.flow import contribution, contributions
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervene import attentions, switched_off
from seq2seq.analysis.observe import Seen
from seq2seq.model.attention import MultiHeadAttention

A, C = 0.6697615493266569, 0.3302384506733431  # the lesson's weights


def inputs():
    source = padded(random_ids(2, 6, SOURCE_VOCAB), [6, 4])
    target = padded(random_ids(2, 5, TARGET_VOCAB, seed=1), [5, 3])
    return source, target


def by_definition(found):
    """α f of every query, head and key, [B, H, Tq, Tk, D]: what the product code avoids."""
    return found.weights[..., None] * found.vectors[:, :, None]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("widths", [{}, {"d_k": 3, "d_v": 5}])
def test_parts_sum_to_what_the_module_put_out(norm, widths):
    model = tiny_model(norm=norm, **widths)
    found = contributions(model, *inputs())
    assert set(found) == set(attentions(model))
    for part in found.values():
        explicit = by_definition(part).sum((1, 3)) + part.bias
        assert part.bias.abs().max() > 0.01
        assert_same(explicit, part.output, 1e-10)
        assert_same(part.rebuilt(), part.output, 1e-10)


def test_parts_sum_in_single_precision():
    for part in contributions(tiny_model().float(), *inputs()).values():
        assert_same(part.rebuilt(), part.output, 1e-6)


def test_outputs_are_those_of_the_modules():
    """Not only of the parts: W_V and W_O changed by hand change the output as the parts say."""
    model = tiny_model()
    before = contributions(model, *inputs())["cross", 2]
    attention = attentions(model)["cross", 2]
    with torch.no_grad():
        attention.w_o.weight[:, :4] = 0  # head 0 of 4, of width 4
    after = contributions(model, *inputs())["cross", 2]
    lost = by_definition(before)[:, 0].sum(2)
    assert lost.abs().max() > 0.01
    assert_same(before.output - after.output, lost, 1e-10)
    assert after.by_head()[:, 0].abs().max() == 0


def test_heads_that_are_off_add_nothing():
    model, off = tiny_model(), [HeadId("cross", 2, 0), HeadId("enc", 0, 1)]
    with switched_off(model, off):
        found = contributions(model, *inputs())
    for place, part in found.items():
        assert_same(part.rebuilt(), part.output, 1e-10)
        gone = [head.head for head in off if head.place == place]
        assert [h for h, n in enumerate(part.by_head().amax((0, 2, 3))) if n == 0] == gone


def test_norms_are_those_of_the_vectors():
    for part in contributions(tiny_model(), *inputs()).values():
        explicit = by_definition(part)
        assert_same(part.by_head(), explicit.norm(dim=-1), 1e-12)
        assert_same(part.of_layer(), explicit.sum(1).norm(dim=-1), 1e-8)


def test_padding_adds_nothing():
    source, target = inputs()
    for (kind, _), part in contributions(tiny_model(), source, target).items():
        if kind != "dec":
            assert part.of_layer()[1, :, 4:].abs().max() == 0


def test_the_model_is_left_as_it_was():
    model = tiny_model().train()
    state = torch.get_rng_state()
    found = contributions(model, *inputs())
    assert not any(part.rebuilt().requires_grad for part in found.values())
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(not a._forward_hooks for a in attentions(model).values())


def lesson_part(x):
    module = MultiHeadAttention(4, 2).double().eval()
    with torch.no_grad():
        for linear in (module.w_q, module.w_k, module.w_v, module.w_o):
            linear.weight.copy_(torch.eye(4))
            linear.bias.zero_()
    kv = module.project_kv(x)
    output, weights = module(x, kv, need_weights=True)
    return contribution(Seen(module, x, kv, output, weights, weights @ kv.value))


def test_the_lesson():
    x = torch.tensor([[[1.0, 0, 1, 0], [0, 1, 0, 1]]], dtype=torch.float64)
    found = lesson_part(x)
    large, small = 0.9471858666, 0.4670276958
    wanted = torch.tensor([[large, small], [small, large]], dtype=torch.float64)
    assert_same(found.of_layer()[0], wanted, 1e-9)  # √2 a and √2 (1 − a)
    heads = torch.tensor([[A, C], [C, A]], dtype=torch.float64)
    assert_same(found.by_head()[0], torch.stack((heads, heads)), 1e-12)
    assert_same(found.rebuilt(), found.output, 1e-15)

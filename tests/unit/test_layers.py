"""Layers: residuals and the feed-forward network by formula, whole layers against PyTorch's."""

import math

import pytest
import torch
from model_samples import assert_same, randomised, tiny_config
from torch import nn

from seq2seq.choices import Activation, Norm
from seq2seq.model.dropout import Dropout
from seq2seq.model.feed_forward import FeedForward
from seq2seq.model.layers import DecoderLayer, EncoderLayer, Sublayer
from seq2seq.model.masks import padding_mask

D, F_WIDTH = 16, 24
WORDS = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def layer_norm(x, norm):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize("norm", Norm)
def test_residual_and_normalisation(norm):
    module = randomised(Sublayer(tiny_config(norm=norm)).double())
    x = torch.randn(2, 3, D, dtype=torch.float64)
    out = module(x, torch.sin)
    if norm is Norm.post:
        assert_same(out, layer_norm(x + torch.sin(x), module.norm))
    else:
        assert_same(out, x + torch.sin(layer_norm(x, module.norm)))


@pytest.mark.parametrize("norm", Norm)
def test_dropout_falls_on_the_sublayer_not_on_the_residual(norm):
    module = Sublayer(tiny_config(norm=norm, dropout=0.5)).train()
    module.norm = nn.Identity()
    x = torch.ones(1, 500, D)
    out = module(x, lambda y: 10 * y)
    assert out.unique().tolist() == [1.0, 21.0]


@pytest.mark.parametrize("activation", Activation)
def test_feed_forward_is_equation_2(activation):
    module = randomised(FeedForward(D, F_WIDTH, activation).double())
    x = torch.randn(2, 3, D, dtype=torch.float64)
    hidden = x @ module.w_1.weight.T + module.w_1.bias
    if activation is Activation.relu:
        hidden = torch.where(hidden > 0, hidden, 0.0)
    else:
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    assert_same(module(x), hidden @ module.w_2.weight.T + module.w_2.bias)


def test_feed_forward_treats_positions_alike():
    module = FeedForward(D, F_WIDTH).double()
    x = torch.randn(1, 4, D, dtype=torch.float64)
    order = [2, 0, 3, 1]
    assert_same(module(x)[:, order], module(x[:, order]))


def test_feed_forward_dropout_falls_on_the_hidden_layer():
    module = FeedForward(D, 4000, dropout=0.5).train()
    seen = []
    module.w_2.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0]))
    module(torch.randn(1, 1, D))
    assert seen[0].shape == (1, 1, 4000)
    assert 0.7 < (seen[0] == 0).float().mean().item() < 0.8  # half by ReLU, half of the rest


def copy_attention(theirs, ours):
    parts = (ours.w_q, ours.w_k, ours.w_v)
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
    theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
    theirs.out_proj.load_state_dict(ours.w_o.state_dict())


def copy_rest(theirs, ours, wrappers):
    theirs.linear1.load_state_dict(ours.feed_forward.w_1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.w_2.state_dict())
    for number, wrapper in enumerate(wrappers, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(wrapper.norm.state_dict())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("norm", Norm)
def test_encoder_layer_equals_pytorchs(norm, activation, training):
    config = tiny_config(norm=norm, activation=activation)
    ours = randomised(EncoderLayer(config).double()).train(training)
    theirs = nn.TransformerEncoderLayer(
        D, config.encoder_heads, F_WIDTH, 0.0, str(activation), batch_first=True,
        norm_first=norm is Norm.pre,
    ).double()  # fmt: skip
    with torch.no_grad():
        copy_attention(theirs.self_attn, ours.self_attention)
        copy_rest(theirs, ours, (ours.around_attention, ours.around_feed_forward))
    x = torch.randn(2, 6, D, dtype=torch.float64)
    mask = padding_mask(WORDS, 0)
    wanted = theirs(x, src_key_padding_mask=WORDS == 0)
    for need_weights in (False, True):
        out, weights = ours(x, mask, need_weights=need_weights)
        assert_same(out, wanted)
        assert (weights is not None) == need_weights


@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("norm", Norm)
def test_decoder_layer_equals_pytorchs(norm, activation):
    config = tiny_config(norm=norm, activation=activation)
    ours = randomised(DecoderLayer(config).double())
    theirs = nn.TransformerDecoderLayer(
        D, config.decoder_heads, F_WIDTH, 0.0, str(activation), batch_first=True,
        norm_first=norm is Norm.pre,
    ).double()  # fmt: skip
    with torch.no_grad():
        copy_attention(theirs.self_attn, ours.self_attention)
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        wrappers = (ours.around_self_attention, ours.around_cross_attention)
        copy_rest(theirs, ours, (*wrappers, ours.around_feed_forward))
    x = torch.randn(2, 5, D, dtype=torch.float64)
    encoded = torch.randn(2, 6, D, dtype=torch.float64)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    wanted = theirs(x, encoded, tgt_mask=causal, memory_key_padding_mask=WORDS == 0)
    memory = ours.project_memory(encoded)
    for need_weights in (False, True):
        out, own, cross = ours(x, memory, padding_mask(WORDS, 0), need_weights=need_weights)
        assert_same(out, wanted)
        assert (own is not None) == (cross is not None) == need_weights


def test_every_dropout_option_reaches_its_place():
    config = tiny_config(dropout=0.1, attention_dropout=0.2, ff_dropout=0.3)
    for layer in (EncoderLayer(config), DecoderLayer(config)):
        sublayers = [m for m in layer.modules() if isinstance(m, Sublayer)]
        assert len(sublayers) == (2 if isinstance(layer, EncoderLayer) else 3)
        assert {sublayer.dropout.p for sublayer in sublayers} == {0.1}
        assert layer.self_attention.dropout == 0.2
        assert layer.feed_forward.dropout.p == 0.3
        assert sum(isinstance(m, Dropout) for m in layer.modules()) == len(sublayers) + 1
    assert DecoderLayer(config).cross_attention.dropout == 0.2

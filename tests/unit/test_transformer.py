"""The whole model: against PyTorch's stacks, and what must not change its results."""

import pytest
import torch
import torch.nn.functional as F
from model_samples import (
    BOTH_NORMS_AND_POSITIONS,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    assert_same,
    padded,
    random_ids,
    tiny_config,
    tiny_model,
)
from test_layers import copy_attention, copy_rest
from torch import nn

from seq2seq.choices import Norm, Positions
from seq2seq.config import BOS, PAD
from seq2seq.model.transformer import Transformer

OPTIONS = pytest.mark.parametrize("options", BOTH_NORMS_AND_POSITIONS, ids=lambda o: o["norm"])


def batch(rows=3, s=6, t=5):
    return random_ids(rows, s, SOURCE_VOCAB, 1), random_ids(rows, t, TARGET_VOCAB, 2)


@pytest.mark.parametrize("norm", Norm)
def test_encoder_and_decoder_equal_pytorchs_stacks(norm):
    model = tiny_model(norm=norm)
    config = model.config

    def stack(layer_type, stack_type, heads, layers):
        layer = layer_type(
            16, heads, 24, 0.0, batch_first=True, norm_first=norm is Norm.pre, dtype=torch.float64
        )
        last = nn.LayerNorm(16, dtype=torch.float64) if norm is Norm.pre else None
        return stack_type(layer, layers, last)

    encoder = stack(
        nn.TransformerEncoderLayer,
        lambda *a: nn.TransformerEncoder(*a, enable_nested_tensor=False),
        config.encoder_heads,
        config.encoder_layers,
    )
    decoder = stack(
        nn.TransformerDecoderLayer,
        nn.TransformerDecoder,
        config.decoder_heads,
        config.decoder_layers,
    )
    with torch.no_grad():
        for theirs, ours in zip(encoder.layers, model.encoder.layers, strict=True):
            copy_attention(theirs.self_attn, ours.self_attention)
            copy_rest(theirs, ours, (ours.around_attention, ours.around_feed_forward))
        for theirs, ours in zip(decoder.layers, model.decoder.layers, strict=True):
            copy_attention(theirs.self_attn, ours.self_attention)
            copy_attention(theirs.multihead_attn, ours.cross_attention)
            wrappers = (ours.around_self_attention, ours.around_cross_attention)
            copy_rest(theirs, ours, (*wrappers, ours.around_feed_forward))
        if norm is Norm.pre:
            encoder.norm.load_state_dict(model.encoder.norm.state_dict())
            decoder.norm.load_state_dict(model.decoder.norm.state_dict())
    source, target = batch()
    source = padded(source, [6, 4, 1])
    memory = encoder(model.source_embedding(source), src_key_padding_mask=source == PAD)
    x = decoder(
        model.target_embedding(target),
        memory,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64),
        memory_key_padding_mask=source == PAD,
    )
    assert_same(model(source, target), x @ model.output.weight.T)


@OPTIONS
def test_padding_of_the_source_changes_nothing(options):
    model = tiny_model(**options)
    source, target = batch()
    lengths = [6, 3, 1]
    together = model(padded(source, lengths, width=15), target)
    for row, length in enumerate(lengths):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        assert_same(together[row], alone[0])


@OPTIONS
def test_padding_of_the_source_leaves_keys_and_values_of_words_alone(options):
    model = tiny_model(**options)
    source, _ = batch()
    tight, wide = (
        model.encode(padded(source, [6, 3, 1])),
        model.encode(padded(source, [6, 3, 1], 9)),
    )
    for a, b in zip(tight.layers, wide.layers, strict=True):
        for row, length in enumerate([6, 3, 1]):
            assert_same(a.key[row, :, :length], b.key[row, :, :length])
            assert_same(a.value[row, :, :length], b.value[row, :, :length])


def test_padding_of_the_target_changes_no_word():
    model = tiny_model()
    source, target = batch()
    tight, wide = model(source, target[:, :3]), model(source, padded(target, [3, 3, 3], 9))
    assert wide.shape == (3, 9, TARGET_VOCAB)
    assert_same(tight, wide[:, :3])


def test_batch_mates_change_nothing():
    model = tiny_model()
    source, target = batch()
    source = padded(source, [6, 4, 2])
    order = [2, 0, 1]
    assert_same(model(source, target)[order], model(source[order], target[order]))


def test_a_sentence_of_padding_only_gives_finite_numbers():
    model = tiny_model().train()
    source, target = batch(2)
    source = padded(source, [6, 0])
    model(source, target).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_an_empty_batch():
    source, target = batch(rows=0)
    assert tiny_model()(source, target).shape == (0, 5, TARGET_VOCAB)


@OPTIONS
def test_a_later_target_word_changes_no_earlier_logits(options):
    model = tiny_model(**options)
    source, target = batch(1)
    before = model(source, target)
    for t in range(5):
        changed = target.clone()
        changed[0, t] = 4 + (target[0, t] - 3) % (TARGET_VOCAB - 4)
        after = model(source, changed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert (after[:, t:] - before[:, t:]).abs().amin(dim=-1).max() > 1e-9


def test_every_source_word_reaches_every_logit():
    model = tiny_model()
    source, target = batch(1)
    before = model(source, target)
    for s in range(6):
        changed = source.clone()
        changed[0, s] = 4 + (source[0, s] - 3) % (SOURCE_VOCAB - 4)
        assert (model(changed, target) - before).abs().amax(-1).min() > 1e-6


@OPTIONS
def test_word_order_matters(options):
    model = tiny_model(**options)
    source, target = batch(1)
    assert not torch.allclose(model(source, target), model(source.flip(1), target))


def test_training_without_dropout_equals_evaluation():
    model = tiny_model()
    source, target = batch()
    source = padded(source, [6, 4, 1], width=11)
    evaluated = model(source, target)
    assert torch.equal(model.train()(source, target), evaluated)


@pytest.mark.parametrize(
    "name", ["dropout", "attention_dropout", "ff_dropout", "embedding_dropout"]
)
def test_every_kind_of_dropout_acts_in_training_and_only_there(name):
    source, target = batch()
    without, model = tiny_model(), tiny_model(**{name: 0.5})
    assert torch.equal(model(source, target), without(source, target))
    model.train()
    assert not torch.allclose(model(source, target), model(source, target))


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "pre"},
        {"positions": "learned"},
        {"activation": "gelu"},
        {"tying": "none"},
        {"encoder_layers": 1},
        {"decoder_layers": 1},
        {"encoder_heads": 4},
        {"decoder_heads": 2},
        {"d_k": 3},
        {"d_v": 3},
        {"d_ff": 8},
    ],
    ids=str,
)
def test_every_option_changes_the_result(changes):
    source, target = batch()
    assert not torch.allclose(tiny_model()(source, target), tiny_model(**changes)(source, target))


def test_layers_heads_and_widths_are_those_asked_for():
    model = tiny_model(encoder_layers=1, encoder_heads=8, decoder_heads=1, d_k=3, d_v=5)
    seen = model.attention_weights(*batch())
    assert [w.shape for w in seen.encoder] == [(3, 8, 6, 6)]
    assert [w.shape for w in seen.decoder] == [(3, 1, 5, 5)] * 3
    assert [w.shape for w in seen.cross] == [(3, 1, 5, 6)] * 3
    assert model.encode(batch()[0]).layers[0].key.shape == (3, 1, 6, 3)
    assert model.encode(batch()[0]).layers[0].value.shape == (3, 1, 6, 5)


@OPTIONS
def test_looking_at_the_weights_changes_nothing(options):
    model = tiny_model(**options)
    source, target = batch()
    source = padded(source, [6, 4, 1])
    seen = model.attention_weights(source, target)
    assert_same(seen.logits, model(source, target))
    words = (source != PAD)[:, None, None]
    for weights in (*seen.encoder, *seen.decoder, *seen.cross):
        assert_same(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert weights.min() >= 0.0
    for weights in (*seen.encoder, *seen.cross):
        assert weights.masked_select(~words.expand_as(weights)).abs().max() == 0.0
    for weights in seen.decoder:
        assert weights.triu(1).abs().max() == 0.0


def test_weights_do_not_show_attention_dropout():
    model = tiny_model(attention_dropout=0.9)
    clean = model.attention_weights(*batch())
    seen = model.train().attention_weights(*batch())
    assert torch.equal(seen.encoder[0], clean.encoder[0])
    assert not torch.equal(seen.logits, clean.logits)


def test_two_requests_on_one_model_do_not_disturb_each_other():
    model = tiny_model()
    source, target = batch()
    target[:, 0] = BOS

    def decode(source, target):
        state = model.start(source)
        for t in range(target.shape[1]):
            yield model.step(target[:, t : t + 1], state)

    first, second = (source[:2], target[:2]), (padded(source[1:], [3, 2]), target[1:])
    alone = [torch.cat(list(decode(*request)), 1) for request in (first, second)]
    in_turn = list(zip(decode(*first), decode(*second), strict=True))
    for index in (0, 1):
        assert torch.equal(torch.cat([step[index] for step in in_turn], 1), alone[index])


def test_a_model_holds_parameters_and_no_requests():
    model = tiny_model()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    source, target = batch()
    model.attention_weights(source, target)
    state = model.start(source, beam=1)
    model.step(target[:, :1], state)
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == before


def test_log_probabilities_of_given_tokens():
    model = tiny_model()
    source, target_in = batch()
    target_out = padded(random_ids(3, 5, TARGET_VOCAB, 5), [5, 2, 1])
    out = model.log_probabilities(source, target_in, target_out)
    logits = model(source, target_in)
    for b in range(3):
        for t in range(5):
            p = logits[b, t].exp() / logits[b, t].exp().sum()
            wanted = 0.0 if target_out[b, t] == PAD else p[target_out[b, t]].log().item()
            assert out[b, t].item() == pytest.approx(wanted, abs=1e-5)


def test_position_limit():
    assert tiny_model().position_limit is None
    assert tiny_model(positions=Positions.learned, max_positions=9).position_limit == 9


def test_vocabulary_sizes_must_be_known():
    for missing in ("source_vocab", "target_vocab"):
        with pytest.raises(ValueError, match="must be set from the tokenizer"):
            Transformer(tiny_config(**{missing: 0}))


def test_bfloat16_autocast_stays_near():
    model = tiny_model().float()
    source, target = batch()
    source = padded(source, [6, 4, 1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(source, target)
    exact = model(source, target)
    assert logits.isfinite().all()
    assert F.cosine_similarity(logits.float().flatten(), exact.flatten(), 0) > 0.99

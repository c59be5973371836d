"""Gradient importance: against finite differences and the definition by inner products."""

from __future__ import annotations

import pytest
import torch
from model_samples import padded, random_ids, tiny_model

from seq2seq.analysis.importance import gate_gradients, importance, sentence_losses
from seq2seq.analysis.intervene import HeadId, all_heads, attentions, on_heads
from seq2seq.config import PAD
from seq2seq.data.batching import Batch, make_batch
from seq2seq.errors import UserError


@pytest.fixture
def model():
    return tiny_model()


@pytest.fixture
def batch():
    """Three sentences of different lengths, padded."""
    sources = [row[:n].tolist() for row, n in zip(random_ids(3, 6, 11), (6, 3, 5), strict=True)]
    targets = [row[:n].tolist() for row, n in zip(random_ids(3, 5, 13, 1), (2, 5, 4), strict=True)]
    return make_batch(sources, targets)


def scaled(model, place, head, factor):
    gate = torch.ones(attentions(model)[place].n_heads, 1, 1, dtype=torch.float64)
    gate[head] = factor
    return on_heads(model, {place: lambda outputs: outputs * gate})


def losses(model, batch):
    with torch.no_grad():
        return sentence_losses(model, batch)


def test_the_loss_is_the_mean_over_a_sentences_tokens(model, batch):
    alone = Batch(batch.source[1:2, :4], batch.target_in[1:2], batch.target_out[1:2], 6)
    logits = model(alone.source, alone.target_in)[0].log_softmax(-1)
    by_hand = [-logits[t, token].item() for t, token in enumerate(alone.target_out[0])]
    assert losses(model, batch)[1].item() == pytest.approx(sum(by_hand) / 6)


def test_gradients_equal_finite_differences(model, batch):
    found = gate_gradients(model, batch)
    step = 1e-5
    for place, head in ((("enc", 0), 1), (("enc", 1), 0), (("dec", 2), 3), (("cross", 1), 2)):
        with scaled(model, place, head, 1 + step):
            high = losses(model, batch)
        with scaled(model, place, head, 1 - step):
            low = losses(model, batch)
        assert found[place][:, head].tolist() == pytest.approx(
            ((high - low) / (2 * step)).tolist(), abs=1e-7
        )


def test_gradients_equal_the_inner_product_of_output_and_its_gradient(model, batch):
    """The definition of Michel et al. 2019: Att_h(x)ᵀ ∂L/∂Att_h(x)."""
    outputs = {}

    def keep(place):
        def function(heads):
            heads.retain_grad()
            outputs[place] = heads

        return function

    with on_heads(model, {place: keep(place) for place in attentions(model)}):
        sentence_losses(model, batch).sum().backward()
    found = gate_gradients(model, batch)
    assert set(found) == set(outputs)
    for place, heads in outputs.items():
        product = (heads * heads.grad).sum((2, 3))  # [B, H]
        assert (found[place] - product).abs().max() < 1e-12


def test_sentences_of_a_batch_do_not_mix(model, batch):
    together = gate_gradients(model, batch)
    for row in range(3):
        source = batch.source[row][batch.source[row] != PAD][None]
        length = int((batch.target_out[row] != PAD).sum())
        alone = gate_gradients(
            model,
            Batch(source, batch.target_in[row : row + 1, :length],
                  batch.target_out[row : row + 1, :length], length),
        )  # fmt: skip
        for place, gradient in together.items():
            assert (gradient[row] - alone[place][0]).abs().max() < 1e-12


def test_the_model_and_the_random_state_stay_as_they_were(model, batch):
    model.train()
    model.encoder.layers[0].eval()
    state = torch.get_rng_state()
    first = gate_gradients(model, batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert not model.encoder.layers[0].training
    assert all(p.grad is None for p in model.parameters())
    assert not any(a.heads._forward_hooks for a in attentions(model).values())
    again = gate_gradients(model, batch)  # no dropout, though the model is in training mode
    assert all(torch.equal(first[place], again[place]) for place in first)


class Words:
    """A tokenizer whose texts are piece ids."""

    def encode_source(self, texts):
        return [[int(word) for word in text.split()] for text in texts]

    encode_target = encode_source


PAIRS = [("4 5 6", "7 8"), ("9 10", "4 5 6 7"), ("5 5 5 5", "12"), ("8", "9 10 11")]


def test_absolute_values_are_taken_by_sentence(model):
    table = importance(model, Words(), PAIRS)
    gradients = [
        gate_gradients(model, make_batch(Words().encode_source([s]), Words().encode_target([t])))
        for s, t in PAIRS
    ]
    cancelled = 0
    for head, value in table.values("importance").items():
        signed = [g[head.place][0, head.head].item() for g in gradients]
        assert value == pytest.approx(sum(map(abs, signed)) / 4, abs=1e-12)
        cancelled += abs(sum(signed)) < 0.5 * sum(map(abs, signed))
    assert cancelled > 3  # signs do differ: the mean of signed values would be another number


def test_two_sentences_that_cancel_out_do_not_give_0(model, monkeypatch):
    gradients = {place: torch.zeros(2, a.n_heads) for place, a in attentions(model).items()}
    gradients["enc", 0] = torch.tensor([[0.5, 0.0], [-0.5, 0.0]])
    monkeypatch.setattr("seq2seq.analysis.importance.gate_gradients", lambda *_: gradients)
    table = importance(model, Words(), PAIRS[:2])
    assert table.rows[HeadId("enc", 0, 0)] == {"importance": 0.5, "importance_share": 1.0}
    assert table.rows[HeadId("enc", 0, 1)] == {"importance": 0.0, "importance_share": 0.0}
    assert table.rows[HeadId("dec", 0, 0)] == {"importance": 0.0, "importance_share": 0.0}


def test_shares_of_a_layer_have_length_1(model):
    table = importance(model, Words(), PAIRS)
    shares = table.values("importance_share")
    for place in attentions(model):
        of_layer = [share for head, share in shares.items() if head.place == place]
        assert sum(share**2 for share in of_layer) == pytest.approx(1)


def test_a_head_that_w_o_ignores_has_importance_0(model):
    with torch.no_grad():
        attentions(model)["cross", 1].w_o.weight[:, 8:12] = 0  # head 2
    table = importance(model, Words(), PAIRS)
    values = table.values("importance")
    assert values[HeadId("cross", 1, 2)] == 0
    assert min(v for h, v in values.items() if h != HeadId("cross", 1, 2)) > 0


def test_batches_change_nothing_and_pairs_may_be_a_stream(model):
    whole = importance(model, Words(), PAIRS).values("importance")
    small = importance(model, Words(), iter(PAIRS), batch_tokens=1).values("importance")
    assert whole == pytest.approx(small, abs=1e-12)
    assert list(whole) == all_heads(model)


def test_nothing_to_measure_is_an_error(model):
    with pytest.raises(UserError, match="at least one sentence pair"):
        importance(model, Words(), [])


def test_padding_is_no_token(model, batch):
    wider = Batch(
        padded(batch.source, [7, 4, 6], 9), padded(batch.target_in, [3, 6, 5], 8),
        padded(batch.target_out, [3, 6, 5], 8), batch.tokens,
    )  # fmt: skip
    assert losses(model, wider).tolist() == pytest.approx(losses(model, batch).tolist(), abs=1e-12)

"""Removed heads: the smaller model computes what the larger one does with those heads at 0."""

from __future__ import annotations

import random

import pytest
import torch
from attention_samples import SENTENCES, make_model, make_tokenizer
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

from seq2seq.analysis.align_heads import choices, layer_choice
from seq2seq.analysis.capture import capture
from seq2seq.analysis.flow import contributions
from seq2seq.analysis.importance import importance
from seq2seq.analysis.interchange import Contrast, Interchange
from seq2seq.analysis.intervene import (
    HeadId,
    all_heads,
    attentions,
    parse_heads,
    parse_heads_to_go,
    switched_off,
)
from seq2seq.analysis.norms import contribution_sizes
from seq2seq.analysis.survey import survey
from seq2seq.attention_maps import KINDS, AttentionMaps
from seq2seq.config import BOS, EOS, PAD
from seq2seq.decoding.beam import beam_search
from seq2seq.errors import UserError
from seq2seq.model import attention
from seq2seq.model.pruning import head_size, remove, without_heads
from seq2seq.model.transformer import Transformer, parameter_count
from seq2seq.run_folder import load_weights
from seq2seq.training.checkpoint import save_model

# Encoder 2 layers × 4 heads, decoder 3 layers × 2 heads: Dk is 4 and 8 of 16.
SHAPE = {"encoder_heads": 4, "decoder_heads": 2}
LAYER = "enc.1.0 enc.1.1 enc.1.2 enc.1.3"
CHOICES = {
    "one": "dec.1.1",
    "some": "enc.0.1 enc.0.3 dec.0.0 cross.2.1",
    "a layer": LAYER,
    "all but one of a layer": "enc.1.0 enc.1.1 enc.1.3",
    "all cross": " ".join(f"cross.{layer}.{head}" for layer in range(3) for head in range(2)),
    "every head": " ".join(
        [f"enc.{n}.{h}" for n in range(2) for h in range(4)]
        + [f"{kind}.{n}.{h}" for kind in ("dec", "cross") for n in range(3) for h in range(2)]
    ),
}
CHOSEN = pytest.mark.parametrize("choice", CHOICES)


def some_model(**changes):
    return tiny_model(**SHAPE, **changes)


def batch():
    """Two source and target sentences, one of each padded."""
    source = padded(random_ids(2, 6, SOURCE_VOCAB), [6, 4])
    target = padded(random_ids(2, 5, TARGET_VOCAB, seed=1), [3, 5])
    return source, target


def heads_of(model, choice):
    return parse_heads(CHOICES[choice], model)


class TestSameNumbers:
    @CHOSEN
    @pytest.mark.parametrize("options", BOTH_NORMS_AND_POSITIONS, ids=lambda o: o["norm"])
    def test_as_with_the_heads_at_0(self, choice, options):
        model = some_model(**options)
        heads = heads_of(model, choice)
        with switched_off(model, heads):
            expected = model(*batch())
        assert_same(remove(model, heads)(*batch()), expected)

    @pytest.mark.parametrize("seed", range(5))
    def test_any_choice_of_heads(self, seed):
        model = some_model(d_k=3, d_v=5)
        heads = all_heads(model)
        chosen = random.Random(seed).sample(heads, random.Random(seed).randint(1, len(heads)))
        with switched_off(model, chosen):
            expected = model(*batch())
        assert_same(remove(model, chosen)(*batch()), expected)

    @CHOSEN
    def test_in_single_precision(self, choice):
        model = some_model().float()
        heads = heads_of(model, choice)
        with switched_off(model, heads):
            expected = model(*batch())
        smaller = remove(model, heads)
        assert next(smaller.parameters()).dtype is torch.float32
        assert_same(smaller(*batch()), expected, tolerance=1e-5)

    @CHOSEN
    def test_the_fused_path(self, choice, monkeypatch):
        model = some_model()
        smaller = remove(model, heads_of(model, choice))
        expected = smaller(*batch())
        monkeypatch.setattr(attention, "CPU_FUSED_MIN_KEYS", 0)
        assert_same(smaller(*batch()), expected)

    def test_twice_is_once_with_both(self):
        model = some_model()
        first, second = parse_heads("enc.0.3 dec.1.0", model), parse_heads("enc.0.1 dec.1.1", model)
        step_by_step = remove(remove(model, first), second)
        at_once = remove(model, [*second, *first])
        assert step_by_step.config == at_once.config
        for name, weight in at_once.state_dict().items():
            assert torch.equal(weight, step_by_step.state_dict()[name]), name

    def test_the_order_of_heads_in_the_matrices_does_not_matter(self):
        """Heads 0 and 2 of a layer change places: then 2 is to be removed, not 0."""
        model, shuffled = some_model(), some_model()
        place = attentions(shuffled)["enc", 0]
        rows = torch.arange(16).view(4, 4)[[2, 1, 0, 3]].flatten()
        with torch.no_grad():
            for linear in (place.w_q, place.w_k, place.w_v):
                linear.weight.copy_(linear.weight[rows].clone())
                linear.bias.copy_(linear.bias[rows].clone())
            place.w_o.weight.copy_(place.w_o.weight[:, rows].clone())
        expected = remove(model, ["enc.0.0"])(*batch())
        assert_same(remove(shuffled, ["enc.0.2"])(*batch()), expected)

    def test_a_layer_without_heads_puts_out_b_o(self):
        model = remove(some_model(), LAYER.split())
        found = attentions(model)["enc", 1]
        x = torch.randn(2, 5, 16, dtype=torch.float64)
        out, weights = found(x, found.project_kv(x), need_weights=True)
        assert_same(out, found.w_o.bias.expand(2, 5, 16))
        assert weights.shape == (2, 0, 5, 5)


class TestSize:
    def test_by_hand(self):
        """D = 16: 2 · (16 + 1) · Dk for queries and keys, (16 + 1) · Dv + 16 · Dv for values."""
        model = some_model()
        found = attentions(model)
        assert head_size(found["enc", 0]) == 2 * 17 * 4 + 17 * 4 + 16 * 4 == 268
        assert head_size(found["cross", 0]) == 2 * 17 * 8 + 17 * 8 + 16 * 8 == 536
        smaller = remove(model, ["enc.0.1", "enc.1.3", "cross.2.0"])
        assert parameter_count(model) - parameter_count(smaller) == 268 + 268 + 536
        assert head_size(attentions(smaller)["enc", 0]) == 268

    def test_widths_of_their_own(self):
        model = some_model(d_k=3, d_v=5)
        assert head_size(attentions(model)["dec", 1]) == 2 * 17 * 3 + 17 * 5 + 16 * 5
        smaller = remove(model, ["dec.1.0"])
        assert parameter_count(model) - parameter_count(smaller) == 2 * 17 * 3 + 17 * 5 + 16 * 5

    @CHOSEN
    def test_matrices_have_the_heads_that_are_left(self, choice):
        model = some_model()
        smaller = remove(model, heads_of(model, choice))
        for (kind, layer), found in attentions(smaller).items():
            left = [h for h in all_heads(model) if h.place == (kind, layer)]
            left = [h.head for h in left if str(h) not in CHOICES[choice].split()]
            assert found.head_ids == left
            assert found.w_q.weight.shape == (len(left) * found.d_k, 16)
            assert found.w_o.weight.shape == (16, len(left) * found.d_v)
            assert (found.d_k, found.d_v) == (4, 4) if kind == "enc" else (8, 8)


class TestTheModelItself:
    def test_nothing_about_it_changes(self):
        model = some_model()
        before = {name: weight.clone() for name, weight in model.state_dict().items()}
        state = torch.get_rng_state()
        smaller = remove(model, ["enc.0.1"])
        assert torch.equal(torch.get_rng_state(), state)
        assert all(torch.equal(weight, before[n]) for n, weight in model.state_dict().items())
        assert model.config.removed_heads is None
        with torch.no_grad():
            smaller.target_embedding.table.weight.zero_()
        assert model.target_embedding.table.weight.abs().sum() > 0

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("tying", ["none", "decoder", "all"])
    def test_mode_and_tied_matrices_stay(self, training, tying):
        model = some_model(tying=tying, source_vocab=TARGET_VOCAB).train(training)
        smaller = remove(model, ["cross.1.0"])
        assert smaller.training is training
        assert smaller.decoder.layers[1].training is training
        tied = smaller.output.weight is smaller.target_embedding.table.weight
        assert tied == (tying != "none")

    @pytest.mark.parametrize("name", ["enc.0.4", "enc.2.0", "self.0.0", "1.0", "cross.2.2"])
    def test_a_head_that_never_was(self, name):
        with pytest.raises(UserError, match=r"but the heads of this model are enc\.0\.0 to enc\.1"):
            remove(some_model(), [name])

    def test_a_head_removed_before_changes_nothing(self):
        once = remove(some_model(), ["enc.0.1"])
        twice = remove(once, ["enc.0.1"])
        assert twice.config == once.config
        assert_same(twice(*batch()), once(*batch()))

    def test_only_the_names_change_in_the_configuration(self):
        config = without_heads(tiny_config(), ["dec.2.0", "enc.0.0"])
        assert config.removed_heads == ["enc.0.0", "dec.2.0"]
        config.removed_heads = None
        assert config == tiny_config()


class TestDecoding:
    """What cached decoding computes is what a forced pass over its output does (I6, I7)."""

    @CHOSEN
    def test_greedy_steps(self, choice):
        model = some_model()
        smaller = remove(model, heads_of(model, choice))
        source, _ = batch()
        state, tokens = smaller.start(source), torch.full((2, 1), BOS)
        with torch.no_grad():
            for _ in range(20):  # beyond the room that caches begin with
                logits = smaller.step(tokens[:, -1:], state)[:, 0]
                assert_same(logits, smaller(source, tokens)[:, -1])
                tokens = torch.cat((tokens, logits.argmax(-1, keepdim=True)), 1)

    @CHOSEN
    def test_beams_taken_and_dropped(self, choice):
        model = some_model()
        smaller = remove(model, heads_of(model, choice))
        source, rows = batch()[0], torch.arange(2)[:, None]
        prefixes = torch.full((2, 3, 1), BOS)
        state = smaller.start(source, beam=3)
        with torch.no_grad():
            for seed in range(4):
                logits = smaller.step(prefixes[..., -1], state)
                forced = smaller(source.repeat_interleave(3, 0), prefixes.flatten(0, 1))[:, -1]
                assert_same(logits.flatten(0, 1), forced)
                beams = random_ids(2, 3, 7, seed) % 3
                state.select(torch.arange(2), beams)
                newest = random_ids(2, 3, TARGET_VOCAB, seed + 10)
                prefixes = torch.cat((prefixes[rows, beams], newest[..., None]), -1)
            state.select(torch.tensor([1]), torch.tensor([[2, 0, 1]]))
            prefixes = prefixes[1:][:, [2, 0, 1]]
            logits = smaller.step(prefixes[..., -1], state)
            forced = smaller(source[1:].repeat_interleave(3, 0), prefixes.flatten(0, 1))[:, -1]
        assert_same(logits.flatten(0, 1), forced)

    @CHOSEN
    def test_beam_search(self, choice):
        model = some_model()
        smaller = remove(model, heads_of(model, choice))
        source, _ = batch()
        with torch.no_grad():
            found = beam_search(
                smaller.step, smaller.start(source, beam=3), batch=2, bos=BOS, eos=EOS, pad=PAD,
                beam=3, n_best=1, max_len=torch.tensor([6, 8]), alpha=1.0,
            )  # fmt: skip
            for row, (best,) in enumerate(found):
                ids = torch.tensor([[BOS, *best.tokens, EOS]])
                single = source[row : row + 1, : (6, 4)[row]]
                forced = smaller.log_probabilities(single, ids[:, :-1], ids[:, 1:])[0]
                assert best.token_log_probs == pytest.approx(forced.tolist(), abs=1e-5)


class TestTraining:
    @CHOSEN
    def test_every_parameter_that_is_left_can_learn(self, choice):
        model = some_model(attention_dropout=0.3, dropout=0.1)
        smaller = remove(model, heads_of(model, choice)).train()
        smaller(*batch()).pow(2).sum().backward()
        for name, parameter in smaller.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
        for place, found in attentions(smaller).items():
            if place[0] != "enc" or choice not in ("all cross", "every head"):
                assert found.w_o.bias.grad.abs().sum() > 0  # else nothing reads the encoder

    def test_a_model_may_begin_without_heads(self):
        model = Transformer(
            tiny_config(**SHAPE, removed_heads=["enc.1.1", *CHOICES["one"].split()])
        )
        assert attentions(model)["enc", 1].head_ids == [0, 2, 3]
        assert attentions(model)["dec", 1].head_ids == [0]
        for name, weight in model.named_parameters():
            assert weight.isfinite().all(), name


class TestLooking:
    @pytest.fixture(scope="class")
    @classmethod
    def tokenizer(cls):
        return make_tokenizer()

    @CHOSEN
    def test_records_keep_the_numbers_and_rebuild_the_output(self, choice, tokenizer, tmp_path):
        model = make_model(tokenizer)
        heads = heads_of(model, choice)
        smaller = remove(model, heads)
        (maps,) = capture(smaller, tokenizer, *SENTENCES[0])
        left = [h for h in all_heads(model) if h not in heads]
        held = [
            HeadId(kind, layer, head)
            for kind in KINDS
            for layer, ids in zip(maps.layer_ids[kind], maps.head_ids[kind], strict=True)
            for head in ids
        ]
        assert held == left == all_heads(smaller)
        with switched_off(model, heads):
            (masked,) = capture(model, tokenizer, *SENTENCES[0])
        for head in left:
            assert maps.head(*head) == pytest.approx(masked.head(*head), abs=1e-12)
        assert maps.logprob == pytest.approx(masked.logprob, abs=1e-12)
        maps.save(tmp_path / "maps.npz")
        assert AttentionMaps.load(tmp_path / "maps.npz").head_ids == maps.head_ids

    @CHOSEN
    def test_contributions_add_up_to_the_output(self, choice):
        model = some_model()
        smaller = remove(model, heads_of(model, choice))
        for found in contributions(smaller, *batch()).values():
            assert_same(found.rebuilt(), found.output)

    @CHOSEN
    def test_tables_have_a_row_for_each_head_that_is_left(self, choice, tokenizer):
        model = make_model(tokenizer)
        heads = heads_of(model, choice)
        smaller = remove(model, heads)
        left = [h for h in all_heads(model) if h not in heads]
        assert importance(smaller, tokenizer, SENTENCES).heads == left
        assert contribution_sizes(smaller, tokenizer, SENTENCES).heads == left
        with switched_off(model, heads):
            expected = importance(model, tokenizer, SENTENCES).values("importance")
        found = importance(smaller, tokenizer, SENTENCES).values("importance")
        assert found == pytest.approx({h: expected[h] for h in left}, abs=1e-12)

    @pytest.mark.parametrize("choice", ["some", "a layer", "all but one of a layer"])
    def test_causal_effects_are_those_with_the_heads_at_0(self, choice):
        model = some_model()
        heads = heads_of(model, choice)
        smaller = remove(model, heads)
        target = random_ids(1, 4, TARGET_VOCAB, 3)[0].tolist()
        source = random_ids(1, 6, SOURCE_VOCAB, 4)[0].tolist()
        other = [*source[:2], source[2] % 7 + 4, *source[3:]]
        with torch.no_grad():  # the tokens that the two sources move furthest apart
            sides = [smaller(torch.tensor([[*s, EOS]]), torch.tensor([[BOS, *target]]))
                     for s in (source, other)]  # fmt: skip
        moved = sides[0][0, -1].log_softmax(-1) - sides[1][0, -1].log_softmax(-1)
        tokens = (int(moved.argmax()), int(moved.argmin()))
        pair = Contrast([*source, EOS], [*other, EOS], [BOS, *target], *tokens)
        with switched_off(model, heads):
            whole = Interchange(model, [pair])
            left = [h for h in all_heads(model) if h not in heads]
            expected = [whole.effect([head]).effect for head in left]
        runs = Interchange(smaller, [pair])
        assert [runs.effect([head]).effect for head in left] == pytest.approx(expected, abs=1e-9)
        with pytest.raises(UserError, match="no head"):
            runs.effect(heads)

    def test_a_survey_of_a_model_with_a_layer_without_heads(self, tokenizer):
        smaller = remove(make_model(tokenizer), [*LAYER.split(), "dec.0.1"])
        found = survey(smaller, tokenizer, SENTENCES)
        assert found.table.heads == all_heads(smaller)
        assert [len(d.heads) for d in found.distances.values()] == [4, 5, 6]

    def test_a_survey_of_a_model_with_a_kind_without_heads(self, tokenizer):
        smaller = remove(make_model(tokenizer), CHOICES["all cross"].split())
        found = survey(smaller, tokenizer, SENTENCES)
        assert found.table.heads == all_heads(smaller)
        assert list(found.distances) == ["enc", "dec"]

    def test_a_model_without_any_head_has_nothing_to_look_at(self, tokenizer):
        model = make_model(tokenizer)
        with pytest.raises(UserError, match="All heads of this model are removed"):
            survey(remove(model, all_heads(model)), tokenizer, SENTENCES)

    def test_without_cross_attention_nothing_aligns(self):
        left = all_heads(remove(some_model(), CHOICES["all cross"].split()))
        for ask in (lambda: choices(left), lambda: layer_choice(left, 1)):
            with pytest.raises(UserError, match="No cross-attention head is left in this model"):
                ask()
        left = all_heads(remove(some_model(), ["cross.1.0", "cross.1.1"]))
        assert [c.name for c in choices(left)][:3] == ["mean of all heads", "mean of layer 0",
                                                       "mean of layer 2"]  # fmt: skip
        with pytest.raises(UserError, match="no cross-attention in layer 1: take one of 0, 2"):
            layer_choice(left, 1)


def test_pruning_step_by_step_through_files(tmp_path):
    """Numbers survive saving and loading; a second removal finds the right heads."""
    whole = some_model()

    def reloaded(model, name):
        save_model(model, tmp_path / name)
        fresh = Transformer(model.config).double().eval()
        load_weights(fresh, tmp_path / name)
        return fresh

    def as_without(model, *names):
        with switched_off(whole, parse_heads(" ".join(names), whole)):
            expected = whole(*batch())
        assert_same(model(*batch()), expected)
        return model

    gone = ["enc.0.1", "enc.0.3"]
    model = as_without(reloaded(remove(whole, gone), "a"), *gone)
    assert attentions(model)["enc", 0].head_ids == [0, 2]
    assert importance_ids(model, "enc", 0) == [0, 2]
    gone = [*gone, "enc.0.0", "enc.0.2"]
    model = as_without(reloaded(remove(model, ["enc.0.1", "enc.0.0", "enc.0.2"]), "b"), *gone)
    assert attentions(model)["enc", 0].head_ids == []
    gone = [*gone, "cross.1.0", "cross.1.1"]
    smaller = remove(model, gone[-2:])
    assert parameter_count(model) - parameter_count(smaller) == 2 * 536
    model = as_without(reloaded(smaller, "c"), *gone)
    assert parameter_count(whole) - parameter_count(model) == 4 * 268 + 2 * 536
    left = [str(head) for head in all_heads(model)]
    assert left == [str(head) for head in all_heads(whole) if str(head) not in gone]


def importance_ids(model, kind, layer):
    class Words:
        def encode_source(self, texts):
            return [[int(word) for word in text.split()] for text in texts]

        encode_target = encode_source

    table = importance(model, Words(), [("4 5 6", "7 8"), ("9 4", "5 6 7")])
    return [head.head for head in table.heads if head.place == (kind, layer)]


def test_names_of_heads_removed_before_are_told_and_left_out(caplog):
    model = remove(some_model(), ["enc.0.1", "dec.2.0"])
    assert [str(h) for h in parse_heads_to_go("enc.0.1,enc.0.2", model)] == ["enc.0.2"]
    assert "already removed from this model, so nothing changes for enc.0.1." in caplog.text
    assert parse_heads_to_go("dec.2.0", model) == []
    for parse in (parse_heads, parse_heads_to_go):
        with pytest.raises(UserError, match=r"no head enc\.0\.4: it has enc\.0\.0, enc\.0\.2, enc"):
            parse("enc.0.0,enc.0.4", model)
        with pytest.raises(UserError, match="No head is named"):
            parse(" , ", model)
    with pytest.raises(UserError, match=r"no head enc\.0\.1: it has enc\.0\.0, enc\.0\.2, enc"):
        parse_heads("enc.0.1", model)  # to look at it, it must be there


def test_weights_of_other_heads_are_refused_though_they_fit(tmp_path):
    """Layers without head 0 and without head 1 have one shape."""
    model = some_model()
    save_model(remove(model, ["enc.0.1"]), tmp_path / "one")
    other = remove(model, ["enc.0.0"])
    with pytest.raises(UserError, match=r"one lacks the heads enc\.0\.1, but .* lacks enc\.0\.0"):
        load_weights(other, tmp_path / "one")
    with pytest.raises(UserError, match=r"lacks the heads enc\.0\.1, but .* lacks none"):
        load_weights(model, tmp_path / "one")
    save_model(model, tmp_path / "whole")
    with pytest.raises(UserError, match=r"whole does not fit the model of config.json \(size mism"):
        load_weights(other, tmp_path / "whole")

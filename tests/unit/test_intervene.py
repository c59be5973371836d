"""Naming heads, hooking into them, and switching them off: against cut matrices."""

import pytest
import torch
from model_samples import TARGET_VOCAB, assert_same, random_ids, tiny_model

from seq2seq.analysis.intervene import (
    HeadId,
    all_heads,
    attentions,
    on_heads,
    parse_heads,
    switched_off,
)
from seq2seq.decoding.beam import beam_search
from seq2seq.errors import UserError


@pytest.fixture
def model():
    """Encoder 2 layers × 2 heads, decoder 3 layers × 4 heads."""
    return tiny_model()


@pytest.fixture
def batch():
    source, target = random_ids(2, 5, 11), random_ids(2, 4, 13, seed=1)
    return source, target


def cut(model, heads):
    """The same model whose W_O ignores the heads: rows of zeros instead of a hook."""
    with torch.no_grad():
        for head in heads:
            attention = attentions(model)[head.place]
            first = head.head * attention.d_v
            attention.w_o.weight[:, first : first + attention.d_v] = 0
    return model


class TestNames:
    def test_a_name_reads_as_it_prints(self):
        head = HeadId.parse(" cross.2.1 ")
        assert head == ("cross", 2, 1)
        assert str(head) == "cross.2.1"
        assert f"{head}" == "cross.2.1"
        assert head.place == ("cross", 2)

    @pytest.mark.parametrize(
        "text", ["", "cross", "cross.2", "cross.2.1.0", "self.0.0", "cross.-1.0", "cross.²1.0", "x"]
    )
    def test_what_is_no_name_is_refused_with_an_example(self, text):
        with pytest.raises(UserError, match=r"names no head: write .* cross\.2\.1"):
            HeadId.parse(text)

    def test_all_heads_of_every_attention_in_order(self, model):
        heads = all_heads(model)
        assert len(heads) == 2 * 2 + 3 * 4 + 3 * 4
        assert [str(h) for h in heads[:5]] == [
            "enc.0.0",
            "enc.0.1",
            "enc.1.0",
            "enc.1.1",
            "dec.0.0",
        ]
        assert [h.kind for h in heads] == ["enc"] * 4 + ["dec"] * 12 + ["cross"] * 12
        assert attentions(model)["cross", 2] is model.decoder.layers[2].cross_attention
        assert attentions(model)["dec", 1] is model.decoder.layers[1].self_attention

    def test_a_list_keeps_its_order_and_drops_repeats(self, model):
        found = parse_heads("cross.2.1,enc.0.0  cross.2.1", model)
        assert [str(head) for head in found] == ["cross.2.1", "enc.0.0"]

    def test_a_head_that_the_model_lacks_names_those_it_has(self, model):
        with pytest.raises(UserError) as raised:
            parse_heads("cross.2.3,enc.0.2,dec.3.0", model)
        text = str(raised.value)
        assert "no head enc.0.2, dec.3.0:" in text
        assert "enc.0.0, enc.0.1" in text
        assert "cross.2.0-3" in text

    def test_no_name_at_all_is_refused(self, model):
        with pytest.raises(UserError, match="No head is named"):
            parse_heads(" , ", model)

    def test_numbers_survive_pruning(self, model):
        attention = attentions(model)["enc", 1]
        attention.n_heads, attention.head_ids = 1, [1]
        assert [str(h) for h in all_heads(model)][:3] == ["enc.0.0", "enc.0.1", "enc.1.1"]
        with pytest.raises(UserError, match=r"no head enc\.1\.0"):
            parse_heads("enc.1.0", model)


class TestHooks:
    def test_reading_changes_nothing(self, model, batch):
        seen = {}
        plain = model(*batch)
        functions = {
            place: lambda x, p=place: seen.update({p: x.shape}) for place in attentions(model)
        }
        with on_heads(model, functions):
            assert torch.equal(model(*batch), plain)
        assert seen["enc", 1] == (2, 2, 5, 8)  # B, H, S, Dv
        assert seen["dec", 2] == (2, 4, 4, 4)  # B, H, T, Dv
        assert seen["cross", 0] == (2, 4, 4, 4)
        seen.clear()
        model(*batch)
        assert not seen

    def test_what_a_function_returns_stands_in(self, model, batch):
        attention = attentions(model)["enc", 0]
        with on_heads(model, {("enc", 0): torch.zeros_like}):
            hooked = model(*batch)
        with torch.no_grad():
            attention.w_o.weight.zero_()
        assert_same(hooked, model(*batch))

    def test_an_exception_leaves_no_hook_behind(self, model, batch):
        plain = model(*batch)
        with pytest.raises(RuntimeError, match="stop"), switched_off(model, [HeadId("enc", 0, 1)]):
            raise RuntimeError("stop")
        assert torch.equal(model(*batch), plain)
        assert not any(a.heads._forward_hooks for a in attentions(model).values())

    def test_an_unknown_attention_is_refused_before_anything_is_hooked(self, model):
        with (
            pytest.raises(UserError, match=r"no attention enc\.7"),
            on_heads(model, {("enc", 0): torch.zeros_like, ("enc", 7): torch.zeros_like}),
        ):
            pass
        assert not attentions(model)["enc", 0].heads._forward_hooks


class TestSwitchedOff:
    HEADS = (HeadId("enc", 1, 0), HeadId("dec", 0, 3), HeadId("dec", 0, 1), HeadId("cross", 2, 2))

    def test_off_is_as_if_its_part_of_w_o_were_zero(self, model, batch):
        plain = model(*batch)
        with switched_off(model, self.HEADS):
            off = model(*batch)
        assert (off - plain).abs().max() > 1e-3
        assert torch.equal(model(*batch), plain)
        assert_same(off, cut(model, self.HEADS)(*batch))

    def test_also_in_cached_beam_search(self, model):
        source = random_ids(3, 6, 11)
        rules = {"batch": 3, "beam": 4, "bos": 2, "eos": 3, "pad": 0, "alpha": 0.6, "n_best": 4}

        def search():
            state = model.start(source, beam=4, max_len=9)
            found = beam_search(model.step, state, **rules, max_len=torch.tensor([8, 8, 8]))
            return [[(h.tokens, h.score) for h in hypotheses] for hypotheses in found]

        plain = search()
        with switched_off(model, self.HEADS):
            off = search()
        assert off != plain
        cut(model, self.HEADS)
        for a, b in zip(off, search(), strict=True):
            assert [tokens for tokens, _ in a] == [tokens for tokens, _ in b]
            assert [score for _, score in a] == pytest.approx([score for _, score in b], abs=1e-10)

    def test_nothing_switched_off_changes_nothing(self, model, batch):
        with switched_off(model, []):
            assert model(*batch).shape == (2, 4, TARGET_VOCAB)
            assert not any(a.heads._forward_hooks for a in attentions(model).values())

    def test_blocks_add_up(self, model, batch):
        first, second = self.HEADS[:2], self.HEADS[2:]
        with switched_off(model, self.HEADS):
            both = model(*batch)
        with switched_off(model, first), switched_off(model, second):
            assert_same(model(*batch), both)

    def test_gradients_of_a_head_that_is_off_are_zero(self, model, batch):
        with switched_off(model, [HeadId("enc", 0, 1)]):
            model(*batch).sum().backward()
        value = attentions(model)["enc", 0].w_v.weight.grad
        assert value[8:].abs().max() == 0  # rows of head 1
        assert value[:8].abs().max() > 0

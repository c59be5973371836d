"""What holds of attention and of the model for any weights, lengths, masks and beams."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import PAD, ModelConfig
from seq2seq.model.attention import MultiHeadAttention, scaled_dot_product_attention
from seq2seq.model.transformer import Transformer

few = settings(deadline=None, derandomize=True, max_examples=25)
seeds = st.integers(0, 2**31)
lengths = st.integers(1, 7)


def close(a, b, tolerance=1e-10):
    return a.shape == b.shape and (a - b).abs().max().item() < tolerance


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def any_model(draw, seed):
    heads = st.sampled_from([1, 2, 4])
    torch.manual_seed(seed)
    config = ModelConfig(
        d_model=8,
        d_ff=12,
        encoder_layers=draw(st.integers(1, 2)),
        decoder_layers=draw(st.integers(1, 2)),
        encoder_heads=draw(heads),
        decoder_heads=draw(heads),
        d_k=draw(st.sampled_from([None, 3])),
        d_v=draw(st.sampled_from([None, 5])),
        norm=draw(st.sampled_from(["post", "pre"])),
        positions=draw(st.sampled_from(["sinusoidal", "learned"])),
        max_positions=20,
        activation=draw(st.sampled_from(["relu", "gelu"])),
        tying=draw(st.sampled_from(["none", "decoder", "all"])),
        source_vocab=9,
        target_vocab=9,
    )
    return Transformer(config).double().eval()


@st.composite
def models(draw):
    return any_model(draw, draw(seeds))


def ids(seed, rows, length):
    return torch.randint(4, 9, (rows, length), generator=generator(seed))


@few
@given(seed=seeds, tq=lengths, tk=lengths, heads=st.integers(1, 3), data=st.data())
def test_rows_sum_to_1_or_0_and_give_nothing_to_masked_keys(seed, tq, tk, heads, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=2 * tq * tk, max_size=2 * tq * tk))
    mask = torch.tensor(allowed).view(2, 1, tq, tk)
    scale = data.draw(st.sampled_from([0.1, 1.0, 30.0]))
    query, key = randn(seed, 2, heads, tq, 4) * scale, randn(seed + 1, 2, heads, tk, 4)
    value = randn(seed + 2, 2, heads, tk, 3)
    out, weights = scaled_dot_product_attention(query, key, value, mask=mask, need_weights=True)
    assert close(weights.sum(-1), mask.any(-1).double().expand(2, heads, tq))
    assert weights.min() >= 0
    assert (weights * ~mask).abs().max() == 0
    assert close(out, weights @ value)


@few
@given(seed=seeds, tq=lengths, tk=lengths, data=st.data())
def test_the_order_of_keys_does_not_matter(seed, tq, tk, data):
    order = data.draw(st.permutations(range(tk)))
    module = MultiHeadAttention(8, 2).double()
    x, memory = randn(seed, 1, tq, 8), randn(seed + 1, 1, tk, 8)
    mask = torch.rand(1, 1, tq, tk, generator=generator(seed)) < 0.7
    out, weights = module(x, module.project_kv(memory), mask=mask, need_weights=True)
    permuted, permuted_weights = module(
        x, module.project_kv(memory[:, order]), mask=mask[..., order], need_weights=True
    )
    assert close(out, permuted)
    assert close(weights[..., order], permuted_weights)


@few
@given(seed=seeds, t=lengths, data=st.data())
def test_the_order_of_heads_does_not_matter(seed, t, data):
    order = data.draw(st.permutations(range(4)))
    module = MultiHeadAttention(8, 4, d_k=3, d_v=2).double()
    permuted = MultiHeadAttention(8, 4, d_k=3, d_v=2).double()
    with torch.no_grad():
        for name in ("w_q", "w_k", "w_v"):
            for old, new in zip(
                getattr(module, name).parameters(),
                getattr(permuted, name).parameters(),
                strict=True,
            ):
                new.copy_(old.unflatten(0, (4, -1))[order].flatten(0, 1))
        permuted.w_o.bias.copy_(module.w_o.bias)
        blocks = module.w_o.weight.unflatten(1, (4, -1))
        permuted.w_o.weight.copy_(blocks[:, order].flatten(1))
    x = randn(seed, 2, t, 8)
    out, weights = module(x, module.project_kv(x), causal=True, need_weights=True)
    other, other_weights = permuted(x, permuted.project_kv(x), causal=True, need_weights=True)
    assert close(out, other)
    assert close(weights[:, order], other_weights)


@few
@given(model=models(), seed=seeds, s=lengths, t=lengths, more=st.integers(1, 6))
def test_padding_never_changes_results(model, seed, s, t, more):
    source, target = ids(seed, 1, s), ids(seed + 1, 1, t)
    padding = torch.full((1, more), PAD)
    mate = ids(seed + 2, 1, s + more)
    tight = model.attention_weights(source, target)
    wide = model.attention_weights(
        torch.cat((torch.cat((source, padding), 1), mate)),
        torch.cat((target, padding), 1).repeat(2, 1),
    )
    assert close(wide.logits[:1, :t], tight.logits)
    for a, b in zip(wide.encoder, tight.encoder, strict=True):
        assert close(a[:1, :, :s, :s], b)
        assert a[0, :, :, s:].abs().max() == 0
    for a, b in zip(wide.cross, tight.cross, strict=True):
        assert close(a[:1, :, :t, :s], b)
    for a, b in zip(wide.decoder, tight.decoder, strict=True):
        assert close(a[:1, :, :t, :t], b)


@few
@given(model=models(), seed=seeds, s=lengths, t=st.integers(2, 7), data=st.data())
def test_a_later_word_changes_nothing_earlier(model, seed, s, t, data):
    at = data.draw(st.integers(0, t - 1))
    source, target = ids(seed, 2, s), ids(seed + 1, 2, t)
    changed = target.clone()
    changed[:, at:] = ids(seed + 2, 2, t - at)
    before, after = model(source, target), model(source, changed)
    assert at == 0 or close(before[:, :at], after[:, :at])
    assert torch.equal(before, after) == torch.equal(target, changed)


@few
@given(model=models(), seed=seeds, s=lengths, beam=st.integers(1, 3), data=st.data())
def test_cached_steps_equal_the_whole_pass(model, seed, s, beam, data):
    source = ids(seed, 3, s)
    source[1:, data.draw(st.integers(1, s)) :] = PAD
    state = model.start(source, beam=beam, max_len=data.draw(st.integers(1, 8)))
    prefixes = torch.empty(3, beam, 0, dtype=torch.int64)
    for position in range(5):
        last = ids(seed + position, len(source), beam)
        prefixes = torch.cat((prefixes, last[..., None]), -1)
        logits = model.step(last, state)
        whole = model(source.repeat_interleave(beam, 0), prefixes.flatten(0, 1))[:, -1]
        assert close(logits.flatten(0, 1), whole)
        kept = data.draw(st.lists(st.booleans(), min_size=len(source), max_size=len(source)))
        sentences = torch.tensor([i for i, keep in enumerate(kept) if keep or not any(kept)])
        beams = torch.randint(beam, (len(sentences), beam), generator=generator(seed + position))
        state.select(sentences, beams)
        source = source[sentences]
        prefixes = prefixes[sentences][torch.arange(len(sentences))[:, None], beams]

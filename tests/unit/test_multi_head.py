"""Multi-head attention, against one head at a time and against PyTorch's own module."""

import math

import pytest
import torch
from model_samples import assert_same, random_mask, randomised

from seq2seq.model import attention
from seq2seq.model.attention import MultiHeadAttention


@pytest.fixture(params=["explicit", "fused"])
def path(request, monkeypatch):
    smallest = 0 if request.param == "fused" else 10**9
    monkeypatch.setattr(attention, "CPU_FUSED_MIN_KEYS", smallest)


def by_head(module, x, memory, mask=None):
    """Concat(head_1, …) W_O, with each head's own W_Qi, W_Ki, W_Vi cut out of the big matrices."""
    heads = []
    for i in range(module.n_heads):
        own_k = slice(i * module.d_k, (i + 1) * module.d_k)
        own_v = slice(i * module.d_v, (i + 1) * module.d_v)
        query = x @ module.w_q.weight[own_k].T + module.w_q.bias[own_k]
        key = memory @ module.w_k.weight[own_k].T + module.w_k.bias[own_k]
        value = memory @ module.w_v.weight[own_v].T + module.w_v.bias[own_v]
        scores = query @ key.transpose(1, 2) / math.sqrt(module.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, 0], -torch.inf)
        heads.append(scores.softmax(-1) @ value)
    return torch.cat(heads, -1) @ module.w_o.weight.T + module.w_o.bias


@pytest.mark.parametrize(("d_k", "d_v"), [(None, None), (3, None), (None, 5), (2, 7)])
@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_multi_head_equals_one_head_at_a_time(n_heads, d_k, d_v, path):
    module = randomised(MultiHeadAttention(8, n_heads, d_k, d_v).double())
    x, memory = torch.randn(2, 5, 8).double(), torch.randn(2, 6, 8).double()
    mask = random_mask(2, 1, 1, 6)
    out, _ = module(x, module.project_kv(memory), mask=mask)
    assert_same(out, by_head(module, x, memory, mask))
    assert module.w_o.weight.shape == (8, n_heads * (d_v or 8 // n_heads))


@pytest.mark.parametrize("n_heads", [1, 4])
def test_multi_head_equals_pytorchs_own(n_heads, path):
    ours = randomised(MultiHeadAttention(8, n_heads).double())
    theirs = torch.nn.MultiheadAttention(8, n_heads, batch_first=True).double()
    with torch.no_grad():
        parts = (ours.w_q, ours.w_k, ours.w_v)
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    x, memory = torch.randn(2, 5, 8).double(), torch.randn(2, 6, 8).double()
    words = random_mask(2, 6)
    mask = words[:, None, None]
    out, weights = ours(x, ours.project_kv(memory), mask=mask, need_weights=True)
    wanted, wanted_weights = theirs(
        x, memory, memory, key_padding_mask=~words, average_attn_weights=False
    )
    assert_same(out, wanted)
    assert_same(weights, wanted_weights)
    assert_same(ours(x, ours.project_kv(memory), mask=mask)[0], wanted)


def test_heads_that_do_not_divide_the_width_need_widths_of_their_own():
    with pytest.raises(ValueError, match="3 heads do not divide 8"):
        MultiHeadAttention(8, 3)
    with pytest.raises(ValueError, match="give d_k and d_v"):
        MultiHeadAttention(8, 3, d_k=4)
    assert MultiHeadAttention(8, 3, d_k=4, d_v=2).w_o.weight.shape == (8, 6)


def test_a_hook_on_the_heads_reads_and_switches_off_single_ones():
    module = randomised(MultiHeadAttention(8, 4, d_v=3).double())
    without = MultiHeadAttention(8, 4, d_v=3).double()
    without.load_state_dict(module.state_dict())
    with torch.no_grad():
        without.w_o.weight[:, 3:6] = 0.0  # rows 3 to 5 of W_O: what the second head writes
    x = torch.randn(2, 5, 8).double()
    kv = module.project_kv(x)

    def switch_off(_, inputs, output):
        assert output.shape == (2, 4, 5, 3)  # [B, H, Tq, Dv]
        kept = output.clone()
        kept[:, 1] = 0.0
        return kept

    handle = module.heads.register_forward_hook(switch_off)
    assert_same(module(x, kv)[0], without(x, kv)[0])
    handle.remove()
    assert not torch.allclose(module(x, kv)[0], without(x, kv)[0])

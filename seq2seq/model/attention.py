"""Attention (paper, section 3.2): scaled dot-product attention and multi-head attention.

Shapes: B batch, H heads, Tq query positions, Tk key positions, D d_model, Dk and Dv head widths.
Masks are boolean, True = may attend, and broadcast to [B, H, Tq, Tk].
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.model.dropout import dropout
from seq2seq.model.masks import causal_mask

# On a CPU, PyTorch's fused kernel loses to three plain operations on short sentences and wins on
# long ones, where it never stores the [Tq, Tk] matrix (benchmarks/attention_paths.py).
CPU_FUSED_MIN_KEYS = 256


class KeyValue(NamedTuple):
    """What attention reads: the keys and values of every head."""

    key: Tensor  # [B, H, Tk, Dk]
    value: Tensor  # [B, H, Tk, Dv]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(Q Kᵀ / √d_k) V, equation 1 of the paper.

    Two paths compute it. The explicit one writes out the equation and can return the weights
    (before dropout); the fused one is a kernel that never stores them. They agree to rounding.

    Args:
        query: [B, H, Tq, Dk].
        key: [B, H, Tk, Dk].
        value: [B, H, Tk, Dv].
        mask: bool, broadcastable to [B, H, Tq, Tk]; True = may attend. A query that may attend to
            nothing gives 0.
        causal: query i attends to keys ≤ i only. Needs Tq = Tk and excludes `mask`.
        dropout_p: dropout on the weights; the caller passes 0 outside training.
        need_weights: also return the weights, which takes the explicit path.

    Returns:
        Output [B, H, Tq, Dv], and the weights [B, H, Tq, Tk] or None.

    Raises:
        ValueError: `causal` together with `mask`, or with Tq ≠ Tk; a mask that is not boolean.
    """
    if mask is not None and mask.dtype is not torch.bool:
        raise ValueError(f"a mask is boolean, True = may attend, got {mask.dtype}")
    if causal and mask is not None:
        raise ValueError("pass either a mask or causal=True, not both")
    if causal and query.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"causal attention needs as many queries as keys, got {query.shape[-2]} "
            f"and {key.shape[-2]}: a cached single step needs no mask"
        )
    if need_weights or not _fused_is_faster(key):
        return _explicit(query, key, value, mask=mask, causal=causal, dropout_p=dropout_p)
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout_p, is_causal=causal
    )
    return out, None


def _fused_is_faster(key: Tensor) -> bool:
    if key.shape[1] == 0:  # no head at all: nothing that a kernel could make faster
        return False
    return key.device.type != "cpu" or key.shape[-2] >= CPU_FUSED_MIN_KEYS


def _explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None,
    causal: bool,
    dropout_p: float,
) -> tuple[Tensor, Tensor]:
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)  # [B, H, Tq, Tk]
    if causal:
        mask = causal_mask(scores.shape[-1], scores.device)
    if mask is not None:
        # The lowest finite number, not -inf: a row without any key would become NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if mask is not None and not causal:
        weights = weights * mask.any(-1, keepdim=True)  # rows without any key: 0
    return dropout(weights, dropout_p) @ value, weights


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O (paper, section 3.2.2).

    head_i = Attention(Q W_Qi, K W_Ki, V W_Vi). The matrices of all heads lie side by side in one:
    rows i·Dk … (i+1)·Dk of `w_q.weight` are W_Qi transposed. A single head is n_heads = 1. Where
    heads were removed, those left keep their widths and, in `head_ids`, their numbers; with none
    left, the output is b_O.

    Args:
        d_model: width D of inputs and outputs.
        n_heads: number of heads, before any is removed.
        d_k: width of one head's queries and keys; default D / n_heads.
        d_v: width of one head's values; default D / n_heads. W_O is (H·Dv) × D.
        dropout: on the attention weights, in training mode.
        head_ids: the numbers of the H heads that there are; default: all, 0 … n_heads - 1.

    Raises:
        ValueError: H does not divide D, and `d_k` or `d_v` is not given.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.0,
        head_ids: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if d_model % n_heads and (d_k is None or d_v is None):
            raise ValueError(f"{n_heads} heads do not divide {d_model}: give d_k and d_v")
        self.head_ids = list(range(n_heads) if head_ids is None else head_ids)
        self.n_heads = len(self.head_ids)  # H
        self.d_k = d_k or d_model // n_heads
        self.d_v = d_v or d_model // n_heads
        self.dropout = dropout
        with warnings.catch_warnings():  # without heads, PyTorch warns of empty matrices
            warnings.filterwarnings("ignore", "Initializing zero-element tensors")
            self.w_q = nn.Linear(d_model, self.n_heads * self.d_k)
            self.w_k = nn.Linear(d_model, self.n_heads * self.d_k)
            self.w_v = nn.Linear(d_model, self.n_heads * self.d_v)
            self.w_o = nn.Linear(self.n_heads * self.d_v, d_model)
        # Does nothing: where analysis hooks in to read, switch off or exchange single heads.
        self.heads = nn.Identity()

    def project_kv(self, memory: Tensor) -> KeyValue:
        """Keys and values of every head from what is attended to, `memory` [B, Tk, D]."""
        return KeyValue(
            self._split(self.w_k(memory), self.d_k), self._split(self.w_v(memory), self.d_v)
        )

    def project_q(self, x: Tensor) -> Tensor:
        """Queries of every head, [B, H, Tq, Dk], from `x` [B, Tq, D]."""
        return self._split(self.w_q(x), self.d_k)

    def forward(
        self,
        x: Tensor,
        kv: KeyValue,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `x` [B, Tq, D] to `kv`.

        Returns:
            Output [B, Tq, D], and the weights [B, H, Tq, Tk] or None.
        """
        heads, weights = scaled_dot_product_attention(
            self.project_q(x),
            kv.key,
            kv.value,
            mask=mask,
            causal=causal,
            dropout_p=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        concat = self.heads(heads).transpose(1, 2).flatten(2)  # [B, Tq, H·Dv]
        return self.w_o(concat), weights if need_weights else None

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, width).transpose(1, 2)  # [B, H, T, width]

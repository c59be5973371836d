"""Encoder and decoder layers (paper, section 3.1 and Figure 1).

Shapes: B batch, S source length, T target length, D d_model, H heads.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from seq2seq.choices import Norm
from seq2seq.config import ModelConfig
from seq2seq.model.attention import KeyValue, MultiHeadAttention
from seq2seq.model.cache import LayerCache
from seq2seq.model.dropout import Dropout
from seq2seq.model.feed_forward import FeedForward


class Sublayer(nn.Module):
    """The residual connection and layer normalisation around each sublayer.

    post (the paper): LayerNorm(x + dropout(f(x))). pre: x + dropout(f(LayerNorm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.is_post = config.norm is Norm.post

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `f` to `x` [B, T, D] inside the residual connection."""
        if self.is_post:
            return self.norm(x + self.dropout(f(x)))
        return x + self.dropout(f(self.norm(x)))


def _attention(config: ModelConfig, kind: str, layer: int) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads()[kind][1],
        config.d_k,
        config.d_v,
        config.attention_dropout,
        config.head_ids(kind, layer),
    )


def _feed_forward(config: ModelConfig) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation, config.ff_dropout)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network; `layer` counts from 0."""

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.self_attention = _attention(config, "enc", layer)
        self.feed_forward = _feed_forward(config)
        self.around_attention = Sublayer(config)
        self.around_feed_forward = Sublayer(config)

    def forward(
        self, x: Tensor, mask: Tensor | None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Encode `x` [B, S, D]; `mask` [B, 1, 1, S] tells words from padding.

        Returns:
            [B, S, D], and the weights [B, H, S, S] or None.
        """
        weights: Tensor | None = None

        def attend(y: Tensor) -> Tensor:
            nonlocal weights
            kv = self.self_attention.project_kv(y)
            out, weights = self.self_attention(y, kv, mask=mask, need_weights=need_weights)
            return out

        x = self.around_attention(x, attend)
        return self.around_feed_forward(x, self.feed_forward), weights


class DecoderLayer(nn.Module):
    """Causal self-attention over the target, attention to the source, feed-forward.

    `layer` counts from 0.
    """

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.self_attention = _attention(config, "dec", layer)
        self.cross_attention = _attention(config, "cross", layer)
        self.feed_forward = _feed_forward(config)
        self.around_self_attention = Sublayer(config)
        self.around_cross_attention = Sublayer(config)
        self.around_feed_forward = Sublayer(config)

    def forward(
        self,
        x: Tensor,
        memory: KeyValue,
        mask: Tensor | None,
        *,
        cache: LayerCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Decode `x` [B, T, D] against the source.

        Without a cache, x holds whole targets and self-attention is causal. With one, x [B, K, D]
        holds only the newest position of each of K beams; the cache has the earlier ones, and the
        beams are K queries of the one memory of their sentence.

        Args:
            x: [B, T, D], or [B, K, D] with a cache.
            memory: this layer's keys and values of the source, from `project_memory`.
            mask: [B, 1, 1, S], source words and not padding.
            cache: keys and values of the earlier target positions; extended by this call.
            need_weights: also return both weights (without a cache).

        Returns:
            [B, T, D]; self-attention weights [B, H, T, T] and cross [B, H, T, S], or None.
        """
        own: Tensor | None = None
        cross: Tensor | None = None

        def attend_self(y: Tensor) -> Tensor:
            nonlocal own
            if cache is not None:
                newest = y.flatten(0, 1)[:, None]  # [B·K, 1, D]
                kv = cache.append(self.self_attention.project_kv(newest))
                return self.self_attention(newest, kv)[0].view_as(y)
            kv = self.self_attention.project_kv(y)
            out, own = self.self_attention(y, kv, causal=True, need_weights=need_weights)
            return out

        def attend_source(y: Tensor) -> Tensor:
            nonlocal cross
            out, cross = self.cross_attention(y, memory, mask=mask, need_weights=need_weights)
            return out

        x = self.around_self_attention(x, attend_self)
        x = self.around_cross_attention(x, attend_source)
        return self.around_feed_forward(x, self.feed_forward), own, cross

    def project_memory(self, encoded: Tensor) -> KeyValue:
        """Keys and values of the encoded source [B, S, D], computed once a sentence."""
        return self.cross_attention.project_kv(encoded)

"""The Transformer (paper, section 3 and Figure 1): encoder, decoder, and the two together.

Shapes: B batch, S source length, T target length, K beams, D d_model, H heads, V vocabulary.
Source sequences are pieces and end-of-sentence; the decoder reads begin-of-sentence and pieces, and
predicts pieces and end-of-sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.choices import Norm, Positions, Tying
from seq2seq.config import PAD, ModelConfig
from seq2seq.model.attention import KeyValue
from seq2seq.model.cache import DecoderState, LayerCache, Memory
from seq2seq.model.embedding import TokenEmbedding
from seq2seq.model.init import initialise
from seq2seq.model.layers import DecoderLayer, EncoderLayer
from seq2seq.model.masks import padding_mask
from seq2seq.model.positional import LearnedPositions, SinusoidalPositions


@dataclass
class AttentionWeights:
    """Every attention weight of one teacher-forced pass, before dropout; lists run over layers."""

    encoder: list[Tensor]  # [B, H, S, S]
    decoder: list[Tensor]  # [B, H, T, T]
    cross: list[Tensor]  # [B, H, T, S]
    logits: Tensor  # [B, T, V]


class Encoder(nn.Module):
    """A stack of encoder layers; pre-norm adds a last normalisation."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, i) for i in range(config.encoder_layers))
        self.norm = _last_norm(config)

    def forward(
        self, x: Tensor, mask: Tensor | None, *, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Encode `x` [B, S, D]; returns it and, if needed, each layer's weights."""
        weights = []
        for layer in self.layers:
            x, layer_weights = layer(x, mask, need_weights=need_weights)
            if need_weights:
                weights.append(layer_weights)
        return self.norm(x), weights


class Decoder(nn.Module):
    """A stack of decoder layers; pre-norm adds a last normalisation."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.decoder_layers))
        self.norm = _last_norm(config)

    def forward(
        self,
        x: Tensor,
        memory: Memory,
        *,
        caches: list[LayerCache] | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Decode `x` [B, T, D] (with caches: [B, K, D]); returns it and each layer's weights."""
        own_weights, cross_weights = [], []
        for index, layer in enumerate(self.layers):
            cache = caches[index] if caches else None
            x, own, cross = layer(
                x, memory.layers[index], memory.mask, cache=cache, need_weights=need_weights
            )
            if need_weights:
                own_weights.append(own)
                cross_weights.append(cross)
        return self.norm(x), own_weights, cross_weights

    def project_memory(self, encoded: Tensor, mask: Tensor | None) -> Memory:
        """Cross-attention keys and values of every layer from the encoded source [B, S, D]."""
        return Memory([layer.project_memory(encoded) for layer in self._layers()], mask)

    def _layers(self) -> list[DecoderLayer]:
        return list(self.layers)  # type: ignore[arg-type]


class Transformer(nn.Module):
    """The encoder-decoder model of the paper.

    Args:
        config: sizes and options; `source_vocab` and `target_vocab` must be filled in.

    Raises:
        ValueError: vocabulary sizes are missing, or tying=all with different ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.source_vocab < 1 or config.target_vocab < 1:
            raise ValueError("source_vocab and target_vocab must be set from the tokenizer")
        if config.tying is Tying.all and config.source_vocab != config.target_vocab:
            raise ValueError(
                f"tying=all needs one vocabulary, got {config.source_vocab} source "
                f"and {config.target_vocab} target pieces"
            )
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        target = nn.Embedding(config.target_vocab, config.d_model)
        source = target
        if config.tying is not Tying.all:
            source = nn.Embedding(config.source_vocab, config.d_model)
        self.source_embedding = TokenEmbedding(source, _positions(config), config.embedding_dropout)
        self.target_embedding = TokenEmbedding(target, _positions(config), config.embedding_dropout)
        self.output = nn.Linear(config.d_model, config.target_vocab, bias=False)
        initialise(self)
        if config.tying is not Tying.none:
            self.output.weight = target.weight

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Teacher-forced logits [B, T, V] for `source` [B, S] and `target_in` [B, T]."""
        x, _, _ = self.decoder(self.target_embedding(target_in), self.encode(source))
        return self.output(x)

    def encode(self, source: Tensor) -> Memory:
        """The source [B, S] as keys and values of every decoder layer's cross-attention."""
        mask = padding_mask(source, PAD)
        encoded, _ = self.encoder(self.source_embedding(source), mask)
        return self.decoder.project_memory(encoded, mask)

    def start(self, source: Tensor, *, beam: int = 1, max_len: int | None = None) -> DecoderState:
        """Encode `source` [B, S] and make the state of cached decoding with `step`.

        Args:
            source: [B, S].
            beam: hypotheses a sentence; `step` takes as many columns.
            max_len: longest output expected, a hint for allocation.
        """
        capacity = min(max_len or 16, 16 if beam > 1 else 32)
        caches = [LayerCache(capacity) for _ in self.decoder.layers]
        memory = self.encode(source)
        memory.layers = [KeyValue(k.contiguous(), v.contiguous()) for k, v in memory.layers]
        return DecoderState(memory, caches)

    def step(self, last: Tensor, state: DecoderState) -> Tensor:
        """One cached decoding step.

        Args:
            last: [B, K], the newest token of every hypothesis (begin-of-sentence at first).
            state: from `start`; extended by this position.

        Returns:
            Logits [B, K, V] of the next token.
        """
        # [B, K] → [B, K, 1, D] so that the one position is the last but one dimension
        x = self.target_embedding(last[..., None], start=state.length).squeeze(-2)
        x, _, _ = self.decoder(x, state.memory, caches=state.caches)
        state.length += 1
        return self.output(x)

    def attention_weights(self, source: Tensor, target_in: Tensor) -> AttentionWeights:
        """`forward`, with the weights of every head of all three attentions.

        By causality, row t of the decoder's maps equals that of cached decoding at step t.
        """
        mask = padding_mask(source, PAD)
        encoded, encoder_weights = self.encoder(
            self.source_embedding(source), mask, need_weights=True
        )
        memory = self.decoder.project_memory(encoded, mask)
        x, own, cross = self.decoder(self.target_embedding(target_in), memory, need_weights=True)
        return AttentionWeights(encoder_weights, own, cross, self.output(x))

    def log_probabilities(self, source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        """Natural log-probability of every given target token, [B, T]; padding gives 0."""
        logits = self(source, target_in).float()
        loss = F.cross_entropy(logits.flatten(0, 1), target_out.flatten(), reduction="none")
        return -loss.view_as(target_out).masked_fill(target_out == PAD, 0.0)

    @property
    def position_limit(self) -> int | None:
        """Longest sequence that the position table takes, or None for no limit."""
        return self.source_embedding.positions.limit


def _positions(config: ModelConfig) -> SinusoidalPositions | LearnedPositions:
    if config.positions is Positions.learned:
        return LearnedPositions(config.d_model, config.max_positions)
    return SinusoidalPositions(config.d_model)


def _last_norm(config: ModelConfig) -> nn.Module:
    # In pre-norm the residual sum leaves the last layer unnormalised.
    return nn.LayerNorm(config.d_model) if config.norm is Norm.pre else nn.Identity()


def parameter_count(model: nn.Module) -> int:
    """Number of trainable numbers; tied matrices count once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)

"""Small models that the tests of seq2seq.model share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.choices import Tying
from seq2seq.config import PAD, ModelConfig
from seq2seq.model.transformer import Transformer

SOURCE_VOCAB, TARGET_VOCAB = 11, 13

BOTH_NORMS_AND_POSITIONS = [
    {"norm": "post", "positions": "sinusoidal"},
    {"norm": "pre", "positions": "learned"},
]


def tiny_config(**changes: Any) -> ModelConfig:
    """Encoder and decoder differ in layers, heads and vocabulary, so that no mix-up can hide."""
    options: dict[str, Any] = {
        "d_model": 16,
        "d_ff": 24,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_heads": 2,
        "decoder_heads": 4,
        "max_positions": 64,
        "tying": Tying.decoder,
        "dropout": 0.0,
        "embedding_dropout": 0.0,
        "source_vocab": SOURCE_VOCAB,
        "target_vocab": TARGET_VOCAB,
    }
    return ModelConfig(**{**options, **changes})


def tiny_model(**changes: Any) -> Transformer:
    """In float64 and evaluation mode, without a parameter that is 0 or 1."""
    torch.manual_seed(0)
    return randomised(Transformer(tiny_config(**changes)).double()).eval()


def randomised(module: nn.Module) -> Any:
    """Biases of 0 and norms of 1 would hide a forgotten one."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def random_ids(rows: int, length: int, vocab: int, seed: int = 0) -> Tensor:
    """Words only, [rows, length]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, vocab, (rows, length), generator=generator)


def random_mask(*shape: int) -> Tensor:
    """True = may attend; the first key always."""
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True
    return mask


def padded(ids: Tensor, lengths: list[int], width: int | None = None) -> Tensor:
    """`ids` cut to the lengths and padded on the right, to `width` if given."""
    out = torch.full((len(ids), width or ids.shape[1]), PAD)
    for row, length in enumerate(lengths):
        out[row, :length] = ids[row, :length]
    return out


def assert_same(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> None:
    """Equal shapes, and equal numbers to `tolerance` absolutely."""
    assert a.shape == b.shape
    assert (a - b).abs().max().item() < tolerance

"""Removing attention heads for good: a smaller model that computes what is left.

A head is rows of W_Q, W_K, W_V with their biases, and columns of W_O (section 3.2.2). Without them
the model computes what it would with the head's output held at 0 (Michel et al. 2019, section 4).
The heads that stay keep their numbers, so that `enc.0.2` means one head for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor

from seq2seq.config import ModelConfig
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.transformer import Transformer

Kept = dict[str, tuple[int, Tensor]]
"""Name of a parameter → its dimension that shrinks, and the entries of it that stay."""


def without_heads(config: ModelConfig, heads: Iterable[object]) -> ModelConfig:
    """The configuration of the smaller model; heads already removed may be named again.

    Args:
        config: of the model.
        heads: what reads as their names, such as "enc.0.2".

    Raises:
        UserError: a name that is none of a head the model ever had.
    """
    removed = [*(config.removed_heads or ()), *map(str, heads)]
    return dataclasses.replace(config, removed_heads=removed)


def kept_entries(model: Transformer, smaller: ModelConfig) -> Kept:
    """Which entries of a model's parameters the smaller model has.

    Args:
        model: the larger model.
        smaller: its configuration with more heads removed.
    """
    return {
        f"{name}.{parameter}": entries
        for name, kind, layer, attention in _attentions(model)
        for parameter, entries in _entries(attention, smaller.head_ids(kind, layer)).items()
    }


def cut(tensors: Mapping[str, Tensor], kept: Kept) -> dict[str, Tensor]:
    """Tensors by the names of parameters (weights, or Adam's moments), without the removed heads.

    Tensors that are one, as tied weights are, stay one.
    """
    return {
        name: tensor.index_select(kept[name][0], kept[name][1].to(tensor.device))
        if name in kept
        else tensor
        for name, tensor in tensors.items()
    }


def remove(model: Transformer, heads: Iterable[object]) -> Transformer:
    """The model without some heads; the model itself and the random state stay as they are.

    Args:
        model: any Transformer.
        heads: their names. Those already removed change nothing.

    Returns:
        A new model on the same device, with the same precision and mode.

    Raises:
        UserError: a head that the model never had.
    """
    config = without_heads(model.config, heads)
    first = next(model.parameters())
    with torch.random.fork_rng(devices=[]):
        smaller = Transformer(config).to(first.device, first.dtype)
    smaller.load_state_dict(cut(model.state_dict(), kept_entries(model, config)))
    return smaller.train(model.training)


def _attentions(model: Transformer) -> Iterator[tuple[str, str, int, MultiHeadAttention]]:
    """Every attention: its name as a module, its kind and its layer."""
    places = (("encoder", "self", "enc"), ("decoder", "self", "dec"), ("decoder", "cross", "cross"))
    for stack, which, kind in places:
        for layer in range(model.config.heads()[kind][0]):
            name = f"{stack}.layers.{layer}.{which}_attention"
            attention = model.get_submodule(name)
            assert isinstance(attention, MultiHeadAttention)
            yield name, kind, layer, attention


def _entries(attention: MultiHeadAttention, heads: list[int]) -> Kept:
    """What these heads hold of each matrix; b_O belongs to none of them."""
    places = [attention.head_ids.index(head) for head in heads]
    k, v = _spread(places, attention.d_k), _spread(places, attention.d_v)
    return {
        "w_q.weight": (0, k),
        "w_q.bias": (0, k),
        "w_k.weight": (0, k),
        "w_k.bias": (0, k),
        "w_v.weight": (0, v),
        "w_v.bias": (0, v),
        "w_o.weight": (1, v),
    }


def _spread(places: list[int], width: int) -> Tensor:
    """The entries of heads of this width that lie at these places, one behind the other."""
    first = torch.tensor(places, dtype=torch.int64)[:, None] * width
    return (first + torch.arange(width)).flatten()


def head_size(attention: MultiHeadAttention) -> int:
    """Parameters of one head: W_Q, W_K, W_V with their biases, and its part of W_O."""
    d_model, d_k, d_v = attention.w_o.out_features, attention.d_k, attention.d_v
    return 2 * (d_model + 1) * d_k + (d_model + 1) * d_v + d_v * d_model

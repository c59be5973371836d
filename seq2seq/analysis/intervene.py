"""Reach into single heads of a model that runs: read them, scale them, exchange them.

A head is named `kind.layer.head`, as in `cross.2.1`: kind is enc, dec or cross, numbers count from
0. Hooks sit where each attention passes its heads' outputs [B, H, Tq, Dv] on, before W_O mixes
them, so they act alike in training, in a teacher-forced pass and in cached decoding. (There the
decoder's own attention sees [B·K, H, 1, Dv] and cross-attention [B, H, K, Dv], K beams: dimension 1
is the head everywhere.)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.errors import UserError
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.transformer import Transformer

__all__ = [
    "HeadFunction",
    "HeadId",
    "Place",
    "all_heads",
    "attentions",
    "check_heads",
    "head_numbers",
    "indices",
    "on_heads",
    "parse_heads",
    "parse_heads_to_go",
    "switched_off",
]

logger = logging.getLogger(__name__)

HeadFunction = Callable[[Tensor], Tensor | None]
"""From a layer's head outputs [B, H, Tq, Dv] to what stands in for them; None: as they are."""


def attentions(model: Transformer) -> dict[Place, MultiHeadAttention]:
    """Every attention of a model, in the order enc, dec, cross, and by layer."""
    decoder = list(model.decoder.layers)
    found = {
        "enc": [layer.self_attention for layer in model.encoder.layers],
        "dec": [layer.self_attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }
    return {
        (kind, number): attention  # type: ignore[misc]
        for kind, layers in found.items()
        for number, attention in enumerate(layers)
    }


def head_numbers(attention: MultiHeadAttention) -> list[int]:
    """The numbers of an attention's heads, in the order of dimension 1 of their outputs."""
    return list(attention.head_ids)


def all_heads(model: Transformer) -> list[HeadId]:
    """Every head of a model, in the order enc, dec, cross, by layer and by number."""
    return [
        HeadId(kind, layer, head)
        for (kind, layer), attention in attentions(model).items()
        for head in head_numbers(attention)
    ]


def parse_heads(text: str, model: Transformer) -> list[HeadId]:
    """Read names of heads, separated by commas or spaces, each head once.

    Raises:
        UserError: a name that is none, no name at all, or a head that the model lacks; the message
            lists those it has.
    """
    heads = _parse(text)
    check_heads(model, heads)
    return heads


def parse_heads_to_go(text: str, model: Transformer) -> list[HeadId]:
    """Read names of heads that the model is to do without.

    Those removed from it before are left out, with a warning that they change nothing.

    Raises:
        UserError: as `parse_heads`, for heads that the model never had.
    """
    heads = _parse(text)
    gone = [head for head in heads if str(head) in (model.config.removed_heads or ())]
    left = [head for head in heads if head not in gone]
    check_heads(model, left)
    if gone:
        names = ", ".join(map(str, gone))
        logger.warning("already removed from this model, so nothing changes for %s.", names)
    return left


def check_heads(model: Transformer, heads: Iterable[HeadId]) -> None:
    """Insist that a model has these heads.

    Raises:
        UserError: it lacks one; the message lists those it has.
    """
    held = set(all_heads(model))
    missing = [str(head) for head in heads if head not in held]
    if missing:
        raise UserError(f"The model has no head {', '.join(missing)}: it has {_overview(model)}.")


def indices(model: Transformer, heads: Iterable[HeadId]) -> dict[Place, list[int]]:
    """Where heads lie in dimension 1 of their attention's outputs, by attention.

    Raises:
        UserError: the model lacks one of them.
    """
    wanted = list(heads)
    check_heads(model, wanted)
    found = attentions(model)
    places: dict[Place, list[int]] = {}
    for head in wanted:
        index = head_numbers(found[head.place]).index(head.head)
        places.setdefault(head.place, []).append(index)
    return places


@contextlib.contextmanager
def on_heads(model: Transformer, functions: Mapping[Place, HeadFunction]) -> Iterator[None]:
    """While the block runs, pass the head outputs of attentions through functions.

    Args:
        model: any Transformer; afterwards, also after an exception, it is as before.
        functions: (kind, layer) → what is called with the outputs [B, H, Tq, Dv] of that
            attention's heads. It may return others in their place, or None after reading them.

    Raises:
        UserError: the model has no such attention.
    """
    found = attentions(model)
    for kind, layer in functions:
        if (kind, layer) not in found:
            raise UserError(
                f"The model has no attention {kind}.{layer}: it has {_overview(model)}."
            )
    with contextlib.ExitStack() as stack:
        for place, function in functions.items():
            handle = found[place].heads.register_forward_hook(_hook(function))
            stack.callback(handle.remove)
        yield


@contextlib.contextmanager
def switched_off(model: Transformer, heads: Iterable[HeadId]) -> Iterator[None]:
    """While the block runs, these heads put out 0, whatever the model is used for.

    Raises:
        UserError: the model lacks one of them.
    """
    functions = {
        place: _zero(attentions(model)[place], chosen)
        for place, chosen in indices(model, heads).items()
    }
    with on_heads(model, functions):
        yield


def _parse(text: str) -> list[HeadId]:
    heads = list(dict.fromkeys(HeadId.parse(name) for name in text.replace(",", " ").split()))
    if not heads:
        raise UserError("No head is named: write, for instance, cross.2.1,enc.0.3.")
    return heads


def _hook(function: HeadFunction) -> Callable[[nn.Module, tuple[Tensor], Tensor], Tensor | None]:
    return lambda _module, _inputs, output: function(output)


def _zero(attention: MultiHeadAttention, chosen: list[int]) -> HeadFunction:
    gate = torch.ones(attention.n_heads, 1, 1)
    gate[chosen] = 0
    return lambda outputs: outputs * gate.to(outputs)


def _overview(model: Transformer) -> str:
    """All heads in few words, as "enc.0.0-3, enc.1.0-3, dec.0.0-1"."""
    parts = []
    for (kind, layer), attention in attentions(model).items():
        numbers = head_numbers(attention)
        if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
            parts.append(f"{kind}.{layer}.{numbers[0]}-{numbers[-1]}")
        else:
            parts += [f"{kind}.{layer}.{number}" for number in numbers]
    return ", ".join(parts)

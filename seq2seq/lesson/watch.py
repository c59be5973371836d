"""Watch one call of the real multi-head attention: every tensor on the way, from hooks.

Nothing is computed again here. Projections, head outputs and the concatenation come from forward
hooks on the module's own parts; the scores are what its softmax was given.

Letters: H heads, N queries, M keys, D d_model, Dk and Dv head widths.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2seq.attention_maps import Array
from seq2seq.model.attention import MultiHeadAttention


class SoftmaxInputs(TorchFunctionMode):
    """While it is active, keeps what every `Tensor.softmax` is given: the scores [B, H, N, M]."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the scores, then do what was asked for."""
        if func is Tensor.softmax:
            self.seen.append(args[0])
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Steps:
    """What one call passed through, for one sentence.

    Matrices of the projections are those of equation head_i = Attention(X W_Qi, X W_Ki, X W_Vi):
    a row for each feature of X.
    """

    x: Array  # [N, D]
    w_q: Array  # [H, D, Dk]
    w_k: Array  # [H, D, Dk]
    w_v: Array  # [H, D, Dv]
    query: Array  # [H, N, Dk]
    key: Array  # [H, M, Dk]
    value: Array  # [H, M, Dv]
    scores: Array  # [H, N, M], as the softmax took them
    weights: Array  # [H, N, M]
    heads: Array  # [H, N, Dv]
    concat: Array  # [N, H·Dv]
    w_o: Array  # [H·Dv, D]
    out: Array  # [N, D]


@torch.no_grad()
def watch(attention: MultiHeadAttention, x: Tensor, *, scaled: bool = True) -> Steps:
    """Let `x` [N, D] attend to itself, and note what passes.

    Args:
        attention: the module, in evaluation mode.
        x: one sentence.
        scaled: False undoes the division by √d_k: the queries come in √d_k times as large.
    """
    stretch = 1.0 if scaled else math.sqrt(attention.d_k)
    with (
        outputs_of(attention, "w_q", "w_k", "w_v", "heads", "w_o") as seen,
        stretched(attention.w_q, stretch),
        SoftmaxInputs() as softmax,
    ):
        _, weights = attention(x[None], attention.project_kv(x[None]), need_weights=True)
    heads = attention.n_heads
    return Steps(
        x=_array(x),
        w_q=_projection(attention.w_q, heads),
        w_k=_projection(attention.w_k, heads),
        w_v=_projection(attention.w_v, heads),
        query=_split(seen["w_q"][1], heads),
        key=_split(seen["w_k"][1], heads),
        value=_split(seen["w_v"][1], heads),
        scores=_array(softmax.seen[0][0]),
        weights=_array(weights[0]),
        heads=_array(seen["heads"][1][0]),
        concat=_array(seen["w_o"][0][0]),
        w_o=_array(attention.w_o.weight.T),
        out=_array(seen["w_o"][1][0]),
    )


@contextlib.contextmanager
def outputs_of(
    attention: MultiHeadAttention, *names: str
) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """While the block runs, name of a part → its (input, output) in the last call."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda _module, inputs, output: seen.update({name: (inputs[0], output)})

    hooks = [getattr(attention, name).register_forward_hook(keep(name)) for name in names]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def stretched(module: nn.Module, factor: float) -> Iterator[None]:
    """While the block runs, what the module puts out is `factor` times as large."""
    if factor == 1.0:
        yield
        return
    hook = module.register_forward_hook(lambda _module, _inputs, output: output * factor)
    try:
        yield
    finally:
        hook.remove()


def _projection(linear: nn.Linear, heads: int) -> Array:
    """[H, D, width], from rows that lie head by head in [H·width, D]."""
    return _array(linear.weight.view(heads, -1, linear.in_features).transpose(1, 2))


def _split(x: Tensor, heads: int) -> Array:
    return _array(x[0].view(len(x[0]), heads, -1).transpose(0, 1))  # [H, N, width]


def _array(tensor: Tensor) -> Array:
    return tensor.detach().numpy().copy()

"""Look at a model while it runs, and leave it as it was.

Letters: B sentences, H heads, Tq queries, Tk keys, D the model's width, Dk and Dv a head's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.analysis.head_id import Place
from seq2seq.analysis.intervene import attentions
from seq2seq.model.attention import KeyValue, MultiHeadAttention
from seq2seq.model.transformer import Transformer


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Look at a model and leave no trace: eval mode, no gradients, afterwards all as before.

    Each submodule's own training flag comes back, also after an exception, and random states are
    neither used nor moved.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


@dataclass(frozen=True)
class Seen:
    """What went into an attention and came out of it.

    Attributes:
        attention: the module.
        x: what makes the queries, [B, Tq, D].
        kv: keys [B, H, Tk, Dk] and values x W_V + b_V [B, H, Tk, Dv] of every head.
        output: [B, Tq, D].
        weights: α, [B, H, Tq, Tk].
        heads: what every head put out, [B, H, Tq, Dv], as interventions left it.
    """

    attention: MultiHeadAttention
    x: Tensor
    kv: KeyValue
    output: Tensor
    weights: Tensor
    heads: Tensor

    @property
    def query(self) -> Tensor:
        """The queries of every head, [B, H, Tq, Dk]."""
        return self.attention.project_q(self.x)


@contextlib.contextmanager
def observed(model: Transformer) -> Iterator[dict[Place, Seen]]:
    """While the block runs, note what every attention sees when its weights are asked for."""
    found: dict[Place, Seen] = {}
    heads: dict[Place, Tensor] = {}
    Hook = Callable[[nn.Module, tuple[Tensor, KeyValue], tuple[Tensor, Tensor]], None]

    def hook(place: Place) -> Hook:
        def read(
            module: nn.Module, inputs: tuple[Tensor, KeyValue], outputs: tuple[Tensor, Tensor]
        ) -> None:
            assert isinstance(module, MultiHeadAttention)
            found[place] = Seen(module, *inputs, *outputs, heads.pop(place))

        return read

    def keep(place: Place) -> Callable[[nn.Module, tuple[Tensor], Tensor], None]:
        return lambda _module, _inputs, output: heads.__setitem__(place, output)

    with contextlib.ExitStack() as stack:
        for place, attention in attentions(model).items():
            stack.callback(attention.heads.register_forward_hook(keep(place)).remove)
            stack.callback(attention.register_forward_hook(hook(place)).remove)
        yield found

"""What attention weights leave out: how long the vectors are that they weigh.

Norms (Kobayashi et al. 2020): what key j adds to the output at query i is Σ_h α_ij f_h(x_j) with
f_h(x) = (x W_V + b_V) W_O[h]; a large weight on a short vector adds little.

Letters: B sentences, H heads, Tq queries, Tk keys, D the model's width, Dv a head's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.analysis.head_id import Place
from seq2seq.analysis.observe import Seen, observed, undisturbed
from seq2seq.model.transformer import Transformer


@dataclass(frozen=True)
class Contributions:
    """One attention over a batch: its weights, the vectors they weigh, and its output.

    Attributes:
        weights: α, [B, H, Tq, Tk].
        vectors: f_h(x_j), [B, H, Tk, D].
        bias: b_O, [D], which belongs to no key.
        output: of the module, [B, Tq, D].
    """

    weights: Tensor
    vectors: Tensor
    bias: Tensor
    output: Tensor

    def rebuilt(self) -> Tensor:
        """Σ_j Σ_h α_ij f_h(x_j) + b_O, [B, Tq, D]: equals `output` to rounding."""
        return (self.weights @ self.vectors).sum(1) + self.bias

    def by_head(self) -> Tensor:
        """‖α_ij f_h(x_j)‖ = α_ij ‖f_h(x_j)‖, [B, H, Tq, Tk]."""
        return self.weights * self.vectors.norm(dim=-1)[:, :, None, :]

    def of_layer(self) -> Tensor:
        """‖Σ_h α_ij f_h(x_j)‖, [B, Tq, Tk]; heads that pull in opposite directions cancel.

        From the inner products of the heads' vectors, so that nothing of size Tq × Tk × D is made.
        """
        products = torch.einsum("bhkd,bgkd->bkhg", self.vectors, self.vectors)
        squares = torch.einsum("bhqk,bkhg,bgqk->bqk", self.weights, products, self.weights)
        return squares.clamp_min(0).sqrt()  # rounding may leave −0.0…01


def contribution(seen: Seen) -> Contributions:
    """Split what an attention put out by heads and keys; heads that are off add nothing."""
    w_o = seen.attention.w_o.weight.detach()  # [D, H·Dv]
    value = seen.kv.value  # [B, H, Tk, Dv]
    heads = w_o.T.reshape(value.shape[1], value.shape[-1], w_o.shape[0])  # [H, Dv, D]
    bias = seen.attention.w_o.bias.detach()
    # Off: nothing is put out though weights and values would make something.
    silent = (seen.heads == 0).flatten(2).all(-1) & (seen.weights @ value).flatten(2).any(-1)
    vectors = (value @ heads).masked_fill(silent[:, :, None, None], 0.0)  # [B, H, Tk, D]
    return Contributions(seen.weights, vectors, bias, seen.output)


def contributions(
    model: Transformer, source: Tensor, target_in: Tensor
) -> dict[Place, Contributions]:
    """What every attention of a model adds to what, along a given target.

    Padded queries and keys are still there: crop what is shown.

    Args:
        model: a Transformer; left as it was.
        source: ids [B, S].
        target_in: ids [B, T], from begin of sentence.
    """
    with undisturbed(model), observed(model) as seen:
        model.attention_weights(source, target_in)
        return {place: contribution(one) for place, one in seen.items()}

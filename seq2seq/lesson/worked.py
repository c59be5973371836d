"""The worked example: "I learn.", d_model 4, two heads of width 2, led through the real module.

The projections pick columns: head 1 reads columns 1 and 2 of X, head 2 columns 3 and 4. Biases are
0 and W_O is the identity, so that every number can be followed with pencil and paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.analysis.similarity import js
from seq2seq.analysis.tables import Column
from seq2seq.attention_maps import Array
from seq2seq.lesson.part import Claim, Part, check, matrix, number, shape, table
from seq2seq.lesson.watch import Steps, watch
from seq2seq.model.attention import MultiHeadAttention

TOKENS = ("I", "learn.")
X = ((1.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 1.0))
CHANGED = (0, 2)  # the entry of X that is set to 0: only the second head reads it
EXACT = 1e-12


@dataclass(frozen=True)
class Worked:
    """The example and its variations, each one call of the module."""

    two: Steps  # as the lesson has it
    unscaled: Steps  # without the division by √2
    one: Steps  # one head of width 4
    one_unscaled: Steps
    changed: Steps  # two heads, one entry of X set to 0


def picking_attention(n_heads: int) -> MultiHeadAttention:
    """The project's module with weights that hand 4 / n_heads columns of X to each head."""
    attention = MultiHeadAttention(4, n_heads).double().eval()
    with torch.no_grad():
        for linear in (attention.w_q, attention.w_k, attention.w_v, attention.w_o):
            linear.weight.copy_(torch.eye(4))
            linear.bias.zero_()
    return attention


def work() -> Worked:
    """Run the example and its variations."""
    x = embeddings()
    other = x.clone()
    other[CHANGED] = 0.0
    two, one = picking_attention(2), picking_attention(1)
    return Worked(
        two=watch(two, x),
        unscaled=watch(two, x, scaled=False),
        one=watch(one, x),
        one_unscaled=watch(one, x, scaled=False),
        changed=watch(two, other),
    )


def embeddings() -> Tensor:
    """X, 2 × 4."""
    return torch.tensor(X, dtype=torch.float64)


def divergence(steps: Steps) -> float:
    """Mean Jensen-Shannon divergence of the first two heads, in nats."""
    return float(js(steps.weights[0], steps.weights[1]).mean())


def part(found: Worked) -> Part:
    """The claims of the example with their numbers."""
    a, b = found.two.weights[0, 0].tolist()
    stages = (Column("stage"), Column("shape"), Column("head 1"), Column("head 2"))
    return Part(
        "worked",
        "A worked example: two heads on two tokens",
        "X = [1 0 1 0; 0 1 0 1] for “I learn.”, loaded with its weights into the module that "
        "translates; every matrix below was caught on its way through.",
        [*_claims_of_heads(found, a, b), *_claims_of_output(found), *_claims_of_one_head(found)],
        [
            table("worked", "Head by head", stages, _stages(found)),
            table("worked_scaling", "The first token's weights", _SCALING, _scaling(found)),
        ],
    )


def _claims_of_heads(found: Worked, a: float, b: float) -> list[Claim]:
    two = found.two
    reads = [
        " and ".join(str(column + 1) for column in w.any(1).nonzero()[0].tolist()) for w in two.w_q
    ]
    same = bool((two.query[0] == two.query[1]).all())
    expected = 1 / (1 + math.exp(-1 / math.sqrt(2)))  # softmax of (1/√2, 0)
    sharp = found.unscaled.weights[0, 0, 0]
    apart, moved = divergence(two), divergence(found.changed)
    kept = bool((found.changed.weights[0] == two.weights[0]).all())
    return [
        Claim(
            "Both heads read the same X, each through projections of its own.",
            f"head 1 reads columns {reads[0]}, head 2 columns {reads[1]}; "
            f"Q1 {'=' if same else '≠'} Q2 = {matrix(two.query[1])}",
            check(reads == ["1 and 2", "3 and 4"] and same),
            "Compare where the ones stand in the two W_Q; then that both Q are equal all the same.",
        ),
        Claim(
            "A score that leads by 1 becomes, divided by √2, a weight of two thirds.",
            f"a = {a:.16f}, b = {b:.16f}, a + b = {number(a + b)}",
            check(math.isclose(a, expected, abs_tol=EXACT) and math.isclose(a + b, 1.0)),
            "Follow one row from the scores through ÷√2 to the softmax.",
        ),
        Claim(
            "Without the division the same scores give a sharper distribution.",
            f"{sharp:.12f} instead of {a:.12f}",
            check(math.isclose(sharp, 1 / (1 + math.exp(-1)), abs_tol=EXACT) and sharp > a),
            "Switch the scaling off and watch the weights move away from ½.",
        ),
        Claim(
            "The two heads agree here by chance: they look at different columns.",
            f"JS(head 1, head 2) = {apart:g}; with the third entry of “I” set to 0, {moved:.6f} "
            f"nats, and head 1 {'has not moved' if kept else 'has moved, too'}",
            check(apart == 0.0 and moved > 0 and kept),
            "Set the third entry of “I” to 0: the second head spreads out, the first stays.",
        ),
    ]


def _claims_of_output(found: Worked) -> list[Claim]:
    two = found.two
    n, width = two.concat.shape
    joined = all((two.concat[:, 2 * i : 2 * i + 2] == two.heads[i]).all() for i in (0, 1))
    return [
        Claim(
            "Concatenation joins features side by side; it neither adds nor averages.",
            f"{shape(two.heads.shape[1:])} and {shape(two.heads.shape[1:])} become "
            f"{shape((n, width))}: {matrix(two.concat)}",
            check(joined and width == two.x.shape[1]),
            "The left half of the concatenation is head 1, the right half head 2.",
        ),
        Claim(
            "Where W_O is the identity, the output is the concatenation itself.",
            f"largest difference {abs(two.out - two.concat).max():g}",
            check(bool((two.out == two.concat).all())),
            "A trained W_O mixes the heads; this one hands them through.",
        ),
    ]


def _claims_of_one_head(found: Worked) -> list[Claim]:
    one, two = found.one, found.two
    score, weight = found.one_unscaled.scores[0, 0, 0], one.weights[0, 0, 0]
    each = [len(steps.weights) for steps in (one, two)]
    return [
        Claim(
            "One head as wide as the model has one distribution per token; two heads have two.",
            f"{each[0]} and {each[1]} distributions per token; the wide head scores "
            f"{number(score)} / √4 = {number(one.scores[0, 0, 0])} and gives {weight:.12f}, the "
            f"two narrow ones {two.weights[0, 0, 0]:.12f}",
            check(each == [1, 2] and math.isclose(weight, 1 / (1 + math.exp(-1)), abs_tol=EXACT)),
            "Choose “one head”: all four columns go into a single score.",
        )
    ]


def _stages(found: Worked) -> list[tuple[str, str, str, str]]:
    two = found.two
    stages: list[tuple[str, Array]] = [
        ("W_Q = W_K = W_V", two.w_q),
        ("Q = K = V", two.query),
        ("scores Q Kᵀ", found.unscaled.scores),
        ("scores ÷ √2", two.scores),
        ("softmax: weights", two.weights),
        ("weights · V: output", two.heads),
    ]
    rows = [
        (name, shape(values.shape[1:]), matrix(values[0]), matrix(values[1]))
        for name, values in stages
    ]
    wide = (("concatenation", two.concat), ("output, W_O = I", two.out))
    return rows + [(name, shape(values.shape), matrix(values), "") for name, values in wide]


_SCALING = (
    Column("heads", "", "how many"),
    Column("d_k", "", "width of each"),
    Column("scaled", "", "whether scores are divided by √d_k"),
    Column("score", "", "of the first token for itself, as the softmax takes it", 12),
    Column("weight", "", "of the first token on itself", 12),
)


def _scaling(found: Worked) -> list[tuple[int, int, str, float, float]]:
    runs = (
        (found.two, "yes"),
        (found.unscaled, "no"),
        (found.one, "yes"),
        (found.one_unscaled, "no"),
    )
    return [
        (
            len(steps.weights),
            steps.query.shape[-1],
            scaled,
            float(steps.scores[0, 0, 0]),
            float(steps.weights[0, 0, 0]),
        )
        for steps, scaled in runs
    ]

"""Parameters of multi-head attention for any number of heads, counted in real modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from seq2seq.analysis.tables import Column
from seq2seq.lesson.cost import D_MODEL, HEADS, check_heads
from seq2seq.lesson.part import Claim, Part, Verdict, check, table
from seq2seq.model.attention import MultiHeadAttention


@dataclass(frozen=True)
class Counts:
    """Trained numbers of one attention."""

    qkv: int  # weights of W_Q, W_K, W_V
    output: int  # weights of W_O
    biases: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.qkv + self.output + self.biases


def count(d_model: int = D_MODEL, heads: Sequence[int] = HEADS) -> dict[int, Counts]:
    """Number of heads → counts.

    Raises:
        UserError: a number of heads that does not divide the width.
    """
    check_heads(d_model, heads)
    found = {}
    for h in heads:
        with torch.device("meta"):
            attention = MultiHeadAttention(d_model, h)
        sizes = {name: weights.numel() for name, weights in attention.named_parameters()}
        qkv = sum(sizes[f"{name}.weight"] for name in ("w_q", "w_k", "w_v"))
        biases = sum(size for name, size in sizes.items() if name.endswith(".bias"))
        found[h] = Counts(qkv, sizes["w_o.weight"], biases)
    return found


def part(found: dict[int, Counts], d_model: int = D_MODEL) -> Part:
    """The claims on parameters."""
    projections = {counts.qkv for counts in found.values()}
    any_counts = next(iter(found.values()))
    columns = [
        Column("attention"),
        Column("W_Q W_K W_V", "", "weights"),
        Column("W_O", "", "weights"),
        Column("biases"),
        Column("total"),
    ]
    rows: list[tuple[str, int, int, int, int]] = [
        ("1 head, without W_O", any_counts.qkv, 0, 3 * d_model, any_counts.qkv + 3 * d_model)
    ]
    rows += [
        (f"{h} head{'s' * (h > 1)}", c.qkv, c.output, c.biases, c.total) for h, c in found.items()
    ]
    return Part(
        "parameters",
        "What there is to learn",
        f"Weights of a multi-head attention {d_model} wide.",
        [
            Claim(
                "Queries, keys and values need equally many weights for every number of heads.",
                f"h = {', '.join(map(str, found))}: {' or '.join(f'{n:,}' for n in projections)} "
                "= 3 · d_model²",
                check(projections == {3 * d_model**2}),
                "First column of numbers: the same in every row.",
            ),
            Claim(
                "Several heads bring extra parameters: W_O, which joins them.",
                f"{any_counts.output:,} = d_model² more than a single head that has no W_O; "
                "against a single head with W_O, none",
                check(any_counts.output != d_model**2, Verdict.partly),
                "Compare the last row with both single heads.",
            ),
        ],
        [table("parameters", "Parameters", columns, rows)],
    )

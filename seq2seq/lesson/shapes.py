"""Shapes, read off the tensors that pass through real modules: never computed from the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from seq2seq.analysis.tables import Column
from seq2seq.lesson.part import Claim, Part, check, shape, table
from seq2seq.lesson.watch import Steps, watch
from seq2seq.model.attention import MultiHeadAttention

SENTENCE = ("I", "love", "machine", "learning.")


@dataclass(frozen=True)
class Size:
    """A multi-head attention by its settings; d_k = d_v = d_model / heads unless `width` is set."""

    d_model: int
    heads: int
    width: int | None = None

    def __str__(self) -> str:
        own = f" of {self.width}" if self.width else ""
        return f"d_model {self.d_model}, {self.heads} heads{own}"


SIZES = (Size(512, 8), Size(768, 12), Size(512, 4, 64), Size(256, 4))
"""The paper's base model, a wider one, four heads of 64 on 512 (Table 3 B), and four on 256."""


@dataclass(frozen=True)
class Shapes:
    """The tensors of one pass for each size."""

    sizes: Sequence[Size]
    steps: Sequence[Steps]


def trace(sizes: Sequence[Size] = SIZES, tokens: int = len(SENTENCE)) -> Shapes:
    """Send `tokens` random embeddings through a module of each size."""
    steps = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for size in sizes:
            attention = MultiHeadAttention(size.d_model, size.heads, size.width, size.width)
            steps.append(watch(attention.eval(), torch.randn(tokens, size.d_model)))
    return Shapes(sizes, steps)


def part(found: Shapes) -> Part:
    """The claims on shapes."""
    base, wide, narrow, square = found.steps
    columns = [
        Column("tensor", "", "of all heads together, or of one head"),
        *(Column(str(size)) for size in found.sizes),
    ]
    return Part(
        "shapes",
        "Shapes: from embeddings to the output",
        f"“{' '.join(SENTENCE)}” as {len(base.x)} tokens through four modules; every shape was "
        "read off a tensor that passed.",
        [
            Claim(
                "A head is as wide as the model divided by the number of heads.",
                f"{_share(base)}; {_share(wide)}",
                check(all(s.query.shape[-1] * len(s.query) == s.x.shape[1] for s in (base, wide))),
                "Rows “W_Q of a head” and “Q of a head”.",
            ),
            Claim(
                "Every token gets a query, a key and a value in every head.",
                f"Q, K and V of one head are {shape(base.query.shape[1:])}, and there are "
                f"{len(base.query)} heads",
                check(base.query.shape == base.key.shape == base.value.shape),
                "As many rows as tokens, as many columns as the head is wide.",
            ),
            Claim(
                "Each head has a weight for every pair of tokens.",
                f"{shape(base.weights.shape[1:])} in each of {len(base.weights)} heads",
                check(base.weights.shape == (len(base.query), len(base.x), len(base.x))),
                "Row “weights of a head”: tokens by tokens, whatever the width.",
            ),
            Claim(
                "Concatenation keeps the number of tokens and adds up the widths.",
                f"{len(base.heads)} × {base.heads.shape[-1]} = {base.concat.shape[1]} columns; "
                f"{len(narrow.heads)} × {narrow.heads.shape[-1]} = {narrow.concat.shape[1]}",
                check(all(_adds_up(s) for s in found.steps)),
                "Row “concatenation”: always four rows.",
            ),
            Claim(
                "W_O leads from the concatenation back to the model's width.",
                f"W_O is {shape(base.w_o.shape)} for 8 heads of 64, {shape(narrow.w_o.shape)} for "
                f"4 heads of 64 in a model of 512; it is {shape(square.w_o.shape)} only where the "
                f"model is {square.x.shape[1]} wide",
                check(all(s.out.shape == s.x.shape for s in found.steps)),
                "W_O is square exactly where heads × width = d_model.",
            ),
        ],
        [table("shapes", "Shape of every tensor", columns, _rows(found))],
    )


def _share(steps: Steps) -> str:
    return f"{steps.x.shape[1]} / {len(steps.query)} = {steps.query.shape[-1]}"


def _adds_up(steps: Steps) -> bool:
    return steps.concat.shape == (len(steps.x), len(steps.heads) * steps.heads.shape[-1])


def _rows(found: Shapes) -> list[list[str]]:
    names: dict[str, Callable[[Steps], Sequence[int]]] = {
        "embeddings X": lambda s: s.x.shape,
        "W_Q, W_K of a head": lambda s: s.w_q.shape[1:],
        "W_V of a head": lambda s: s.w_v.shape[1:],
        "Q, K of a head": lambda s: s.query.shape[1:],
        "V of a head": lambda s: s.value.shape[1:],
        "scores of a head": lambda s: s.scores.shape[1:],
        "weights of a head": lambda s: s.weights.shape[1:],
        "output of a head": lambda s: s.heads.shape[1:],
        "concatenation": lambda s: s.concat.shape,
        "W_O": lambda s: s.w_o.shape,
        "output": lambda s: s.out.shape,
    }
    return [[name, *(shape(read(s)) for s in found.steps)] for name, read in names.items()]

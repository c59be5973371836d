"""Two rules that no head escapes: the causal mask, and where cross-attention takes its parts from.

Both are measured by changing a token and looking at what moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervene import attentions
from seq2seq.analysis.observe import undisturbed
from seq2seq.analysis.tables import Column
from seq2seq.attention_maps import KIND_NAMES
from seq2seq.errors import UserError
from seq2seq.lesson.example import Example, replaced
from seq2seq.lesson.part import Claim, Part, check, table
from seq2seq.lesson.watch import outputs_of

PARTS = ("w_q", "w_k", "w_v")


@dataclass(frozen=True)
class Masked:
    """One decoder head and the future."""

    head: HeadId
    cells: int  # pairs of a position and a later one
    later: float  # the largest weight on a later position
    sum_error: float  # the largest distance of a row's sum from 1


@dataclass(frozen=True)
class Moved:
    """How far queries, keys and values of one layer's cross-attention move, at most."""

    layer: int
    changed: str  # "source" or "target"
    query: float
    key: float
    value: float


def masked(example: Example) -> list[Masked]:
    """Every decoder head's weights on later positions."""
    maps = example.maps
    found = []
    for layer, ids, weights in zip(
        maps.layer_ids["dec"], maps.head_ids["dec"], maps.dec, strict=True
    ):
        for head, matrix in zip(ids, weights, strict=True):
            later = matrix[np.triu_indices(len(matrix), 1)]
            found.append(
                Masked(
                    HeadId("dec", layer, head),
                    len(later),
                    float(later.max(initial=0.0)),
                    float(abs(matrix.sum(-1) - 1).max()),
                )
            )
    return found


def ahead(example: Example) -> float | None:
    """Mean weight that encoder heads put on later positions: they have no mask.

    None of a model without encoder heads.
    """
    shares = [np.triu(w, 1).sum(-1).mean() for w in example.maps.enc if len(w)]
    return float(np.mean(shares)) if shares else None


def leak(example: Example, place: int) -> tuple[float, float]:
    """How far predictions before `place`, and from it on, move when that target token changes."""
    before, after = example.target_in, replaced(example.target_in, place)
    with undisturbed(example.model):
        logits = [
            example.model(_row(example.source, example), _row(ids, example))
            for ids in (before, after)
        ]
    moved = (logits[0] - logits[1]).abs()[0]
    return float(moved[:place].max()), float(moved[place:].max())


def moved(example: Example) -> list[Moved]:
    """What moves in the cross-attention of every layer when one token of either side changes."""
    source, target = example.source, example.target_in
    plain = _projections(example, source, target)
    changes = {
        "source": _projections(example, replaced(source, middle(source)), target),
        "target": _projections(example, source, replaced(target, middle(target))),
    }
    found = []
    for changed, other in changes.items():
        for layer, old in plain.items():
            moves = [float((old[name] - other[layer][name]).abs().max()) for name in PARTS]
            found.append(Moved(layer, changed, *moves))
    return found


def middle(ids: Sequence[int]) -> int:
    """The place of a token in the middle, never the first or last one of three or more."""
    return len(ids) // 2


def _projections(
    example: Example, source: list[int], target: list[int]
) -> dict[int, dict[str, Tensor]]:
    """Queries, keys and values of cross-attention, by layer; layers without heads have none."""
    found = attentions(example.model).items()
    cross = {layer: a for (kind, layer), a in found if kind == "cross" and a.n_heads}
    with undisturbed(example.model), ExitStack() as stack:
        seen = {n: stack.enter_context(outputs_of(a, *PARTS)) for n, a in cross.items()}
        example.model(_row(source, example), _row(target, example))
    return {n: {name: outputs[name][1] for name in PARTS} for n, outputs in seen.items()}


def _row(ids: list[int], example: Example) -> Tensor:
    return torch.tensor([ids], device=next(example.model.parameters()).device)


def _insist_on_heads(example: Example, kind: str) -> None:
    if not any(map(len, example.maps.layers(kind))):
        raise UserError(
            f"{example.name} has no heads of {KIND_NAMES[kind]} left, so this part of the lesson "
            "has nothing to show: leave it out, or choose another run."
        )


def mask_part(example: Example) -> Part:
    """The claims on the causal mask.

    Raises:
        UserError: the model has no decoder self-attention heads.
    """
    _insist_on_heads(example, "dec")
    heads = masked(example)
    place = middle(example.target_in)
    before, after = leak(example, place)
    later, error = (max(getattr(h, name) for h in heads) for name in ("later", "sum_error"))
    words = example.maps.tgt_in
    columns = [
        Column("head"),
        Column("cells above the diagonal"),
        Column("largest weight there", "", "", 8),
        Column("row sums off by", "", "largest distance of a row's sum from 1", 8),
    ]
    return Part(
        "mask",
        "The causal mask: no head sees the future",
        f"Decoder self-attention of {example.name} over “{example.maps.text['target']}”.",
        [
            Claim(
                "Every head of the decoder obeys the mask: nothing lies on later tokens.",
                f"largest weight above the diagonal, over {len(heads)} heads: {later:g}",
                check(later == 0.0),
                "The upper right triangle of every map is drawn from data: it is empty.",
            ),
            Claim(
                "What remains is shared out anew: every row still sums to 1.",
                f"largest deviation {error:.1e}",
                check(error < 1e-5),
                "The first row has one key only, so its weight is 1 in every head.",
            ),
            *_no_rule(ahead(example)),
            Claim(
                "A token has no influence on the predictions before it.",
                f"“{words[place]}” replaced: predictions before it move by {before:g}, from "
                f"it on by up to {after:.2f}",
                check(before <= 1e-6 < after),  # sums may round differently
                "This is what lets training look at all positions at once.",
            ),
        ],
        [table("mask", "Heads of the decoder", columns, [_mask_row(h) for h in heads])],
        example.facts,
    )


def _no_rule(weight: float | None) -> list[Claim]:
    if weight is None:
        return []
    return [
        Claim(
            "The encoder has no such rule: its heads look ahead, too.",
            f"mean weight of encoder heads on later tokens: {weight:.2f}",
            check(weight > 0),
            "Encoder maps are filled on both sides of the diagonal.",
        )
    ]


def _mask_row(found: Masked) -> tuple[str, int, float, float]:
    return str(found.head), found.cells, found.later, found.sum_error


def cross_part(example: Example) -> Part:
    """The claims on where cross-attention takes queries, keys and values from.

    Raises:
        UserError: the model has no cross-attention heads.
    """
    _insist_on_heads(example, "cross")
    moves = moved(example)
    first, *deeper = [m for m in moves if m.changed == "source"]
    target = [m for m in moves if m.changed == "target"]
    still = all(m.key == m.value == 0.0 < m.query for m in target)
    sums = max(abs(float(w.sum(-1).max()) - 1) for w in example.maps.cross if len(w))
    t, s = example.maps.cross[0].shape[1:]
    columns = [
        Column("changed", "", "the side on which one token was replaced"),
        Column("layer", "", "of the decoder"),
        Column("queries", "", "largest change", 4),
        Column("keys", "", "largest change", 4),
        Column("values", "", "largest change", 4),
    ]
    claims = [
        Claim(
            "Keys and values come from the encoder.",
            f"a source token replaced: in layer {first.layer} keys move by {first.key:.2f}, "
            f"values by {first.value:.2f}, queries by {first.query:g}",
            check((first.query == 0.0 or first.layer > 0) and min(first.key, first.value) > 0),
            f"Rows “source”, layer {first.layer}.",
        ),
        Claim(
            "Queries come from the decoder.",
            f"a target token replaced: queries move by {target[0].query:.2f}, keys and values by "
            f"{max(max(m.key, m.value) for m in target):g} in every layer",
            check(still),
            "Rows “target”: the source is encoded once and serves every step.",
        ),
        Claim(
            "A row asks for one target token where in the source to look.",
            f"maps are {t} × {s} (target × source); rows sum to 1 within {sums:.1e}",
            check((t, s) == (len(example.target_in), len(example.source)) and sums < 1e-5),
            "Rows carry target words, columns source words.",
        ),
    ]
    if deeper:
        claims.insert(
            1,
            Claim(
                "Deeper layers ask about what the layers before them have already fetched.",
                f"in layer {deeper[0].layer} the queries move by {deeper[0].query:.2f}, too",
                check(all(m.query > 0 for m in deeper)),
                "Rows “source”, layers after the first.",
            ),
        )
    return Part(
        "cross",
        "Cross-attention: the decoder asks, the encoder answers",
        f"Cross-attention of {example.name}, “{example.maps.text['source']}” → "
        f"“{example.maps.text['target']}”.",
        claims,
        [
            table(
                "cross",
                "What moves when one token is replaced",
                columns,
                [(m.changed, m.layer, m.query, m.key, m.value) for m in moves],
            )
        ],
        example.facts,
    )

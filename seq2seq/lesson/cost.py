"""What attention costs: entries of scores, operations, parameters, time; all counted, not derived.

Entries are those of captured score tensors, operations are PyTorch's own count of a pass
(FlopCounterMode; a multiplication and an addition are two), parameters are those of real modules.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch.utils.flop_counter import FlopCounterMode

from seq2seq.analysis.tables import Column
from seq2seq.config import BOS, EOS, ModelConfig
from seq2seq.errors import UserError
from seq2seq.lesson.part import Claim, Part, Table, check, table
from seq2seq.lesson.watch import SoftmaxInputs
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.transformer import Transformer

D_MODEL, LENGTH = 512, 60
HEADS = (1, 2, 4, 8, 16)
REPEATS, WARM_UP = 25, 2  # timed passes, of which the fastest counts, after some that do not
PRODUCT = "bmm"  # as PyTorch calls Q Kᵀ and A V: one matrix a head; projections are plain ones


@dataclass(frozen=True)
class Flops:
    """Operations of one self-attention."""

    products: int  # QKᵀ and A·V
    projections: int  # by W_Q, W_K, W_V, W_O


@dataclass(frozen=True)
class Entries:
    """Score tensors of one layer, captured in a Transformer."""

    kind: str
    heads: int
    queries: int
    keys: int
    captured: int  # entries of the tensor itself


@dataclass(frozen=True)
class Cost:
    """Everything counted."""

    d_model: int
    length: int
    entries: Sequence[Entries]
    by_heads: dict[int, Flops]  # at `length`
    by_length: dict[int, Flops]  # with 8 heads, or the nearest number there is
    entries_by_heads: dict[int, int]  # at `length`
    crossing: int  # the length from which on products cost more than projections
    milliseconds: dict[int, float] = field(default_factory=dict)


def measure(
    d_model: int = D_MODEL,
    length: int = LENGTH,
    heads: Sequence[int] = HEADS,
    *,
    timed: bool = False,
) -> Cost:
    """Count what one self-attention costs.

    Args:
        d_model: width of the model.
        length: tokens of the sentence.
        heads: numbers of heads to compare, each a divisor of the width.
        timed: also take the time of a pass on this CPU.

    Raises:
        UserError: a number of heads does not divide the width.
    """
    for h in heads:
        if d_model % h:
            raise UserError(f"--heads {h} does not divide --d-model {d_model}: choose divisors.")
    some = min(heads, key=lambda h: abs(h - 8))
    lengths = sorted({length, 2 * length, 4 * length, d_model, 2 * d_model, 4 * d_model})
    return Cost(
        d_model=d_model,
        length=length,
        entries=score_entries(4, 6, 8),
        by_heads={h: flops(d_model, h, length) for h in heads},
        by_length={n: flops(d_model, some, n) for n in lengths},
        entries_by_heads={h: _entries(d_model, h, length) for h in heads},
        crossing=crossing(d_model, some),
        milliseconds=milliseconds(d_model, length, heads) if timed else {},
    )


def flops(d_model: int, heads: int, length: int) -> Flops:
    """Operations of one self-attention of `length` tokens, counted on tensors without content."""
    with torch.device("meta"):
        attention = MultiHeadAttention(d_model, heads)
        x = torch.empty(1, length, d_model)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        attention(x, attention.project_kv(x), need_weights=True)
    counts = {str(op): n for op, n in counter.get_flop_counts()["Global"].items()}
    products = sum(n for op, n in counts.items() if PRODUCT in op)
    return Flops(products, sum(counts.values()) - products)


def crossing(d_model: int, heads: int) -> int:
    """The least length at which the products cost as much as the projections, by bisection."""
    low, high = 1, 2
    while _is_projection_bound(d_model, heads, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _is_projection_bound(d_model, heads, middle):
            low = middle
        else:
            high = middle
    return high


def _is_projection_bound(d_model: int, heads: int, length: int) -> bool:
    found = flops(d_model, heads, length)
    return found.products < found.projections


def score_entries(source: int, target: int, heads: int) -> list[Entries]:
    """Captured scores of a Transformer's first layers, for a sentence pair of these lengths."""
    with torch.random.fork_rng(devices=[]):
        model = Transformer(
            ModelConfig(
                d_model=8 * heads,
                d_ff=8 * heads,
                encoder_layers=1,
                decoder_layers=1,
                encoder_heads=heads,
                decoder_heads=heads,
                source_vocab=8,
                target_vocab=8,
            )
        ).eval()
    sources = torch.tensor([[5] * (source - 1) + [EOS]])
    targets = torch.tensor([[BOS] + [6] * (target - 1)])
    with torch.no_grad(), SoftmaxInputs() as softmax:
        model.attention_weights(sources, targets)
    kinds = ("encoder self-attention", "decoder self-attention", "cross-attention")
    return [
        Entries(kind, *scores.shape[1:], scores.numel())
        for kind, scores in zip(kinds, softmax.seen, strict=True)
    ]


def _entries(d_model: int, heads: int, length: int) -> int:
    attention = MultiHeadAttention(d_model, heads).eval()
    x = torch.zeros(1, length, d_model)
    with torch.no_grad(), SoftmaxInputs() as softmax:
        attention(x, attention.project_kv(x), need_weights=True)
    return sum(scores.numel() for scores in softmax.seen)


def milliseconds(d_model: int, length: int, heads: Sequence[int]) -> dict[int, float]:
    """Least time of a pass on this CPU, the numbers of heads taking turns."""
    attentions = {h: MultiHeadAttention(d_model, h).eval() for h in heads}
    x = torch.zeros(1, length, d_model)
    times: dict[int, list[float]] = {h: [] for h in heads}
    with torch.no_grad():
        for turn in range(WARM_UP + REPEATS):
            for h, attention in attentions.items():
                begin = time.perf_counter()
                attention(x, attention.project_kv(x), need_weights=True)
                if turn >= WARM_UP:
                    times[h].append(1000 * (time.perf_counter() - begin))
    return {h: min(values) for h, values in times.items()}


def part(found: Cost) -> Part:
    """The claims on cost."""
    return Part(
        "complexity",
        "What it costs",
        f"One self-attention of {found.length} tokens, {found.d_model} wide, as the module runs "
        "it; operations are PyTorch's own count of the pass.",
        [*_claims_of_entries(found), *_claims_of_flops(found), *_claims_of_length(found)],
        _tables(found),
    )


def _claims_of_entries(found: Cost) -> list[Claim]:
    own, _, cross = found.entries
    right = all(e.captured == e.heads * e.queries * e.keys for e in found.entries)
    return [
        Claim(
            "Every head scores every pair of tokens: h · n · n entries.",
            f"{own.heads} heads, {own.queries} tokens: {own.captured} captured entries",
            check(right and own.queries == own.keys),
            "Table of score entries, first row.",
        ),
        Claim(
            "Cross-attention scores target tokens against source tokens: h · T · S entries.",
            f"{cross.heads} heads, T = {cross.queries}, S = {cross.keys}: {cross.captured}",
            check(right and cross.queries != cross.keys),
            "Last row: the tensor is not square.",
        ),
    ]


def _claims_of_flops(found: Cost) -> list[Claim]:
    n, d = found.length, found.d_model
    totals = {f.products + f.projections for f in found.by_heads.values()}
    first, last = min(found.entries_by_heads), max(found.entries_by_heads)
    counts = found.entries_by_heads
    claims = [
        Claim(
            "At a fixed width, more heads cost no more operations: each gets narrower.",
            f"h = {_list(found.by_heads)}: {' or '.join(map(_mega, sorted(totals)))} each",
            check(totals == {4 * n * n * d + 8 * n * d * d}),
            "The line over the number of heads is flat.",
        ),
        Claim(
            "What does grow with the heads is the number of scores to keep and to normalise.",
            f"{counts[first]:,} entries with {first}, {counts[last]:,} with {last}",
            check(counts[last] * first == counts[first] * last),
            "The rising line: memory and softmax, which the operations above leave out.",
        ),
    ]
    if found.milliseconds:
        times = ", ".join(f"{h}: {ms:.2f}" for h, ms in found.milliseconds.items())
        slower = found.milliseconds[last] > found.milliseconds[first]
        claims.append(
            Claim(
                "Operations are not time: splitting into heads costs some handling.",
                f"milliseconds a pass at best on this CPU, by number of heads: {times}",
                check(slower),
                "Measured once on this machine; other kernels and devices differ.",
            )
        )
    return claims


def _claims_of_length(found: Cost) -> list[Claim]:
    n, d = found.length, found.d_model
    single, double = found.by_length[n], found.by_length[2 * n]
    return [
        Claim(
            "Twice as many tokens: four times the products Q Kᵀ and A V, twice the projections.",
            f"n = {n} → {2 * n}: products ×{double.products / single.products:g}, projections "
            f"×{double.projections / single.projections:g}",
            check(
                double.products == 4 * single.products
                and double.projections == 2 * single.projections
            ),
            "The two lines over the length have different slopes.",
        ),
        Claim(
            "For sentences the projections dominate; the square of the length takes over late.",
            f"n = {n}: {_mega(single.products)} for products, {_mega(single.projections)} for "
            f"projections; they are equal at n = {found.crossing:,} = {found.crossing / d:g} · "
            "d_model",
            check(single.products < single.projections and found.crossing == 2 * d),
            "Where the lines cross.",
        ),
    ]


def _tables(found: Cost) -> list[Table]:
    entries = [
        Column("attention"),
        Column("heads"),
        Column("queries"),
        Column("keys"),
        Column("entries", "", "of the captured score tensor of one layer"),
    ]
    by_heads = [
        Column("heads"),
        Column("d_k"),
        Column("products", "FLOP", "Q Kᵀ and A V"),
        Column("projections", "FLOP", "by W_Q, W_K, W_V, W_O"),
        Column("entries", "", "of the captured scores"),
        *([Column("time", "ms", "the fastest of some passes")] if found.milliseconds else []),
    ]
    by_length = [
        Column("tokens"),
        Column("products", "FLOP"),
        Column("projections", "FLOP"),
        Column("share", "%", "of the products", 1),
    ]
    return [
        table(
            "complexity_entries",
            "Score entries of one layer",
            entries,
            [(e.kind, e.heads, e.queries, e.keys, e.captured) for e in found.entries],
        ),
        table(
            "complexity_heads",
            f"By number of heads, {found.length} tokens",
            by_heads,
            [
                (
                    h,
                    found.d_model // h,
                    f.products,
                    f.projections,
                    found.entries_by_heads[h],
                    *([found.milliseconds[h]] if found.milliseconds else []),
                )
                for h, f in found.by_heads.items()
            ],
        ),
        table(
            "complexity_length",
            "By length",
            by_length,
            [
                (n, f.products, f.projections, 100 * f.products / (f.products + f.projections))
                for n, f in found.by_length.items()
            ],
        ),
    ]


def _mega(count: int) -> str:
    return f"{count / 1e6:.1f} MFLOP"


def _list(numbers: Sequence[int] | dict[int, Flops]) -> str:
    return ", ".join(map(str, numbers))

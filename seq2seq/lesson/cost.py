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

from seq2seq.config import BOS, EOS, ModelConfig
from seq2seq.errors import UserError
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
    check_heads(d_model, heads)
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


def check_heads(d_model: int, heads: Sequence[int]) -> None:
    """Refuse numbers of heads that do not divide the width.

    Raises:
        UserError: names the first of them.
    """
    for h in heads:
        if d_model % h:
            raise UserError(f"--heads {h} does not divide --d-model {d_model}: choose divisors.")


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
        Entries(kind, scores.size(1), scores.size(2), scores.size(3), scores.numel())
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

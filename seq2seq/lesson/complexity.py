"""What the counts of `seq2seq.lesson.cost` say: claims on entries, operations and length."""

from __future__ import annotations

from collections.abc import Iterable

from seq2seq.analysis.tables import Column
from seq2seq.lesson.cost import Cost
from seq2seq.lesson.part import NOISE, Claim, Part, Table, Verdict, check, table


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
        ratio = found.milliseconds[last] / found.milliseconds[first]
        claims.append(
            Claim(
                "Operations are not time: splitting into heads costs some handling.",
                f"milliseconds a pass at best on this CPU, by number of heads: {times}",
                check(ratio > NOISE, Verdict.open),
                "Measured once on this machine; other kernels and devices differ.",
            )
        )
    return claims


def _claims_of_length(found: Cost) -> list[Claim]:
    n, d = found.length, found.d_model
    single, double = found.by_length[n], found.by_length[2 * n]
    return [
        Claim(
            "Twice as many tokens: four times the products of heads, twice the projections.",
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


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))

"""Which heads decide an answer, in sentences that claim no more than the interventions showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.interchange import Interchange
from seq2seq.analysis.needed import CARRIES, IDLE
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.analysis.trace import strongest

PART = Column("part", "", "decides; carries; bright but idle: looks right, moves nothing; or idle")
DECIDES = 0.5  # least effect, and least flips beyond doubt, of a head that decides by itself
CHANCE = 0.25  # of pairs right
BRIGHT = 0.5  # least share of links that a head looks along to be bright
KIND_NAMES = {
    "enc": "encoder self-attention",
    "dec": "decoder self-attention",
    "cross": "cross-attention",
}


def with_parts(table: HeadTable) -> HeadTable:
    """The table of `trace_heads`, with a column on the part that each head plays, in front."""
    rows = {head: {PART.name: part(row), **row} for head, row in table.rows.items()}
    return replace(table, columns=[PART, *table.columns], rows=rows)


def part(row: Mapping[str, Value]) -> str | None:
    """The part that a head plays; None if it was not swapped, "" if its effect is small."""
    if row.get("effect") is None:
        return None
    if _decides(row):
        return "decides"
    if _number(row["effect"]) >= CARRIES:
        return "carries"
    if abs(_number(row["effect"])) < IDLE:
        return "bright but idle" if _is_bright(row) else "idle"
    return ""


def deciders(table: HeadTable) -> list[HeadId]:
    """The heads that each decide by themselves, the strongest first."""
    return [head for head in strongest(table, len(table.rows)) if _decides(table.rows[head])]


def bright_but_idle(table: HeadTable) -> list[HeadId]:
    """Heads that look at the right word more reliably than chance and move nothing."""
    found = [h for h in table.heads if part(table.rows[h]) == "bright but idle"]
    name = "right_pairs" if table.has("right_pairs") else "right"
    return sorted(found, key=lambda head: -_number(table.rows[head][name]))


def verdict(table: HeadTable, runs: Interchange, together: Sequence[HeadId], what: str) -> str:
    """One sentence: which heads decide, in which attention, and what breaks without them.

    Args:
        table: of `trace_heads`.
        runs: its contrasts.
        together: heads of `smallest_set`.
        what: is decided, as `"it"`.
    """
    top = strongest(table, 1, CARRIES)
    if not top:
        return (
            f"No single head decides {what}: none moves the answer by {CARRIES:g} of the way when "
            f"it is swapped{_jointly(runs, together)}."
        )
    head = top[0]
    row = table.rows[head]
    share = f"swapping it alone moves the answer {_way(row['effect'])} and {_turns(runs, head)}"
    alone = _breaks(runs, [head])
    alike = deciders(table)
    often = " most of the time" if len(runs.contrasts) > 1 else ""
    if len(alike) > 1:  # one after the other: what the first writes, the next passes on
        names = ", ".join(map(_named, alike))
        start = f"Each of {len(alike)} heads by itself decides {what}{often}: {names}"
        start = f"{start}; the strongest is {head}: {share}"
    elif alike:
        start = f"One head by itself decides {what}{often}: {_named(head)}; {share}"
    else:
        start = f"No single head decides {what}: the strongest is {_named(head)}; {share}"
    return f"{start}, and without it {alone}{_jointly(runs, together)}."


def carriers(table: HeadTable, most: int = 8) -> list[HeadId]:
    """The heads that carry something, in the order in which the model computes them."""
    return sorted(strongest(table, most, CARRIES), key=_stage)


def route(table: HeadTable) -> list[str]:
    """Sentences on who carries the answer, and who only looks as if."""
    heads = carriers(table)
    lines = []
    if heads:
        steps = "; ".join(_step(table, head) for head in heads)
        lines.append(f"On the way to the answer, in the order of computation: {steps}.")
    silent = [k for k in KIND_NAMES if _has(table, k) and not any(h.kind == k for h in heads)]
    for kind in silent:
        lines.append(f"No head of {KIND_NAMES[kind]} carries {CARRIES:g} or more of it.")
    idle = bright_but_idle(table)
    if idle:
        row = table.rows[idle[0]]
        pairs = "right_pairs" in row
        share = row["right_pairs"] if pairs else row["right"]
        where = "prefers the right noun" if pairs else "looks at the word that decides"
        lines.append(
            f"Looks deceive: {_named(idle[0])} {where} in {_percent(share)} of the "
            f"{'pairs' if pairs else 'sentences'}, yet what it puts out moves the answer only "
            f"{_way(row['effect'])}{_and_more(idle[1:])}."
        )
    return lines


def _decides(row: Mapping[str, Value]) -> bool:
    sure = row.get("flips_low")
    sure = row.get("flips") if sure is None else sure  # of a single pair there is no interval
    return _number(row["effect"]) >= DECIDES and _number(sure) >= DECIDES


def _is_bright(row: Mapping[str, Value]) -> bool:
    if "right_pairs" in row:
        return _number(row["right_low"]) > CHANCE
    return _number(row.get("right")) >= BRIGHT


def _and_more(heads: Sequence[HeadId]) -> str:
    if not heads:
        return ""
    return f"; so with {', '.join(map(str, heads))}"


def _jointly(runs: Interchange, heads: Sequence[HeadId]) -> str:
    if len(heads) < 2:
        return ""
    found = runs.effect(heads)
    names = f"{', '.join(map(str, heads[:-1]))} and {heads[-1]}"
    moved = f"; {names} together move it {_way(found.effect)}"
    return f"{moved}, and without {'both' if len(heads) == 2 else 'all'} {_breaks(runs, heads)}"


def _turns(runs: Interchange, head: HeadId) -> str:
    found = runs.effect([head])
    if found.count == 1 and _wrong_before(runs):
        return "turns nothing, as the answer is the other one from the start"
    if found.count == 1:
        return "turns it" if found.flips else "does not turn it"
    return f"turns {_percent(found.flip_share)} of {found.count} answers"


def _breaks(runs: Interchange, heads: Sequence[HeadId]) -> str:
    without = runs.without(heads)
    wrong = int(((runs.before.delta > 0) & (without.delta < 0)).sum())
    change = f"{float((without.token - runs.before.token).mean()):+.2f}".replace("-", "−")
    if len(runs.contrasts) == 1 and _wrong_before(runs):
        return f"the log p of its own answer changes by {change} nats"
    if len(runs.contrasts) == 1:
        return f"the answer {'is wrong' if wrong else 'stays right'} (log p {change} nats)"
    share = _percent(wrong / len(runs.contrasts))
    return f"{share} of the answers are wrong (log p of the right one {change} nats)"


def _wrong_before(runs: Interchange) -> bool:
    """Whether the model, left alone, prefers the other sentence's answer in a single pair."""
    return float(runs.before.delta[0]) <= 0


def _step(table: HeadTable, head: HeadId) -> str:
    row = table.rows[head]
    looks = row.get("looks_at")
    seen = f", looks at {looks}" if looks else ""
    return f"{head} ({_way(row['effect'])}{seen})"


def _stage(head: HeadId) -> tuple[bool, int, bool, int]:
    return head.kind != "enc", head.layer, head.kind == "cross", head.head


def _has(table: HeadTable, kind: str) -> bool:
    return any(head.kind == kind for head in table.values("effect"))


def _named(head: HeadId) -> str:
    return f"{head} ({KIND_NAMES[head.kind]})"


def _way(effect: object) -> str:
    return f"{round(_number(effect), 2) + 0.0:.2f} of the way".replace("-", "−")


def _percent(share: object) -> str:
    return f"{100 * _number(share):.0f} %"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

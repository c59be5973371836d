"""Tables over several probes: one for programs, one for each head, one for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.study import IT, Answer
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.analysis.trace import Listing, strongest
from seq2seq.analysis.verdict import bright_but_idle, carriers, deciders
from seq2seq.attention_maps import KINDS

PROBE = Column("probe", "", "the question")
ATTENTIONS = {"enc": "encoder", "dec": "decoder", "cross": "cross"}
SHORT = ("part", "effect", "flips", "token_change", "beyond_others", "wrong", "right")
"""The columns of a link's probe that stand in the table of heads."""

SUMMARY = (
    PROBE,
    Column("decides", "", "what is decided"),
    Column("pairs", "", "pairs of sentences, both ways"),
    Column("strongest", "", "the head of the greatest causal effect"),
    Column("effect", "", "its effect: 0 the answer stays, 1 it becomes the other sentence's"),
    Column("effect_low", "", "lower end of the 95 % interval (bootstrap over pairs)"),
    Column("effect_high", "", "upper end"),
    Column("flips", "", "share of answers that change sides when it is swapped"),
    Column("token_change", "nats", "log p of the right token without it − with it", 4),
    Column("others_change", "nats", "the same for a random other head", 4),
    Column("beyond_low", "nats", "lower end of the 95 % interval of the difference", 4),
    Column("beyond_high", "nats", "upper end", 4),
    Column("wrong", "", "share of answers that turn wrong without it"),
    *(Column(f"{kind}_effect", "", f"greatest effect of a head of kind {kind}") for kind in KINDS),
    Column("deciders", "", "heads that each decide by themselves"),
    Column("carriers", "", "heads that carry a tenth or more, in the order of computation"),
    Column("idle", "", "heads that look right more often than chance and move nothing"),
    Column("together", "", "a small set of heads that moves the answer most of the way"),
    Column("together_effect", "", "its effect"),
    Column("together_wrong", "", "share of answers that turn wrong without the set"),
)


def summary(answers: Sequence[Answer]) -> Listing:
    """A row for each probe."""
    rows = []
    for answer in answers:
        row = _summary(answer)
        rows.append([row.get(column.name) for column in SUMMARY])
    return Listing(SUMMARY, rows)


def every_row(answers: Sequence[Answer]) -> Listing:
    """A row for each probe and head, with all columns that any probe has."""
    columns: dict[str, Column] = {}
    for answer in answers:
        columns |= {column.name: column for column in answer.table.columns}
    keys = (PROBE, Column("kind"), Column("layer"), Column("head"))
    rows = [
        [answer.study.name, *head, *(answer.table.rows[head].get(name) for name in columns)]
        for answer in answers
        for head in answer.table.heads
    ]
    return Listing([*keys, *columns.values()], rows)


def by_head(answers: Sequence[Answer]) -> HeadTable:
    """A row for each head: all columns of "it" or of a pair of the user's, some of each link.

    The names of the latter begin with that of the link, as `subject_effect`.
    """
    tables = [
        answer.table if answer.study.name in (IT, "") else _named(answer) for answer in answers
    ]
    joined = tables[0].joined(*tables[1:])
    return replace(joined, facts=sources(answers))


def sources(answers: Sequence[Answer]) -> list[str]:
    """Where the numbers come from: of a single question all facts, of several a line each."""
    if len(answers) == 1:
        return list(answers[0].table.facts)
    return [
        f"{answer.study.name}: {fact}"
        for answer in answers
        for fact in (answer.study.facts[0], *_blind(answer))
    ]


def stacked(answers: Sequence[Answer], which: Callable[[Answer], Listing]) -> Listing:
    """A listing of every probe, one under the other, with the probe's name in front."""
    listings = [(answer.study.name, which(answer)) for answer in answers]
    if len(listings) == 1:
        return listings[0][1]
    rows = [[name, *row] for name, listing in listings for row in listing.rows]
    return Listing([PROBE, *listings[0][1].columns], rows)


def report(answers: Sequence[Answer]) -> list[str]:
    """What people read: two tables of at most 80 columns."""
    rows = [_summary(answer) for answer in answers]
    lines = ["The strongest head of each attention, and its causal effect (0 nothing, 1 all)", ""]
    lines.append(f"{'':32}" + "".join(f"{ATTENTIONS[kind]:>16}" for kind in KINDS))
    for answer, row in zip(answers, rows, strict=True):
        best = "".join(f"{_best(answer.table, kind):>16}" for kind in KINDS)
        lines.append(f"{row['probe']:<10}{row['decides']:<22}{best}".rstrip())
    lines += ["", "The strongest of all, and what breaks without it", ""]
    lines.append(
        f"{'':11}{'pairs':>5}  {'head':<10}{'effect (95 %)':<16}{'turns':>6}"
        f"{'log p':>8}{'other head':>12}{'wrong':>7}"
    )
    lines += [_line(row) for row in rows]
    lines += ["", "What weights alone say: who looks at the word that decides, most reliably", ""]
    return lines + [_look(answer) for answer in answers]


def _summary(answer: Answer) -> dict[str, Value]:
    study, table = answer.study, answer.table
    found: dict[str, Value] = {
        "probe": study.name,
        "decides": study.what,
        "pairs": len(study.pairs) or len(study.runs.contrasts),
        "deciders": _names(deciders(table)),
        "carriers": _names(carriers(table)),
        "idle": _names(bright_but_idle(table)),
    }
    for head in strongest(table, 1):
        found |= {name: value for name, value in table.rows[head].items() if name in _copied()}
        found["strongest"] = str(head)
    effects = table.values("effect")
    for kind in KINDS:
        found[f"{kind}_effect"] = max(
            (e for h, e in effects.items() if h.kind == kind), default=None
        )
    if answer.together:
        without = study.runs.without(answer.together)
        wrong = (study.runs.before.delta > 0) & (without.delta < 0)
        found["together"] = _names(answer.together)
        found["together_effect"] = study.runs.effect(answer.together).effect
        found["together_wrong"] = float(wrong.double().mean())
    return found


def _copied() -> set[str]:
    """The columns that a probe's row takes from its strongest head."""
    return {column.name for column in SUMMARY} - {PROBE.name}


def _named(answer: Answer) -> HeadTable:
    name, table = answer.study.name, answer.table.only(SHORT)
    columns = [
        replace(column, name=f"{name}_{column.name}", meaning=f"{name}: {column.meaning}")
        for column in table.columns
    ]
    rows: dict[HeadId, Mapping[str, Value]] = {
        head: {f"{name}_{column.name}": row.get(column.name) for column in table.columns}
        for head, row in table.rows.items()
    }
    return HeadTable(columns, rows, table.facts)


def _names(heads: Sequence[HeadId]) -> str:
    return " ".join(map(str, heads))


def _best(table: HeadTable, kind: str) -> str:
    effects = {h: e for h, e in table.values("effect").items() if h.kind == kind}
    if not effects:
        return "not swapped"
    head = max(effects, key=lambda h: effects[h])
    return f"{head} {_signed(effects[head], '5.2f')}"


def _blind(answer: Answer) -> list[str]:
    """What rules that look at no weight reach, in words."""
    return [fact for fact in answer.study.looks.facts if fact.startswith("blind rule")]


def _look(answer: Answer) -> str:
    """The head that is right most often, with its interval, beside blind rules."""
    table = answer.table
    paired = table.has("right_pairs")
    right = table.values("right_pairs" if paired else "right")
    if not right:
        return f"{answer.study.name:<11}nobody could be asked"
    head = max(right, key=lambda h: right[h])
    low, high = (table.rows[head].get(name) for name in ("right_low", "right_high"))
    share = f"{right[head]:.2f} of the {'pairs' if paired else 'sentences'}"
    interval = f" ({low:.2f}–{high:.2f})" if low is not None and high is not None else ""
    return "; ".join([f"{answer.study.name:<11}{head}, {share}{interval}", *_blind(answer)])


def _line(row: Mapping[str, Value]) -> str:
    effect = _signed(row["effect"], ".2f")
    if row.get("effect_low") is not None:
        low, high = (_signed(row[name], ".2f") for name in ("effect_low", "effect_high"))
        effect = f"{effect} {low}–{high}"
    shares = {name: f"{100 * float(row[name] or 0):.0f} %" for name in ("flips", "wrong")}
    return (
        f"{row['probe']:<11}{row['pairs']:>5}  {row['strongest']:<10}{effect:<16}"
        f"{shares['flips']:>6}{_signed(row['token_change'], '+.2f'):>8}"
        f"{_signed(row['others_change'], '+.2f'):>12}{shares['wrong']:>7}"
    )


def _signed(value: Value, form: str) -> str:
    return "" if value is None else f"{value:{form}}".replace("-", "−")

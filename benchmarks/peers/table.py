"""The results of run.py as a Markdown table.

.venv/bin/python benchmarks/peers/table.py benchmarks/results/peers-DATE.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

OURS = "ours"
HEAD = (
    "| system | training, target tokens/s | to the best peer | without padding "
    "| beam 5, sentences/s | to the best peer | greedy, sentences/s | to the best peer "
    "| peak MB, training / beam 5 |"
)
NOTHING = "–"


@dataclass
class Row:
    """One system in one precision; None where it was not, or could not be, measured."""

    name: str
    title: str
    train: float | None = None
    efficiency: float | None = None
    beam: float | None = None
    greedy: float | None = None
    train_mb: float | None = None
    beam_mb: float | None = None


def rows(results: dict[str, Any]) -> list[Row]:
    """Medians over the rounds, of every system that is installed."""
    found = []
    for system in results["systems"]:
        training, decoding = system.get("training", {}), system.get("decoding", {})
        for precision in dict.fromkeys([*training, *decoding]):
            beams = decoding.get(precision, {})
            rounds, five, one = training.get(precision), beams.get("5"), beams.get("1")
            row = Row(
                name=system["name"],
                title=f"{title(system)}, {precision}",
                train=middle(rounds, "tokens_per_second"),
                efficiency=middle(rounds, "padding_efficiency"),
                beam=middle(five, "sentences_per_second"),
                greedy=middle(one, "sentences_per_second"),
                train_mb=middle(rounds, "peak_mb"),
                beam_mb=middle(five, "peak_mb"),
            )
            found.append(row)
    return found


def title(system: dict[str, Any]) -> str:
    """A system's title with its version, which is that of the first of its packages."""
    versions = list(system.get("versions", {}).values())
    return f"{system['title']} {versions[0]}" if versions else str(system["title"])


def middle(rounds: list[dict[str, Any]] | None, figure: str) -> float | None:
    return median(entry[figure] for entry in rounds) if rounds else None


def best(found: list[Row], figure: str) -> float | None:
    """The highest figure of any peer, in whatever precision."""
    values = [getattr(row, figure) for row in found if row.name != OURS]
    return max((value for value in values if value is not None), default=None)


def table(results: dict[str, Any]) -> str:
    """The whole table, and a line for each system that is not in it."""
    found = rows(results)
    lines = [HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    lines += [_line(row, found) for row in found]
    lines += _limits(results.get("limit", {}))
    text = "\n".join(lines) + "\n"
    for system in results["systems"]:
        if "not_installed" in system:
            text += f"\n{system['title']}: not installed: {system['not_installed']}\n"
        for what, reason in system.get("failed", {}).items():
            text += f"\n{system['title']}, {what}: failed: {reason}\n"
        for reason in strange(system):
            text += f"\n{system['title']}: {reason}\n"
    return text + "\n" + conditions(results) + "\n"


def strange(system: dict[str, Any]) -> list[str]:
    """Outputs of another length than asked for: that system has not done the same work."""
    return [
        f"{precision}, beam {beam}: outputs of {entry['pieces'][0]} to {entry['pieces'][1]} pieces"
        for precision, beams in system.get("decoding", {}).items()
        for beam, rounds in beams.items()
        for entry in rounds[:1]
        if entry["pieces"] != [16, 16]
    ]


def conditions(results: dict[str, Any]) -> str:
    """One sentence: when, where, how."""
    at, how = results["conditions"], results["settings"]
    return (
        f"{at['date']}, commit {at['commit']}, {how['processor']}, {how['threads']} threads, "
        f"load {at['load']:.1f} at the end, PyTorch {at['torch']}; medians of {how['rounds']} "
        f"rounds in turn, {how['train_seconds']:g} s of training each."
    )


def _line(row: Row, found: list[Row]) -> str:
    def ratio(figure: str) -> str:
        value, top = getattr(row, figure), best(found, figure)
        return NOTHING if value is None or top is None else f"{value / top:.2f}"

    cells = [
        row.title,
        _number(row.train, ",.0f"),
        ratio("train"),
        _number(row.efficiency, ".2f"),
        _number(row.beam, ",.0f"),
        ratio("beam"),
        _number(row.greedy, ",.0f"),
        ratio("greedy"),
        f"{_number(row.train_mb, ',.0f')} / {_number(row.beam_mb, ',.0f')}",
    ]
    return f"| {' | '.join(cells)} |"


def _limits(limit: dict[str, Any]) -> list[str]:
    """What the machine's matrix products alone allow."""
    lines = []
    for precision in ("fp32", "bf16"):
        if precision in limit:
            most = limit[precision]
            sentences = most["sentences_per_second"]
            lines.append(
                f"| *the machine's limit, {precision}* | {most['tokens_per_second']:,.0f} | | 1 "
                f"| {sentences['5']:,.0f} | | {sentences['1']:,.0f} | | |"
            )
    return lines


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")

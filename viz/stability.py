"""What `seq2seq trace` says and writes of several runs: which ways all models take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2seq.analysis.stability import Model, Stability, follow, listing, report, verdict
from seq2seq.analysis.study import PROBES
from seq2seq.analysis.trace_tables import summary
from seq2seq.errors import UserError

MOST = 8  # ways shown of a probe; the file has all


def names(runs: Sequence[str]) -> list[str]:
    """Short names of run folders, as much of their paths as tells them apart.

    Raises:
        UserError: a folder is given twice.
    """
    paths = [Path(run).resolve() for run in runs]
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"--run {path.name} is given twice: compare different runs.")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def said(models: Sequence[Model]) -> tuple[list[str], list[Stability]]:
    """Lines for the terminal, and all ways.

    Raises:
        UserError: no probe could be asked of two runs.
    """
    runs = [model.name for model in models]
    probes = [p for p in PROBES if sum(p in model.answers for model in models) > 1]
    if not probes:
        raise UserError("No probe can be asked of two of these runs: train them further.")
    lines = [f"run {number}: {run}" for number, run in enumerate(runs, start=1)]
    found: list[Stability] = []
    for probe in probes:
        rows = follow(models, probe)
        found += rows
        lines += ["", verdict(rows, probe, len(runs)), *report(rows[:MOST], runs)]
    return [*lines, ""], found


def content(
    models: Sequence[Model], rows: Sequence[Stability], lines: Sequence[str], facts: Sequence[str]
) -> dict[str, bytes]:
    """The files, by name: `lines` are those for the terminal, `facts` say where they come from."""
    runs = [model.name for model in models]
    ways = listing(rows, runs).with_facts(facts)
    probes = [(model.name, summary([*model.answers.values()])) for model in models]
    text = ["# What several runs have in common\n", *(f"{fact}  " for fact in facts), ""]
    text += ["```text", *lines, "```\n", "## Ways\n", ways.to_markdown()]
    for name, table in probes:
        text += [f"## {name}\n", table.to_markdown()]
    files = {"stability.md": "\n".join(text), "stability.csv": ways.to_csv()}
    return {name: text.encode("utf-8") for name, text in files.items()}

"""A small model learns the grammar, and what `trace` says of it agrees with itself."""

from __future__ import annotations

import csv
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervene import all_heads
from seq2seq.analysis.study import PROBES, Answer, builtin, measure
from seq2seq.analysis.tables import read_table
from seq2seq.analysis.verdict import carriers
from seq2seq.run_folder import load_run

pytestmark = pytest.mark.slow

SIZES = {"d_model": 96, "d_ff": 384, "encoder_heads": 4, "decoder_heads": 4}
UPDATES = 1200
EARLY = {"object", "particle"}  # learnt first
PAIRS, SPLIT = 50, "train"


def seq2seq(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONUTF8": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_of(path: Path) -> list[dict[str, str]]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return list(csv.DictReader(line for line in lines if line and not line.startswith("#")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learnt for 1,200 updates, about two minutes, and what the command says of it.

    Updates and float32, not minutes: what was learnt must not depend on how busy the machine is.
    """
    folder = tmp_path_factory.mktemp("trace")
    sizes = [f"model.{name}={value}" for name, value in SIZES.items()]
    length = ["train.max_minutes=null", f"train.max_updates={UPDATES}", "precision=fp32"]
    options = [*length, "train.dev_limit=50", "train.validate_every=600"]
    seq2seq(folder, "train", "--run", "demo", "experiment=grammar", *sizes, *options)
    shown = seq2seq(
        folder, "trace", "--run", "demo", "--probe", "--pairs", str(PAIRS), "--split", SPLIT
    )
    (folder / "shown.txt").write_text(shown, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def asked(place: Path) -> list[str]:
    """The probes that the model was ready for."""
    return [row["probe"] for row in rows_of(place / "demo" / "trace" / "probes.csv")]


@pytest.fixture(scope="module")
def answers(place: Path, asked: list[str]) -> dict[str, Answer]:
    run = load_run(place / "demo", device="cpu")
    return {
        name: measure(builtin(run.model, run.tokenizer, name, PAIRS, SPLIT))  # type: ignore[arg-type]
        for name in asked
    }


def test_every_probe_is_answered_or_said_not_to_be(place: Path, asked: list[str]) -> None:
    shown = (place / "shown.txt").read_text(encoding="utf-8")
    told = " ".join(shown.split())
    assert set(asked) >= EARLY
    for name in PROBES:
        assert (f"probe '{name}'" in told) == (name not in asked)
        assert (f" {name}: " in told) == (name in asked)
    tables = shown[: shown.index(f"\n{asked[0]}: ")]
    assert max(map(len, tables.split("\n"))) <= 80


def test_the_tables_are_complete(place: Path, asked: list[str]) -> None:
    folder = place / "demo" / "trace"
    run = load_run(place / "demo", device="cpu")
    heads = all_heads(run.model)
    every = rows_of(folder / "trace.csv")
    names = [(row["probe"], f"{row['kind']}.{row['layer']}.{row['head']}") for row in every]
    assert names == [(probe, str(head)) for probe in asked for head in heads]
    for row in every:
        for name in ("effect", "effect_low", "effect_high", "flips", "gradient [nats]", "wrong"):
            assert row[name] != ""
        assert float(row["effect_low"]) <= float(row["effect"]) <= float(row["effect_high"])
    table = read_table((folder / "heads.csv").read_text(encoding="utf-8"), "heads.csv")
    for name in asked:
        column = "effect" if name == "it" else f"{name}_effect"
        assert len(table.values(column)) == len(heads)
        assert (folder / f"route_{name}.png").exists()


def test_all_heads_carry_all_and_none_carries_nothing(answers: dict[str, Answer]) -> None:
    for answer in answers.values():
        runs = answer.study.runs
        assert runs.effect([]).effect == 0
        heads = all_heads(runs.model)
        assert runs.effect(heads).effect == pytest.approx(1, abs=1e-3)
        cross = [head for head in heads if head.kind == "cross"]
        assert runs.effect(cross).effect == pytest.approx(1, abs=1e-3)
        assert runs.effect(cross).flips == len(runs.contrasts)


def lost(answer: Answer, heads: list[HeadId]) -> float:
    """Nats by which the right answers lead the wrong ones less without heads, on average.

    The lead is what the heads are said to carry. The log-probability of the right answer alone
    also falls when the sentence breaks elsewhere, which any head can do.
    """
    runs = answer.study.runs
    return -float((runs.without(heads).delta - runs.before.delta).mean())


def test_what_is_said_to_carry_costs_more_than_other_heads(answers: dict[str, Answer]) -> None:
    """The lead falls further than without any of ten sets of as many other heads."""
    draw = random.Random(1)
    for name, answer in answers.items():
        named = carriers(answer.table)
        assert named, name
        others = [head for head in answer.table.heads if head not in named]
        size = min(len(named), len(others))
        random_sets = [lost(answer, draw.sample(others, size)) for _ in range(10)]
        assert lost(answer, named) > max(random_sets), name


def test_the_small_set_moves_more_than_its_strongest_head(answers: dict[str, Answer]) -> None:
    for answer in answers.values():
        best = max(answer.table.values("effect").values())
        assert answer.study.runs.effect(answer.together).effect >= best - 1e-6


def test_two_runs_compared_agree_with_each_alone(place: Path, asked: list[str]) -> None:
    """The same run under two names: every way is taken by both or by none."""
    shutil.copytree(place / "demo", place / "copy")
    both = ["--run", "demo", "--run", "copy", "--probe", ",".join(sorted(EARLY))]
    shown = seq2seq(place, "trace", *both, "--pairs", "40", "--split", SPLIT, "--out", "both")
    rows = rows_of(place / "both" / "stability.csv")
    assert {row["probe"] for row in rows} == EARLY
    assert all(row["effect demo"] == row["effect copy"] for row in rows)
    assert {row["taken"] for row in rows} == {"2"}
    assert "stable in all 2 runs" in " ".join(shown.split())

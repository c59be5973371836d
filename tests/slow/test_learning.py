"""Whether the defaults learn small corpora of one's own, through the command, as a user does."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.run_folder import load_run

pytestmark = pytest.mark.slow

WORDS = [*"zero one two three four five six seven eight nine".split(), *"123456789"]  # noqa: SIM905


def copy_lines(count: int) -> list[str]:
    """Different lines of 3 to 8 words and digits."""
    draw = random.Random(1)
    lines: dict[str, None] = {}
    while len(lines) < count:
        lines[" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 8)))] = None
    return list(lines)


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def seq2seq(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def exact(place: Path, run: str, lines: list[str]) -> float:
    """Share of lines that come back unchanged."""
    write(place / "input.txt", lines)
    seq2seq(place, "translate", "--run", run, "--input", "input.txt", "--output", "output.txt")
    output = (place / "output.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(output) == len(lines)
    return sum(map(str.__eq__, output, lines)) / len(lines)


def test_a_copy_task_of_200_lines(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    """With nothing but the time set; lines kept out of training count like the others."""
    lines = copy_lines(220)
    write(tmp_path / "text.txt", lines[:200])
    files = ["--train-source", "text.txt", "--train-target", "text.txt"]
    out = seq2seq(tmp_path, "train", "--name", "copy", *files, "train.max_updates=1500")
    assert out == "run: runs/copy\n"
    given, unseen = (exact(tmp_path, "runs/copy", part) for part in (lines[:200], lines[200:]))
    record_property("unseen", unseen)
    print(f"exact: {given:.1%} of 200 lines given, {unseen:.0%} of 20 lines never seen")
    assert given >= 0.95


PAIRS = [
    ("the cat sleeps on the mat", "кошка спит на коврике"),
    ("a dog runs", "собака бежит"),
    ("we drink tea in the morning", "утром мы пьём чай"),
    ("where is the station?", "где вокзал?"),
    ("我们今天去公园玩", "आज हम पार्क जा रहे हैं"),
]


@pytest.mark.parametrize("count", [1, 20])
def test_a_tiny_corpus_in_two_scripts(tmp_path: Path, count: int) -> None:
    pairs = [(f"{s} {i}", f"{i} {t}") for i in range(4) for s, t in PAIRS][:count]
    write(tmp_path / "a.txt", [source for source, _ in pairs])
    write(tmp_path / "b.txt", [target for _, target in pairs])
    files = ["--train-source", "a.txt", "--train-target", "b.txt"]
    out = seq2seq(tmp_path, "train", "--name", "tiny", *files, "train.max_updates=30")
    assert out == "run: runs/tiny\n"
    assert load_run(tmp_path / "runs" / "tiny", device="cpu").step == 30
    assert 0.0 <= exact(tmp_path, "runs/tiny", [source for source, _ in pairs]) <= 1.0

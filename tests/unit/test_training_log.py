"""What training tells: metrics.jsonl is JSON line by line, and people see plain text."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import pytest
from rich.console import Console

from seq2seq.training.checkpoint import Progress
from seq2seq.training.log import Reporter, clock
from seq2seq.training.validation import Validation


def reporter(run: Path, *, terminal: bool = False) -> Reporter:
    return Reporter(run, Console(file=io.StringIO(), force_terminal=terminal, width=300))


def shown(it: Reporter) -> str:
    return it.console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def lines(run: Path) -> list[dict[str, object]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = (run / "metrics.jsonl").read_bytes().decode("utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.split("\n")[:-1]]


def test_a_line_an_event(tmp_path: Path) -> None:
    with reporter(tmp_path) as it:
        it.record("train", 5, {"loss": 1.5, "epoch": 2})
        assert len(lines(tmp_path)) == 1  # at once, for whoever watches
        it.record("dev", 5, {"bleu": 30.25})
    assert lines(tmp_path) == [
        {"kind": "train", "update": 5, "loss": 1.5, "epoch": 2},
        {"kind": "dev", "update": 5, "bleu": 30.25},
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_word_for_becomes_null(tmp_path: Path, value: float) -> None:
    with reporter(tmp_path) as it:
        it.record("train", 1, {"loss": value, "lr": 0.1})
    assert lines(tmp_path) == [{"kind": "train", "update": 1, "loss": None, "lr": 0.1}]


@pytest.mark.parametrize("terminal", [False, True])
def test_what_looks_like_mark_up_is_text(tmp_path: Path, terminal: bool) -> None:
    with reporter(tmp_path, terminal=terminal) as it:
        it.say("translation [bold]x[/bold] :cat: [/] \\[y]")
    assert "translation [bold]x[/bold] :cat: [/] \\[y]" in shown(it)


def test_a_later_run_appends(tmp_path: Path) -> None:
    for update in (1, 2):
        with reporter(tmp_path) as it:
            it.record("train", update, {})
    assert [line["update"] for line in lines(tmp_path)] == [1, 2]


@pytest.mark.parametrize("torn", ["", '{"kind": "train", "upd', '{"kind": "train", "update": 9'])
def test_rewinding_forgets_what_will_be_done_again(tmp_path: Path, torn: str) -> None:
    """After a kill there are lines of updates behind the checkpoint, the last perhaps torn."""
    with reporter(tmp_path) as it:
        for update in (1, 2, 3, 4):
            it.record("train", update, {"text": "é\u2028é"})
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(torn)
    with reporter(tmp_path) as it:
        it.rewind(2)
        it.record("train", 3, {})
    assert [line["update"] for line in lines(tmp_path)] == [1, 2, 3]
    assert lines(tmp_path)[0]["text"] == "é\u2028é"
    assert [file.name for file in tmp_path.glob("metrics*")] == ["metrics.jsonl"]


def test_validations_are_shown_and_kept(tmp_path: Path) -> None:
    samples = [("ein [bold]Satz[/bold]", "a sentence", "a\\[red]"), ("zwei", "two", "")]
    result = Validation({"loss": 2.0, "bleu": 12.345}, samples, ["all the same"])
    with reporter(tmp_path) as it:
        it.validated(Progress(update=7, seconds=3.5), result, is_best=True)
    text = shown(it)
    assert "update 7: dev loss 2.00  bleu 12.35  (best so far)" in text
    assert "source      ein [bold]Satz[/bold]" in text  # text, not mark-up
    assert "translation a\\[red]" in text
    assert "warning: all the same" in text
    kept = (tmp_path / "samples" / "step-7.txt").read_text(encoding="utf-8")
    assert kept.split("\n")[:3] == [
        "source      ein [bold]Satz[/bold]",
        "reference   a sentence",
        "translation a\\[red]",
    ]
    assert lines(tmp_path) == [
        {"kind": "dev", "update": 7, "loss": 2.0, "bleu": 12.345, "seconds": 3.5}
    ]


def test_plain_lines_without_a_terminal_and_a_bar_with_one(tmp_path: Path) -> None:
    with reporter(tmp_path) as it:
        it.advance(0.25, "update 1", line=True)
        it.advance(0.5, "update 2", line=False)
    assert shown(it) == " 25%  update 1\n"
    with reporter(tmp_path, terminal=True) as it:
        it.advance(0.25, "update 1", line=True)
    assert "training" in shown(it)
    assert " 25%  update 1\n" not in shown(it)


def test_the_file_is_closed_after_an_error(tmp_path: Path) -> None:
    it = reporter(tmp_path)
    with pytest.raises(KeyError), it:
        raise KeyError
    assert it.metrics.closed


def test_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with reporter(tmp_path) as it:
        it.record("train", 1, {"loss": 1.0})
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    seen: list[object] = []

    class Writer:
        def add_scalar(self, *scalar: object) -> None:
            seen.append(scalar)

        def close(self) -> None:
            seen.append("closed")

    with reporter(tmp_path) as it:
        it.tensorboard = Writer()
        it.record("dev", 3, {"loss": 1.0, "bleu": math.nan, "text": "x", "best": 2})
    assert seen == [("dev/loss", 1.0, 3), ("dev/best", 2, 3), "closed"]


def test_durations() -> None:
    assert [clock(s) for s in (-1, 0, 59.6, 75, 3600, 36_061)] == [
        "0:00",
        "0:00",
        "1:00",
        "1:15",
        "1:00:00",
        "10:01:01",
    ]

"""From a configuration to a run folder: what is reused, what is refused, what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_samples import configuration

from seq2seq.choices import DataKind, Precision
from seq2seq.config import DataConfig, RunConfig
from seq2seq.config_file import load_config, save_config
from seq2seq.data.store import TokenStore
from seq2seq.errors import UserError
from seq2seq.run_folder import load_run
from seq2seq.training.checkpoint import TrainResult
from seq2seq.training.run import fitting_budget, train
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validator


@pytest.fixture
def text(tmp_path: Path) -> Path:
    for name, factor in (("a", 1), ("b", 3)):
        lines = (" ".join(str(i * factor)) for i in range(100, 140))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def settings(text: Path, **options: Any) -> RunConfig:
    config = configuration(**{"max_updates": 2, **options})
    config.runs = str(text / "runs")
    config.data = DataConfig(
        kind=DataKind.files, train_source=str(text / "a"), train_target=str(text / "b")
    )
    config.decode.max_len_a, config.decode.max_len_b = 1.0, 5
    return config


def run(text: Path, config: RunConfig, name: str = "run", *, resume: bool = False) -> TrainResult:
    return train(config, text / "runs" / name, resume=resume)


def cached(text: Path) -> dict[str, int]:
    """Everything in the cache with the time it was made."""
    return {p.name: p.stat().st_mtime_ns for p in (text / "runs" / ".cache").iterdir()}


def test_a_run_folder_is_complete(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(text, settings(text))
    assert (result.reason, result.progress.update) == ("finished", 2)
    names = {path.name for path in result.run_dir.iterdir()} - {"tensorboard"}
    assert names == {
        "config.json",
        "corpus.json",
        "tokenizer.model",
        "metrics.jsonl",
        "samples",
        "step-2",
        "best.json",
        "last.json",
        "finished.json",
    }
    finished = json.loads((result.run_dir / "finished.json").read_text())
    assert finished["updates"] == finished["best_step"] == 2
    loaded = load_run(result.run_dir, device="cpu")
    assert loaded.config.model.source_vocab == loaded.tokenizer.source_vocab
    shown = capsys.readouterr().err
    assert "36 training pairs, 2 dev, 2 test" in shown
    assert "% padding" in shown


def test_tokenizer_and_store_are_reused_by_content(text: Path) -> None:
    run(text, settings(text), "one")
    first = cached(text)
    assert sorted(name.split("-")[0] for name in first) == ["store", "tokenizer"]
    run(text, settings(text, seed=5, max_tokens=99, lr=0.1), "two")
    assert cached(text) == first  # nothing of it shapes the text
    (text / "copy").write_bytes((text / "a").read_bytes())
    moved = settings(text)
    moved.data.train_source = str(text / "copy")
    run(text, moved, "three")
    assert cached(text) == first  # the same text under another name


CHANGES = {
    "max_length": ("data", "max_length", 50, {"store"}),
    "max_ratio": ("data", "max_ratio", 2.0, {"store"}),
    "drop_duplicates": ("data", "drop_duplicates", False, {"store"}),
    "drop_identical": ("data", "drop_identical", True, {"store"}),
    "limit": ("data", "limit", 30, {"store", "tokenizer"}),
    "byte_fallback": ("tokenizer", "byte_fallback", True, {"store", "tokenizer"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_option_that_shapes_the_text_builds_anew(text: Path, name: str) -> None:
    section, key, value, kinds = CHANGES[name]
    run(text, settings(text), "one")
    first = cached(text)
    config = settings(text)
    setattr(getattr(config, section), key, value)
    run(text, config, "two")
    fresh = cached(text).keys() - first.keys()
    assert {found.split("-")[0] for found in fresh} == kinds


def test_changed_text_builds_anew(text: Path) -> None:
    run(text, settings(text), "one")
    first = cached(text)
    content = (text / "a").read_text()
    (text / "a").write_text(content.replace("1 0 0\n", "0 0 1\n"))  # of the same length
    run(text, settings(text), "two")
    assert len(cached(text)) == len(first) + 2


def test_an_existing_folder_is_not_touched(text: Path) -> None:
    folder = text / "runs" / "run"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="run exists already"):
        run(text, settings(text))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_of_two_runs_of_one_name_the_later_gives_way(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other began while this one prepared its text."""

    def meanwhile(*arguments: Any) -> Validator:
        (text / "runs" / "run").mkdir(parents=True)
        return Validator(*arguments)

    monkeypatch.setattr("seq2seq.training.run.Validator", meanwhile)
    with pytest.raises(UserError, match="run exists already"):
        run(text, settings(text))
    assert not list((text / "runs" / "run").iterdir())


def test_what_cannot_be_trained_leaves_no_folder(text: Path) -> None:
    config = settings(text)
    config.data.dev_size = 0
    with pytest.raises(UserError, match="no dev pairs"):
        run(text, config)
    assert not (text / "runs" / "run").exists()


def test_characters_that_only_dev_has_are_reported(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text / "dev").write_text("1 ж\n", encoding="utf-8")
    config = settings(text)
    config.data.dev_source = config.data.dev_target = str(text / "dev")
    run(text, config)
    shown = " ".join(capsys.readouterr().err.split())
    assert "25.00% of the dev pieces are characters that the vocabulary lacks" in shown


@pytest.mark.parametrize("asked", [Precision.auto, Precision.fp32])
def test_precision_on_resume_is_the_saved_one_unless_given(text: Path, asked: Precision) -> None:
    """`auto` must not measure the machine again, but advice to use fp32 must have its effect."""
    config = settings(text)
    config.precision = Precision.bf16
    run(text, config)
    again = settings(text, max_updates=3)
    again.precision = asked
    run(text, again, resume=True)
    expected = Precision.bf16 if asked is Precision.auto else asked
    assert load_config(text / "runs" / "run" / "config.json").precision is expected


def test_another_tokenizer_is_refused_on_resume(text: Path) -> None:
    run(text, settings(text))
    path = text / "runs" / "run" / "config.json"
    saved = load_config(path)
    saved.model.source_vocab += 1
    save_config(saved, path)
    with pytest.raises(UserError, match=r"source and .* target pieces, but the model was trained"):
        run(text, settings(text, max_updates=3), resume=True)


def test_an_interrupted_run_is_not_finished(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Trainer, "_update", _stop_after(Trainer._update))
    config = settings(text, max_updates=9)
    result = train(config, text / "runs" / "my run")
    assert result.interrupted
    assert not (result.run_dir / "finished.json").exists()
    command = capsys.readouterr().err.split("to go on: seq2seq train --run ")[1]
    assert command.replace("\n", "") == f"'{result.run_dir}' --resume"  # quoted for the shell
    monkeypatch.undo()
    assert train(config, result.run_dir, resume=True).reason == "finished"
    assert (result.run_dir / "finished.json").exists()


def _stop_after(update: Any) -> Any:
    def stopping(trainer: Trainer, batches: Any) -> None:
        update(trainer, batches)
        trainer.stop()

    return stopping


TWO_SCRIPTS = [
    ("the cat sleeps on the mat", "кошка спит на коврике"),
    ("a dog", "собака"),
    ("we drink tea in the morning", "утром мы пьём чай"),
    ("where is the station?", "где вокзал?"),
]


@pytest.mark.parametrize("count", [1, 3, 20])
def test_very_little_text_trains(tmp_path: Path, count: int) -> None:
    pairs = [(f"{s} {i}", f"{i} {t}") for i in range(5) for s, t in TWO_SCRIPTS][:count]
    for side, name in enumerate("ab"):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    config = settings(tmp_path)
    config.tokenizer = type(config.tokenizer)()  # the defaults: 8,000 unigram pieces
    result = run(tmp_path, config)
    assert result.progress.update == 2
    weights = load_run(result.run_dir, device="cpu").model.parameters()
    assert all(bool(torch.isfinite(weight).all()) for weight in weights)


@pytest.mark.parametrize(
    ("tokens", "device", "budget"),
    [
        (1_000, "cpu", 256),
        (20_000, "cpu", 500),
        (10_000_000, "cpu", 1024),
        (200_000, "cuda", 5000),
        (10_000_000, "cuda", 8192),
    ],
)
def test_a_budget_by_the_size_of_the_text(tokens: int, device: str, budget: int) -> None:
    ids = np.zeros(tokens - 100, dtype=np.uint16)  # and 100 ends of sentences
    offsets = np.linspace(0, len(ids), 101).astype(np.int64)
    store = TokenStore((ids, ids[:0]), (offsets, offsets * 0), np.arange(100), {}, "name")
    assert fitting_budget(store, torch.device(device)) == budget

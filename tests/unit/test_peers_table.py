"""The table of benchmarks/peers, and the machine's limit: arithmetic only, nothing is timed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for folder in (BENCHMARKS, BENCHMARKS / "peers"):
        monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module(name)


def trained(speed: float) -> dict[str, Any]:
    return {"tokens_per_second": speed, "padding_efficiency": 0.5, "peak_mb": 100}


def decoded(speed: float, pieces: tuple[int, int] = (16, 16)) -> dict[str, Any]:
    return {"sentences_per_second": speed, "pieces": list(pieces), "peak_mb": 50}


@pytest.fixture
def results() -> dict[str, Any]:
    return {
        "conditions": {"date": "2026-01-02", "commit": "abc", "load": 0.1, "torch": "2.13.0"},
        "settings": {"processor": "a CPU", "threads": 2, "rounds": 3, "train_seconds": 10.0},
        "limit": {
            "fp32": {"tokens_per_second": 4000, "sentences_per_second": {"1": 900, "5": 200}}
        },
        "systems": [
            {
                "name": "ours",
                "title": "seq2seq",
                "training": {
                    "fp32": [trained(100), trained(900), trained(300)],
                    "bf16": [trained(600)],
                },
                "decoding": {"fp32": {"5": [decoded(40)], "1": [decoded(80)]}},
            },
            {
                "name": "slow",
                "title": "Slow",
                "versions": {"slow": "1.0", "torch": "2.13.0"},
                "training": {"fp32": [trained(150)]},
                "decoding": {"fp32": {"5": [decoded(10, (3, 16))]}},
            },
            {
                "name": "decoder",
                "title": "Decoder",
                "decoding": {"int8": {"5": [decoded(50)], "1": [decoded(160)]}},
                "failed": {"training fp32": "out of memory"},
            },
            {"name": "missing", "title": "Missing", "not_installed": "no such release"},
        ],
    }


def test_rows_are_medians_by_precision(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = load("table", monkeypatch).rows(results)
    assert [(row.title, row.train, row.beam, row.greedy) for row in rows] == [
        ("seq2seq, fp32", 300, 40, 80),
        ("seq2seq, bf16", 600, None, None),
        ("Slow 1.0, fp32", 150, 10, None),
        ("Decoder, int8", None, 50, 160),
    ]


def test_ratios_are_to_the_best_peer_never_to_ourselves(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = load("table", monkeypatch).table(results)
    cells = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in table.splitlines()[:7]}
    found = {name: [cell.strip() for cell in row] for name, row in cells.items()}
    # 300 and 600 to 150; 40 to 50; 80 to 160.
    assert found["seq2seq, fp32"] == ["300", "2.00", "0.50", "40", "0.80", "80", "0.50", "100 / 50"]
    assert found["seq2seq, bf16"][:2] == ["600", "4.00"]
    assert found["Slow 1.0, fp32"] == ["150", "1.00", "0.50", "10", "0.20", "–", "–", "100 / 50"]
    assert found["*the machine's limit, fp32*"][::2] == ["4,000", "1", "", ""]
    assert len({line.count("|") for line in table.splitlines()[:7]}) == 1


def test_what_is_missing_or_unlike_is_said(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = load("table", monkeypatch).table(results)
    assert "Missing: not installed: no such release" in table
    assert "Decoder, training fp32: failed: out of memory" in table
    assert "Slow: fp32, beam 5: outputs of 3 to 16 pieces" in table
    assert "2026-01-02, commit abc, a CPU, 2 threads" in table


def test_command_renders_a_file(results: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "peers.json"
    file.write_text(json.dumps(results), encoding="utf-8")
    script = BENCHMARKS / "peers" / "table.py"
    done = subprocess.run([sys.executable, script, file], capture_output=True, check=True)
    assert done.stdout.decode().startswith("| system |")


def test_limit_counts_the_multiply_adds_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from seq2seq.config import ModelConfig
    from seq2seq.model.transformer import Transformer

    limit = load("limit", monkeypatch)
    model = Transformer(ModelConfig(source_vocab=8000, target_vocab=8000))
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    work = limit.Work(source=10.0, target=10.0)  # so every matrix is used once a target token
    assert work.training - work.attention == matrices  # tied: the embedding is the output layer
    # Scores and weighted sums: 3 kinds of attention, 10 keys, 2 · 256 each, in 3 layers.
    assert work.attention == 3 * 3 * 10 * 2 * 256
    products = sum(times * m * k * n for times, (m, k, n) in work.products())
    assert products == pytest.approx(matrices * work.tokens)


def test_limit_of_decoding_counts_the_source_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work = load("limit", monkeypatch).Work()
    assert work.decoding(5) - work.decoding(1) == 4 * 16 * work.decoder
    assert work.decoding(0) == (work.encoder + work.memory) * work.test_source


def test_products_are_timed_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert 0 < load("limit", monkeypatch).seconds(4, 4, 4, torch.float32, budget=0.0) < 60


def test_meter_counts_after_warm_up_and_stops(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    inside = load("inside", monkeypatch)
    now = iter([0.0, 1.0, 2.0, 4.0, 6.0])  # updates end at; the first two are warm-up
    monkeypatch.setattr(inside.time, "perf_counter", lambda: next(now))
    ended: list[int] = []
    monkeypatch.setattr(inside.os, "_exit", ended.append)

    class Trainer:
        def step(self, tokens: int) -> str:
            return f"did {tokens}"

    meter = inside.Meter(inside.Job(Path(), "x", seconds=5.0, warm_up=1.0))
    meter.watch(Trainer, "step", lambda _, tokens: (tokens, 2 * tokens))
    assert Trainer().step(1000) == "did 1000"
    for tokens in (1000, 10, 20, 30):
        assert not ended
        Trainer().step(tokens)
    assert ended == [0]
    found = json.loads(capfd.readouterr().out.splitlines()[-1])["measured"]
    assert found["tokens_per_second"] == 12.0  # 60 tokens in the 5 seconds from 1 to 6
    assert (found["padding_efficiency"], found["updates"]) == (0.5, 3)


def test_slow_decoder_gets_fewer_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = load("inside", monkeypatch)
    clock = [0.0]
    monkeypatch.setattr(inside.time, "perf_counter", lambda: clock[0])

    def translate(count: int) -> list[int]:
        clock[0] += count  # a second for each
        return [16] * count

    job = inside.Job(Path(), "x", beam=5, seconds=100.0)
    found = inside.timed(job, translate)
    assert (found["sentences"], found["sentences_per_second"]) == (100, 1.0)
    assert found["pieces"] == [16, 16]

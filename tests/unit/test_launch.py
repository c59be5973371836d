"""Sweeps through Hydra's launchers, here the one that comes with Hydra: one after the other."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seq2seq.cli import train
from seq2seq.cli.launch import split
from seq2seq.cli.main import main
from seq2seq.config import RunConfig
from seq2seq.errors import UserError
from seq2seq.training.distributed import World

BASIC = "hydra/launcher=basic"


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[int, str, bool]]:
    """Seed, name and whether resumed, of every run that reaches the trainer."""
    calls: list[tuple[int, str, bool]] = []

    def record(config: RunConfig, folder: Path, *, resume: bool, **_: Any) -> SimpleNamespace:
        calls.append((config.seed, folder.name, resume))
        folder.mkdir(parents=True, exist_ok=resume)
        (folder / "last.json").touch()
        return SimpleNamespace(interrupted=config.seed == 99)

    monkeypatch.setattr("seq2seq.training.run.train", record)
    monkeypatch.chdir(tmp_path)
    return calls


def sweep(*arguments: str) -> int:
    return main(["train", "--multirun", "--name", "x", "model=tiny", *arguments])


def test_hydras_settings_are_told_from_ours() -> None:
    own = ["hydra/launcher=joblib", "+hydra.launcher.n_jobs=2", "hydra.sweep.dir=x"]
    ours = ["seed=1,2", "name=hydra", "data.root=hydra.x"]
    assert split([own[0], ours[0], *own[1:], *ours[1:]]) == (own, ours)


def test_a_launcher_trains_every_run_under_its_own_name(
    trained: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.argv.copy(), dict(os.environ)
    assert sweep(BASIC, "seed=3,5,7") == 0
    assert trained == [(3, "x-1", False), (5, "x-2", False), (7, "x-3", False)]
    shown = capsys.readouterr()
    assert shown.out.split("\n")[:-1] == [f"run: runs/x-{i}" for i in (1, 2, 3)]
    assert "3 runs; what the launcher writes is in runs/.sweeps/" in shown.err
    assert (sys.argv, dict(os.environ)) == before
    assert main(["train", "--name", "y", "model=tiny"]) == 0  # Hydra can be used again


def test_a_folder_for_what_a_launcher_writes_may_be_chosen(trained: list[Any]) -> None:
    assert sweep(BASIC, "hydra.sweep.dir=else where", "seed=1,2") == 0
    assert Path("else where").is_dir()
    assert not Path("runs/.sweeps").exists()


def test_a_mistake_in_one_run_is_found_before_the_first_trains(
    trained: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(BASIC, "model.dropout=0.1,7") == 2
    Path("runs/x-2").mkdir(parents=True)
    assert sweep(BASIC, "seed=1,2") == 2
    assert "error: runs/x-2 exists already" in capsys.readouterr().err
    assert trained == []


def test_what_a_run_says_ends_the_command(
    trained: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(BASIC, "seed=99,1") == 2
    assert "error: runs/x-1 was interrupted: go on with it by --resume." in capsys.readouterr().err


def test_a_job_that_a_cluster_starts_again_goes_on(trained: list[Any]) -> None:
    plans = [RunConfig(name="a"), RunConfig(name="b")]
    for _ in range(2):
        train._launched(plans, 1)
    assert trained == [(1, "b", False), (1, "b", True)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("hydra/launcher=nonsense", "There is no hydra/launcher=nonsense: pip install 'seq2seq"),
        ("hydra/sweeper=basic", "hydra/sweeper has no effect here: write out the values"),
        ("hydra.launcher.nonsense=1", "Unknown key hydra.launcher.nonsense"),
    ],
)
def test_a_wrong_setting_is_one_sentence(
    trained: list[Any], capsys: pytest.CaptureFixture[str], setting: str, message: str
) -> None:
    assert sweep(setting, "seed=1,2") == 2
    error = capsys.readouterr().err.split("error: ")[1]
    assert error.startswith(message)
    assert trained == []


def test_hydras_settings_without_a_sweep_are_refused(
    trained: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--name", "x", BASIC]) == 2
    assert "Hydra's own settings are for --multirun" in capsys.readouterr().err


def test_a_launcher_inside_torchrun_is_refused() -> None:
    with pytest.raises(UserError, match="leave torchrun out"):
        train._launch([RunConfig(name="a")], [BASIC], "now", World())

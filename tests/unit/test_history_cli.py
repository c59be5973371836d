"""`seq2seq train train.snapshots=…` and `seq2seq history`, from text to pictures."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from seq2seq.analysis.snapshots import Snapshots
from seq2seq.attention_maps import AttentionMaps
from seq2seq.cli.main import main
from seq2seq.config_file import load_config

TINY = [
    "model=tiny",
    "model.d_model=16",
    "model.d_ff=32",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "tokenizer.kind=char",
    "device=cpu",
    "precision=fp32",
    "threads=1",
    "train.max_updates=12",
    "train.max_tokens=80",
    "train.validate_every=5",
    "train.log_every=1",
    "train.dev_limit=2",
    "train.keep_last=3",
    "train.snapshot_pairs=4",
    "decode.max_len_a=1",
    "decode.max_len_b=5",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A run trained with snapshots of one dev sentence and two of the user's own."""
    folder = tmp_path_factory.mktemp("history")
    for name, factor in (("text.a", 1), ("text.b", 7)):
        lines = [" ".join(str(i * factor)) for i in range(100, 160)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "mine.txt").write_text("1 2 3\t8 6 1\n1 0 1\n", encoding="utf-8")
    status = main(
        ["train", "--run", str(folder / "run"), "--train-source", str(folder / "text.a"),
         "--train-target", str(folder / "text.b"), *TINY, "train.snapshots=1",
         f"train.snapshot_file={folder / 'mine.txt'}"]
    )  # fmt: skip
    assert status == 0
    return folder


@pytest.fixture
def command(place, monkeypatch, capsys):
    """Run the command in the place; returns status, stdout and stderr."""
    monkeypatch.chdir(place)

    def run(*arguments):
        status = main(["history", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


FEW = ("--statistic", "entropy", "--film", "none")


def test_training_keeps_what_was_asked_for(place):
    kept = Snapshots(place / "run" / "snapshots")
    assert kept.updates == [0, 1, 2, 4, 5, 10, 12]
    sentences = kept.records(10)
    assert [maps.text["source"] for maps in sentences[:2]] == ["1 2 3", "1 0 1"]
    assert [len(maps.cross) for maps in sentences] == [1, 0, 1]
    assert load_config(place / "run" / "config.json").train.snapshots == 1


def test_the_files_of_a_history(command, place):
    status, out, _ = command("--run", "run", "--film", "cross.0.1,dec.0", "--out", "whole")
    assert status == 0
    names = {path.name for path in (place / "whole").iterdir()}
    expected = {"history.html", "history.csv", "roles.csv", "roles.md", "film_cross_L0H1.png",
                "film_dec_L0.png", "history_entropy.png", "history_previous.png",
                "history_mean_js.png"}  # fmt: skip
    assert names >= expected
    assert out.startswith("7 snapshots, from update 0 to 12\n")
    assert all(f"  whole/{name}\n" in out for name in names)
    lines = (place / "whole" / "history.csv").read_text(encoding="utf-8").split("\n")
    assert lines[0] == "# run run · updates 0 to 12"
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    kept = Snapshots(place / "run" / "snapshots")
    for row in rows:
        table = kept.table(int(row["update"]))
        head = next(
            h for h in table.heads if [*map(str, h)] == [row["kind"], row["layer"], row["head"]]
        )
        assert float(row["entropy [nats]"]) == pytest.approx(table.values("entropy")[head])
    assert len(rows) == 7 * len(kept.table(0).heads)


def test_the_same_command_changes_nothing_and_another_writes_elsewhere(command, place):
    command("--run", "run", *FEW)
    folder = place / "run" / "history"
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert command("--run", "run", *FEW)[0] == 0
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert before == after
    _, out, _ = command("--run", "run", *FEW, "--frames", "3")
    assert "run/history-2/history.html" in out
    shutil.rmtree(place / "run" / "history-2")
    shutil.rmtree(folder)


def test_step_folders_serve_where_there_are_no_snapshots(command, place):
    copy = place / "copy"
    shutil.copytree(place / "run", copy, ignore=shutil.ignore_patterns("snapshots", "history*"))
    status, out, _ = command("--run", "copy", *FEW, "--limit", "4", "--sentences", "2",
                             "--out", "steps", "--device", "cpu")  # fmt: skip
    assert status == 0
    assert out.startswith("3 snapshots, from update 5 to 12\n")
    rows = list(csv.reader(_rows(place / "steps" / "history.csv")))
    kept = Snapshots(place / "run" / "snapshots")
    entropy = rows[0].index("entropy [nats]")
    for row in rows[1:]:  # the very numbers that training kept
        table = kept.table(int(row[0]))
        head = next(h for h in table.heads if [*map(str, h)] == row[1:4])
        assert float(row[entropy]) == pytest.approx(table.values("entropy")[head], rel=1e-6)
    page = (place / "steps" / "history.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [one["updates"] for one in data["training"]["series"]] == [[5, 10, 12]] * 2


def _rows(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("option", "sources"),
    [(("--text", "4 5"), ["4 5"]), (("--input", "mine.txt"), ["1 2 3", "1 0 1"])],
)
def test_own_sentences_are_looked_at_again(command, place, option, sources):
    """Without a translation, all checkpoints are led along that of the last one."""
    out = place / f"own{len(sources)}"
    status, said, _ = command("--run", "run", *option, *FEW, "--limit", "2", "--out", out)
    assert status == 0
    assert said.startswith("3 snapshots, from update 5 to 12\n")
    page = (out / "history.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    series = data["training"]["series"]
    assert [data["records"][one["records"][0]]["text"]["source"] for one in series] == sources
    own = data["records"][series[-1]["records"][0]]
    assert own["layers"]["cross"] == [0]
    assert "target by step 12" in own["provenance"]
    given = data["records"][series[0]["records"][0]]["provenance"]
    assert ("target given" in given) == (len(sources) == 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--run", "absent"), "is not a folder"),
        (("--run", "run", "--sentence", "9"), "sentences 1 to 3"),
        (("--run", "run", "--film", "cross.x"), "names no head and no layer"),
        (("--run", "run", "--film", "cross.0.9"), "There is no head 9"),
        (("--run", "run", "--statistic", "entropie"), "no column 'entropie'"),
        (("--run", "run", "--target", "1"), "give both"),
        (("--run", "run", "--text", " "), "--text is empty"),
        (("--run", "run", "--text", "1 " * 90), "--text has 181 tokens, more than 150"),
        (("--run", "run", "--input", "absent.txt"), "absent.txt does not exist"),
        (("--run", "run", "--kinds", "dec", "--heads", "0"), "no dec attention"),
        (("--run", "run", "--frames", "0"), "no number of at least 1"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(command, place, arguments, message):
    status, _, said = command(*arguments, "--out", "never", "--limit", "2")
    assert status == 2
    assert message in said
    assert said.count("\n") == 1
    assert not (place / "never").exists()


def test_a_run_with_nothing_to_look_at_says_what_to_do(command, place):
    bare = place / "bare"
    shutil.copytree(
        place / "run", bare, ignore=shutil.ignore_patterns("snapshots", "step-5", "step-10")
    )
    status, _, said = command("--run", "bare")
    assert status == 2
    assert "train.snapshots=4" in said
    assert "train.keep_last=8" in said


def test_a_missing_or_torn_log_leaves_the_losses_out(command, place):
    copy = place / "torn"
    shutil.copytree(place / "run", copy)
    log = copy / "metrics.jsonl"
    log.write_text(log.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    assert command("--run", "torn", *FEW, "--no-page", "--out", "torn-1")[0] == 0
    log.unlink()
    assert command("--run", "torn", *FEW, "--no-page", "--out", "torn-2")[0] == 0
    assert {path.name for path in (place / "torn-2").iterdir()} == {
        "history.csv", "roles.csv", "roles.md", "history_entropy.png"
    }  # fmt: skip


def test_of_very_many_snapshots_some_are_taken(command, place, monkeypatch):
    monkeypatch.setattr("viz.history_cli.MOST", 3)
    status, _, said = command("--run", "run", *FEW, "--out", "some")
    assert status == 0
    assert "maps are taken from 3 of the 7 snapshots" in said
    page = (place / "some" / "history.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["training"]["series"][0]["updates"] == [0, 4, 12]
    assert len({row[0] for row in csv.reader(_rows(place / "some" / "history.csv")[1:])}) == 7


def test_a_resumed_run_goes_on_with_its_snapshots(place):
    run = place / "longer"
    shutil.copytree(place / "run", run, ignore=shutil.ignore_patterns("history*"))
    before = {p.name: p.read_bytes() for p in (run / "snapshots").iterdir()}
    assert main(["train", "--run", str(run), "--resume", "train.max_updates=17"]) == 0
    kept = Snapshots(run / "snapshots")
    assert kept.updates == [0, 1, 2, 4, 5, 10, 12, 15, 17]
    assert all((run / "snapshots" / name).read_bytes() == data for name, data in before.items())
    first, last = (AttentionMaps.layers(kept.records(u)[0], "enc")[0] for u in (12, 17))
    assert np.abs(first - last).max() > 0

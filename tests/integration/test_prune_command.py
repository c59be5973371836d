"""`seq2seq prune` as a user types it: train → curve → smaller run → everything else with it."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from seq2seq.attention_maps import AttentionMaps
from seq2seq.cli.main import main
from seq2seq.run_folder import load_run

COUNT = 24  # sentence pairs
TINY = (
    "model.d_model=32 model.d_ff=64 model.encoder_layers=2 model.decoder_layers=2 "
    "model.encoder_heads=4 model.decoder_heads=2 train.max_updates=8 train.validate_every=4 "
    "train.keep_last=2 decode.max_len_a=1 decode.max_len_b=5 device=cpu precision=fp32 "
    "--train-source text.en --train-target text.de --target-lang de"
)
GONE = ["enc.0.1", "enc.0.3", "dec.1.0", "cross.1.0", "cross.1.1"]
NAMES = ",".join(GONE)
# D = 32: heads of width 8 and 16 have 4·D·Dk + 3·Dk parameters.
SMALLER = 2 * (4 * 32 * 8 + 3 * 8) + 3 * (4 * 32 * 16 + 3 * 16)
TEXT = "number 3 is here\nnumber 7 is here\n"
PAIRS = "--source text.en --reference text.de"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with parallel text and a run trained on it."""
    folder = tmp_path_factory.mktemp("place")
    for name, line in (("text.en", "number {} is here"), ("text.de", "Nummer {} ist hier")):
        lines = [line.format(n) for n in range(COUNT)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", "train", "--name", "tiny", *TINY.split()],
        cwd=folder,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder


@pytest.fixture
def seq2seq(place, monkeypatch, capsys):
    """Run a command line in the place; returns status, stdout and stderr."""
    monkeypatch.chdir(place)

    def command(line, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(shlex.split(line))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


@pytest.fixture(scope="module")
def small(place):
    """The newest checkpoint without GONE."""
    runs = place / "runs"
    line = f"prune --run {runs}/tiny --checkpoint last --device cpu --remove {NAMES}"
    assert main([*line.split(), "--out", f"{runs}/small"]) == 0
    return runs / "small"


def rows_of(path):
    lines = path.read_text("utf-8").split("\n")
    return list(csv.DictReader(line for line in lines if line[:1] != "#"))


class TestCurve:
    ASK = "prune --run runs/tiny --device cpu --beam 1"

    def test_files_and_what_is_said(self, seq2seq, place):
        more = f"{PAIRS} --step 0.3 --seeds 2 --limit 5 --out curve --format png,svg"
        status, out, err = seq2seq(f"{self.ASK} {more}")
        assert (status, err) == (0, "")
        names = sorted(path.name for path in (place / "curve").iterdir())
        assert names == ["prune.csv", "prune.md", "prune.png", "prune.svg"]
        assert all(f"  curve/{name}" in out for name in names)
        text = (place / "curve" / "prune.csv").read_text("utf-8")
        facts = [line for line in text.split("\n") if line.startswith("#")]
        assert re.fullmatch(r"# run tiny · checkpoint step \d · weights [0-9a-f]{12}", facts[0])
        assert facts[1] == (
            "# 5 sentence pairs of text.en, greedy · importance, measured once, and quality on the "
            "same pairs"
        )
        assert re.search(r"# BLEU nrefs:1\|.*tok:13a\|", facts[-1])
        rows = rows_of(place / "curve" / "prune.csv")
        assert len(rows) == 4 * 5
        assert [row["heads_removed"] for row in rows[:5]] == ["0", "5", "10", "14", "16"]
        orders = {("importance", ""), ("reverse", ""), ("random", "1"), ("random", "2")}
        assert {(row["order"], row["seed"]) for row in rows} == orders
        run = load_run(place / "runs" / "tiny", device="cpu")
        assert int(rows[0]["parameters"]) == sum(p.numel() for p in run.model.parameters())
        removed = " ".join(row["removed_here"] for row in rows[:5]).split()
        assert len(set(removed)) == 16

    def test_the_same_command_changes_nothing_and_another_goes_elsewhere(self, seq2seq, place):
        ask = f"{self.ASK} --step 0.5 --limit 2 --order importance --split dev"
        assert seq2seq(ask)[0] == 0
        folder = place / "runs" / "tiny" / "prune"
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert set(before) == {"prune.png", "prune.csv", "prune.md"}
        assert seq2seq(ask)[0] == 0
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert seq2seq(f"{ask} --re-estimate --max-tokens 20 --step 1")[0] == 0
        text = (place / "runs" / "tiny" / "prune-2" / "prune.csv").read_text("utf-8")
        assert "importance, measured at every step, and quality" in text
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ("--step 0", "argument --step: '0' is no share above 0, up to 1"),
            ("--step much", "argument --step: 'much' is no share"),
            ("--order size", "argument --order: size is none of importance, reverse, random"),
            ("--seeds 0", "argument --seeds: '0' is no number of at least 1"),
            ("--source text.en", "--source FILE needs one --reference FILE"),
            ("--remove enc.0.1", "write a new run folder: give --out RUNS/NAME"),
            ("--share 0.5", "write a new run folder: give --out RUNS/NAME"),
            ("--remove enc.0.9 --out x", "model has no head enc.0.9: it has enc.0.0-3"),
            ("--remove 0.9 --out x", "'0.9' names no head"),
            ("--remove enc.0.1 --out runs", "runs exists already"),
            ("--remove enc.0.1 --share 1 --out x", "not allowed with argument"),
            ("--remove enc.0.1 --order random --out x", "there is no --order among"),
            ("--share 0.1 --order random,reverse --out x", "takes one --order"),
            ("--share 0.01 --out x", "--share 0.01 of the model's heads is less than one"),
            ("--share 0.1 --step 0.1 --out x", "--step and --format are for the curve"),
        ],
    )
    def test_what_cannot_be_is_one_sentence(self, seq2seq, place, arguments, message):
        status, out, err = seq2seq(f"{self.ASK} {arguments}")
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert message in err
        assert not (place / "x").exists()


class TestSmallerRun:
    def test_what_is_printed(self, seq2seq):
        status, out, err = seq2seq(
            "prune --run runs/tiny --checkpoint last --device cpu --out runs/other "
            f"--remove '{' '.join(GONE)}'"
        )
        whole = sum(p.numel() for p in load_run("runs/tiny", device="cpu").model.parameters())
        assert (status, err) == (0, "")
        assert out.split("\n")[:-1] == [
            "removed 5 heads: enc.0.1, enc.0.3, dec.1.0, cross.1.0, cross.1.1",
            f"parameters: {whole:,} before, {whole - SMALLER:,} after, {SMALLER:,} less "
            f"({SMALLER / whole:.1%})",
            "resuming: training goes on with Adam's moments of what is left",
            "run: runs/other",
        ]

    def test_it_translates_as_the_run_with_the_heads_off(self, seq2seq, small):
        ask = "translate --json --device cpu --beam 3 --run"
        status, out, _ = seq2seq(f"{ask} {small}", TEXT)
        off = f"{ask} runs/tiny --checkpoint last --without-heads {NAMES}"
        assert status == 0
        pairs = zip(out.split("\n")[:2], seq2seq(off, TEXT)[1].split("\n")[:2], strict=True)
        for one, other in (map(json.loads, pair) for pair in pairs):
            assert one["tokens"] == other["tokens"]
            assert one["token_scores"] == pytest.approx(other["token_scores"], abs=1e-4)

    def test_it_is_scored_and_evaluated(self, seq2seq, small):
        ask = f"evaluate {PAIRS} --device cpu --json --run"
        status, out, _ = seq2seq(f"{ask} {small}")
        off = seq2seq(f"{ask} runs/tiny --checkpoint last --without-heads {NAMES}")[1]
        assert status == 0
        one, other = (json.loads(text.split("\n")[-2]) for text in (out, off))
        assert one["bleu"] == other["bleu"]
        assert one["perplexity"] == pytest.approx(other["perplexity"], rel=1e-5)
        assert (small / "evaluations" / "text.en.json").exists()
        ask = f"score --run {small} --source text.en --target text.de --device cpu"
        assert seq2seq(ask)[0] == 0

    def test_pictures_name_the_heads_that_are_left(self, seq2seq, small, tmp_path):
        status, _, err = seq2seq(
            f"attention --run {small} --device cpu --text 'number 3 is here' --out {tmp_path} "
            "--figures overview,head --layers 0,1 --kinds enc,cross"
        )
        assert (status, err) == (0, "")
        maps = AttentionMaps.load(tmp_path / "attn_000.npz")
        assert maps.head_ids["enc"] == [[0, 2], [0, 1, 2, 3]]
        assert maps.head_ids["dec"] == [[0, 1], [1]]
        assert maps.head_ids["cross"] == [[0, 1], []]
        names = {path.name for path in tmp_path.iterdir()}
        assert "attn_000_enc_L0H2.png" in names
        assert "attn_000_enc_L0H1.png" not in names
        assert "attn_000_cross_overview.png" in names
        page = (tmp_path / "attn.html").read_text("utf-8")
        assert '"heads":{"enc":[[0,2],[0,1,2,3]],"dec":[],"cross":[[0,1],[]]}' in page
        assert "5 heads removed" in page

    def test_a_head_that_is_gone_cannot_be_drawn(self, seq2seq, small, tmp_path):
        status, _, err = seq2seq(
            f"attention --run {small} --device cpu --text 'number 3 is here' --out {tmp_path} "
            "--kinds cross --layers 1 --heads 0"
        )
        assert status == 2
        assert "There is no head 0: the record holds none." in err

    def test_the_report_and_its_curve(self, seq2seq, small, tmp_path):
        ask = f"--run {small} {PAIRS} --device cpu --beam 1 --out {tmp_path}"
        more = "--limit 4 --ablate loss --trials 20"
        status, _, err = seq2seq(f"heads {ask} {more}")
        assert (status, err) == (0, "")
        text = (tmp_path / "heads.csv").read_text("utf-8")
        assert "· 5 heads removed" in text
        rows = [line for line in text.split("\n") if re.match(r"(enc|dec|cross),", line)]
        assert len(rows) == 16 - len(GONE)
        assert not [row for row in rows if ".".join(row.split(",")[:3]) in GONE]
        status, _, err = seq2seq(f"prune {ask} --limit 3 --step 1 --order reverse")
        assert (status, err) == (0, "")
        assert [row["heads_removed"] for row in rows_of(tmp_path / "prune.csv")] == ["0", "11"]

    def test_it_aligns(self, seq2seq, small):
        ask = f"align --run {small} --device cpu --source text.en --target text.de --head"
        status, out, err = seq2seq(f"{ask} cross.0.1")
        assert (status, err) == (0, "")
        assert len(out.split("\n")) == COUNT + 1
        status, _, err = seq2seq(f"{ask} cross.1.1")
        assert status == 2
        assert "no head cross.1.1" in err

    def test_heads_that_are_gone_are_told(self, seq2seq, small):
        ask = f"translate --run {small} --device cpu"
        plain = seq2seq(ask, TEXT)[1]
        status, out, err = seq2seq(f"{ask} --without-heads enc.0.1", TEXT)
        assert (status, out) == (0, plain)
        told = "already removed from this model, so nothing changes for enc.0.1."
        assert err == f"warning: {told}\n"
        ask = f"prune --run {small} --device cpu --remove enc.0.1"
        status, out, err = seq2seq(f"{ask},enc.0.0 --out runs/again")
        assert status == 0
        assert "removed 1 head: enc.0.0" in out
        assert told in err
        assert load_run("runs/again", device="cpu").config.model.head_ids("enc", 0) == [2]
        status, out, _ = seq2seq(f"{ask} --out runs/same")
        assert status == 0
        assert "removed no head" in out
        same, model = (load_run(run, device="cpu").config.model for run in ("runs/same", small))
        assert same == model

    def test_it_goes_on_training_and_is_averaged(self, seq2seq, small, place):
        copy = shutil.copytree(small, place / "runs" / "longer")
        status, out, err = seq2seq(f"train --run {copy} --resume train.max_updates=16")
        assert (status, out) == (0, f"run: {copy}\n"), err
        assert load_run(copy, device="cpu", checkpoint="last").step == 16
        assert (copy / "finished.json").exists()
        status, out, err = seq2seq(f"average --run {copy} --last 2")
        assert (status, err) == (0, "")
        model = load_run(copy, device="cpu", checkpoint="average-2").config.model
        assert model.head_ids("cross", 1) == []

    def test_by_share(self, seq2seq, place):
        ask = f"prune --run runs/tiny --device cpu {PAIRS} --limit 4"
        status, out, err = seq2seq(f"{ask} --share 0.25 --out runs/quarter")
        assert (status, err) == (0, "")
        assert "removed 4 heads: " in out
        assert seq2seq(f"{ask} --order importance --step 0.25 --out quarters")[0] == 0
        rows = rows_of(place / "quarters" / "prune.csv")
        removed = load_run("runs/quarter", device="cpu").config.model.removed_heads
        assert sorted(removed) == sorted(rows[1]["removed_here"].split())
        more = "--share 0.25 --order reverse --re-estimate --out runs/r"
        status, out, err = seq2seq(f"{ask} {more}")
        assert (status, err) == (0, "")
        assert "removed 4 heads: " in out


@pytest.mark.parametrize("turned", [False, True])
def test_comparing_runs_with_different_heads(seq2seq, small, tmp_path, turned):
    one, other = (small, "runs/tiny") if turned else ("runs/tiny", small)
    ask = "attention --device cpu --text 'number 3 is here' --figures none"
    status, _, err = seq2seq(f"{ask} --run {one} --compare {other} --out {tmp_path}")
    assert (status, err) == (0, "")
    page = (tmp_path / "attn.html").read_text("utf-8")
    assert page.count('"heads":{"enc":[[0,2],') == 1
    assert page.count('"heads":{"enc":[[0,1,2,3],') == 1

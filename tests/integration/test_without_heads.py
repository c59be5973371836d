"""--without-heads: every command works as if the weights of those heads' outputs were 0."""

import io
import json
import sys

import pytest
import safetensors.torch

from seq2seq.attention_maps import AttentionMaps
from seq2seq.cli.main import main

OFF = ["--without-heads", "enc.0.1,cross.1.0,dec.0.0,dec.0.1"]
TEXT = "the small dog is old\nwe see the house\n"


@pytest.fixture
def cut_run(tiny_run):
    """The same run, with zeros in the columns of W_O that belong to the heads of OFF."""
    file = tiny_run / "step-5" / "model.safetensors"
    whole = file.read_bytes()
    weights = safetensors.torch.load_file(file)
    weights["encoder.layers.0.self_attention.w_o.weight"][:, 8:] = 0  # 2 heads of width 8
    weights["decoder.layers.1.cross_attention.w_o.weight"][:, :4] = 0  # 4 heads of width 4
    weights["decoder.layers.0.self_attention.w_o.weight"][:, :8] = 0
    cut = safetensors.torch.save(weights)
    return lambda on: file.write_bytes(cut if on else whole)


def run_command(monkeypatch, capsys, *arguments, stdin=""):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    status = main([str(argument) for argument in arguments])
    return status, capsys.readouterr()


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *arguments, stdin="": run_command(monkeypatch, capsys, *arguments, stdin=stdin)


def test_translate(command, tiny_run, cut_run):
    ask = ("translate", "--run", tiny_run, "--json", "--device", "cpu", "decode.max_len_b=4")
    _, plain = command(*ask, stdin=TEXT)
    status, off = command(*ask, *OFF, stdin=TEXT)
    cut_run(on=True)
    _, cut = command(*ask, stdin=TEXT)
    assert status == 0
    assert off.out != plain.out
    for a, b in zip(off.out.split("\n")[:-1], cut.out.split("\n")[:-1], strict=True):
        a, b = json.loads(a), json.loads(b)
        assert a["tokens"] == b["tokens"]
        assert a["token_scores"] == pytest.approx(b["token_scores"], abs=1e-5)


def test_evaluate_says_so_and_keeps_its_own_file(command, tiny_run, tmp_path):
    (tmp_path / "a.en").write_text(TEXT, encoding="utf-8")
    (tmp_path / "a.de").write_text("der kleine Hund ist alt\nwir sehen das Haus\n", "utf-8")
    ask = ("evaluate", "--run", tiny_run, "--source", tmp_path / "a.en", "--device", "cpu")
    ask = (*ask, "--reference", tmp_path / "a.de", "decode.max_len_b=4")
    _, plain = command(*ask, "--json")
    _, off = command(*ask, "--json", *OFF)
    heads = ["enc.0.1", "cross.1.0", "dec.0.0", "dec.0.1"]
    assert json.loads(off.out)["without_heads"] == heads
    assert "without_heads" not in json.loads(plain.out)
    assert json.loads(off.out)["perplexity"] != json.loads(plain.out)["perplexity"]
    assert (tiny_run / "evaluations" / "a.en.json").exists()
    assert (tiny_run / "evaluations" / "a.en.without-heads.json").exists()
    _, told = command(*ask, *OFF)
    assert "without enc.0.1, cross.1.0, dec.0.0, dec.0.1 on a.en" in told.out


def test_attention_captures_what_the_changed_model_does(command, tiny_run, tmp_path, cut_run):
    ask = ("attention", "--run", tiny_run, "--device", "cpu", "--text", "the dog is old")
    ask = (*ask, "--target", "der Hund ist alt", "--figures", "overview", "--kinds", "cross")
    status, told = command(*ask, "--out", tmp_path / "off", *OFF)
    command(*ask, "--out", tmp_path / "plain")
    cut_run(on=True)
    command(*ask, "--out", tmp_path / "cut")
    off, plain, cut = (
        AttentionMaps.load(tmp_path / name / "attn_000.npz") for name in ("off", "plain", "cut")
    )
    assert status == 0
    assert "note: heads switched off: enc.0.1, cross.1.0, dec.0.0, dec.0.1" in told.err
    assert abs(off.cross[1] - plain.cross[1]).max() > 1e-6
    assert off.cross[1] == pytest.approx(cut.cross[1], abs=1e-6)
    assert off.norms["cross"][1][0].max() == 0 < off.norms["cross"][1][1].max()
    assert off.norms["cross"][1] == pytest.approx(cut.norms["cross"][1], abs=1e-5)
    assert off.meta["without_heads"] == "enc.0.1, cross.1.0, dec.0.0, dec.0.1"
    assert off.logprob == pytest.approx(cut.logprob, abs=1e-5)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (
            "enc.0.2",
            "The model has no head enc.0.2: it has enc.0.0, enc.0.1, dec.0.0-3, dec.1.0-3, cross.0",
        ),
        ("0.2", "'0.2' names no head: write kind.layer.head such as cross.2.1"),
        (",", "No head is named"),
    ],
)
def test_a_head_that_is_none_is_one_sentence(command, tiny_run, tmp_path, heads, message):
    out = tmp_path / "out.txt"
    ask = ("translate", "--run", tiny_run, "--without-heads", heads, "--output", out)
    status, told = command(*ask, stdin=TEXT)
    assert status == 2
    assert told.err.startswith("error: ")
    assert message in told.err
    assert not out.exists()


def test_translations_from_a_file_need_no_model(command, tmp_path):
    (tmp_path / "a.de").write_text("ein Haus\n", "utf-8")
    file = tmp_path / "a.de"
    status, told = command("evaluate", "--hypotheses", file, "--reference", file, *OFF)
    assert status == 2
    assert "--without-heads changes a model" in told.err


def test_score(command, tiny_run, tmp_path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("ist das Haus alt\n", "utf-8")
    ask = ("score", "--run", tiny_run, "--source", tmp_path / "a.en", "--target", tmp_path / "a.de")
    _, plain = command(*ask)
    status, off = command(*ask, *OFF)
    assert status == 0
    assert float(off.out) != pytest.approx(float(plain.out), abs=1e-6)

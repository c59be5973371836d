"""The commands as a user types them, on a tiny corpus: train → translate → evaluate → look."""

import io
import json
import shutil
import subprocess
import sys

import pytest
import torch

from seq2seq.cli.main import main

COUNT = 24  # sentence pairs
TINY = ["model.d_model=32", "model.d_ff=64", "model.encoder_layers=2", "model.decoder_layers=2",
        "model.encoder_heads=2", "model.decoder_heads=2", "train.max_updates=8",
        "train.validate_every=4", "train.keep_last=2", "decode.max_len_a=1", "decode.max_len_b=10",
        "device=cpu", "precision=fp32"]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with parallel text in two scripts; line 3 of the source holds U+2028."""
    folder = tmp_path_factory.mktemp("place")
    sources = [f"предложение номер {n} здесь" for n in range(COUNT)]
    sources[2] = "предложение\u2028номер 2 здесь"
    targets = [f"sentence number {n} is here" for n in range(COUNT)]
    for name, lines in (("text.ru", sources), ("text.en", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(place):
    """A run trained by the command."""
    text = ["--train-source", "text.ru", "--train-target", "text.en", "--target-lang", "en"]
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", "train", "--name", "tiny", *TINY, *text],
        cwd=place,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == "run: runs/tiny\n"
    return place / "runs" / "tiny"


class Keyboard(io.TextIOWrapper):
    """A stdin that says whether somebody is typing into it."""

    def __init__(self, *arguments, typing, **options):
        super().__init__(*arguments, **options)
        self.typing = typing

    def isatty(self):
        return self.typing


@pytest.fixture
def seq2seq(place, monkeypatch, capsysbinary):
    """Run a command in the place; returns status, stdout and stderr."""
    monkeypatch.chdir(place)

    def command(*arguments, stdin: bytes = b"", typing: bool = False):
        stream = Keyboard(io.BytesIO(stdin), encoding="ascii", typing=typing)
        monkeypatch.setattr(sys, "stdin", stream)
        status = main([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return status, captured.out.decode(), captured.err.decode()

    return command


# Translating

ODD = [
    "",
    "предложение номер 5 здесь",
    " \u00a0 ",
    "слово " * 40,
    "use </s> to <pad> end\u2028x",
    "",
]


@pytest.fixture
def odd(place):
    path = place / "odd.ru"
    path.write_text("".join(f"{line}\n" for line in ODD), encoding="utf-8")
    return path


def test_line_i_of_the_output_belongs_to_line_i_of_the_input(run, odd, seq2seq):
    status, out, err = seq2seq("translate", "--run", run, "--input", odd, "decode.max_source=30")
    assert status == 0
    lines = out.split("\n")[:-1]
    assert len(lines) == len(ODD)
    assert (lines[0], lines[2], lines[5]) == ("", "", "")
    assert err.startswith("warning: ")
    assert "Line 4:" in err


def test_file_stdin_and_api_give_the_same_text(run, odd, place, seq2seq):
    from seq2seq import Translator

    status, _, _ = seq2seq("translate", "--run", run, "--input", odd, "--output", "out.en")
    assert status == 0
    by_file = (place / "out.en").read_bytes().decode()
    _, by_stdin, _ = seq2seq("translate", "--run", run, stdin=odd.read_bytes())
    texts = [t.text for t in Translator.from_pretrained(run, device="cpu").translate(ODD)]
    assert by_file == by_stdin == "".join(f"{text}\n" for text in texts)


def test_n_best_gives_a_fixed_number_of_lines(run, odd, seq2seq):
    _, best, _ = seq2seq("translate", "--run", run, "--input", odd)
    status, out, _ = seq2seq("translate", "--run", run, "--input", odd, "--n-best", 3)
    assert status == 0
    lines = out.split("\n")[:-1]
    assert len(lines) == 3 * len(ODD)
    assert lines[::3] == best.split("\n")[:-1]
    status, _, err = seq2seq("translate", "--run", run, "--input", odd, "--n-best", 9)
    assert status == 2
    assert "n_best=9 is more than decode.beam=5" in err


def test_json_gives_an_object_a_line_with_scores_that_add_up(run, odd, seq2seq):
    _, plain, _ = seq2seq("translate", "--run", run, "--input", odd)
    status, out, _ = seq2seq(
        *("translate", "--run", run, "--input", odd, "--json", "--n-best", 2, "--alpha", 0)
    )
    assert status == 0
    found = [json.loads(line) for line in out.split("\n")[:-1]]
    assert len(found) == len(plain.split("\n")) - 1 == len(ODD)
    for one in found:
        assert len(one["tokens"]) == len(one["token_scores"])
        assert one["score"] == pytest.approx(sum(one["token_scores"]), abs=1e-3)
        assert one["n_best"][0]["text"] == one["text"]


def test_settings_of_search_have_an_effect(run, odd, seq2seq):
    def output(*settings):
        status, out, _ = seq2seq(*("translate", "--run", run, "--input", odd, "--json", *settings))
        assert status == 0
        return out

    plain = output()
    assert output("decode=greedy") == output("--beam", 1) == output("decode.beam=1")
    assert output("--alpha", 0) != plain
    assert output("decode.max_len_a=0", "decode.max_len_b=3") != plain
    assert output("decode=sample") == output("decode=sample")
    assert output("decode=sample") != output("decode=sample", "decode.seed=2")


def test_a_long_input_is_translated_in_blocks_to_the_same_text(run, odd, seq2seq, monkeypatch):
    from seq2seq.cli import translate

    _, whole, _ = seq2seq("translate", "--run", run, "--input", odd)
    monkeypatch.setattr(translate, "BLOCK", 4)
    status, blocks, _ = seq2seq("translate", "--run", run, "--input", odd)
    assert (status, blocks) == (0, whole)


def test_somebody_typing_gets_an_answer_to_every_line(run, odd, seq2seq):
    _, whole, _ = seq2seq("translate", "--run", run, "--input", odd)
    status, typed, _ = seq2seq("translate", "--run", run, stdin=odd.read_bytes(), typing=True)
    assert (status, typed) == (0, whole)


def test_an_input_without_lines_gives_none(run, seq2seq):
    assert seq2seq("translate", "--run", run, stdin=b"")[:2] == (0, "")
    status, out, _ = seq2seq("translate", "--run", run, stdin=b"\n")
    assert (status, out) == (0, "\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "missing.ru"], "--input: missing.ru does not exist"),
        (["--input", "text.ru", "--output", "text.ru"], "is the input itself"),
        (["--checkpoint", "step-7"], "has no checkpoint step-7; there are: step-4, step-8"),
        (["--device", "cuda:99"], "device=cuda:99 is not available"),
        (["decode.baem=1"], "did you mean decode.beam?"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments, message, run, seq2seq):
    status, out, err = seq2seq("translate", "--run", run, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_text_that_is_not_utf8_names_the_line_and_leaves_no_half_output(run, place, seq2seq):
    (place / "latin1.txt").write_bytes(b"a\nb\xfcr\n")
    status, _, err = seq2seq(
        *("translate", "--run", run, "--input", "latin1.txt", "--output", "half.txt")
    )
    assert status == 2
    assert "latin1.txt, line 2, byte 2: not UTF-8" in err
    assert not (place / "half.txt").exists()


# Evaluating


def test_evaluating_a_split_keeps_the_translations_and_scores(run, place, seq2seq):
    status, out, _ = seq2seq("evaluate", "--run", "runs/tiny", "--split", "dev", "--json")
    assert status == 0
    found = json.loads(out.strip().split("\n")[-1])
    assert found["n"] == 1  # 5 % of 24
    assert found["bleu"]["signature"].startswith("nrefs:1|")
    assert found["perplexity"] > 1
    assert found["synthetic"] is False
    assert (found["run"], found["split"], found["step"]) == ("runs/tiny", "dev", found["step"])
    kept = run / "evaluations"
    assert json.loads((kept / "dev.json").read_text(encoding="utf-8"))["bleu"] == found["bleu"]
    assert len((kept / "dev.hyp.txt").read_text(encoding="utf-8").split("\n")) == 2


def test_evaluating_own_files_equals_translating_and_scoring_them(run, place, seq2seq):
    own = ["--source", "text.ru", "--reference", "text.en", "--beam", 1, "--json"]
    status, out, _ = seq2seq("evaluate", "--run", run, *own)
    assert status == 0
    found = json.loads(out)
    assert found["n"] == COUNT
    assert found["decode"]["beam"] == 1
    seq2seq("translate", "--run", run, "--input", "text.ru", "--output", "hyp.en", "--beam", 1)
    kept = (run / "evaluations" / "text.ru.hyp.txt").read_bytes()
    assert (place / "hyp.en").read_bytes() == kept
    _, out, _ = seq2seq(
        *("evaluate", "--hypotheses", "hyp.en", "--reference", "text.en"),
        *("--target-lang", "en", "--json"),
    )
    alone = json.loads(out)
    for metric in ("bleu", "chrf", "ter", "exact_match"):
        assert alone[metric] == found[metric]
    _, out, err = seq2seq("score", "--run", run, "--source", "text.ru", "--target", "text.en")
    assert len(out.split("\n")) == COUNT + 1
    assert f"perplexity = {found['perplexity']:.3f} ({COUNT} pairs)" in err


def test_several_references_are_used(run, place, seq2seq):
    (place / "other.en").write_text("x\n" * COUNT, encoding="utf-8")
    _, out, _ = seq2seq(
        *("evaluate", "--hypotheses", "text.en", "--reference", "other.en"),
        *("--reference", "text.en", "--target-lang", "en"),
    )
    assert "BLEU = 100.0" in out
    assert "nrefs:2|" in out


def test_scores_stand_beside_where_they_come_from(run, seq2seq):
    _, out, _ = seq2seq("evaluate", "--run", "runs/tiny", "--split", "test")
    assert out.startswith("runs/tiny (best, step ")
    assert "BLEU = " in out
    assert "tok:13a" in out
    assert "kept: runs/tiny/evaluations/test.json" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give --run RUN, or --hypotheses"),
        (["--run", "runs/tiny", "--source", "text.ru"], "--source needs --reference"),
        (["--run", "runs/tiny", "--reference", "text.en"], "--reference needs --source"),
        (["--run", "runs/tiny", "--split", "dev", "--reference", "x"], "leave out --source"),
        (["--run", "runs/tiny", "--split", "tets"], "There is no split 'tets'"),
        (["--hypotheses", "short.en", "--reference", "text.en"], f"{COUNT}"),
        (["--run", "runs/tiny", "--source", "short.en", "--reference", "text.en"], f"{COUNT}"),
    ],
)
def test_evaluations_that_make_no_sense_are_refused(arguments, message, run, place, seq2seq):
    (place / "short.en").write_text("one\n", encoding="utf-8")
    status, _, err = seq2seq("evaluate", *arguments)
    assert status == 2
    assert message in err


def test_comparing_two_systems(run, place, seq2seq):
    seq2seq("evaluate", "--run", "runs/tiny", "--source", "text.ru", "--reference", "text.en")
    arguments = ["--reference", "text.en", "--target-lang", "en", "--resamples", 100]
    status, out, _ = seq2seq("compare", "runs/tiny", "text.en", "--split", "text.ru", *arguments)
    assert status == 0
    assert "bleu: b is better" in out
    _, out, _ = seq2seq("compare", "text.en", "text.en", *arguments, "--json")
    found = json.loads(out)
    assert found["bleu"]["better"] is None
    assert found["bleu"]["p_value"] == 1.0
    seq2seq("evaluate", "--run", "runs/tiny", "--split", "dev")
    status, out, _ = seq2seq("compare", "runs/tiny", "runs/tiny", "--split", "dev")
    assert status == 0
    assert "bleu: no difference beyond chance" in out


def test_comparisons_that_make_no_sense_are_refused(run, seq2seq):
    status, _, err = seq2seq("compare", "text.en", "text.en")
    assert (status, "Give --reference FILE" in err) == (2, True)
    status, _, err = seq2seq("compare", "runs/tiny", "text.en", "--split", "train")
    assert (status, "was not evaluated on train" in err) == (2, True)


def test_runs_with_different_test_sets_are_not_compared(run, place, seq2seq):
    shutil.copytree(run, place / "runs" / "other", dirs_exist_ok=True)
    config = place / "runs" / "other" / "config.json"
    other = json.loads(config.read_text(encoding="utf-8"))
    other["data"]["split_seed"] += 1
    config.write_text(json.dumps(other), encoding="utf-8")
    seq2seq("evaluate", "--run", "runs/tiny", "--split", "dev")
    status, _, err = seq2seq("evaluate", "--run", "runs/other", "--split", "dev")
    assert (status, "might hold pairs that the model has seen" in err) == (2, True)
    (place / "runs" / "other" / "corpus.json").unlink()  # as if trained on another division
    seq2seq("evaluate", "--run", "runs/other", "--split", "dev")
    status, _, err = seq2seq("compare", "runs/tiny", "runs/other", "--split", "dev")
    assert (status, "dev sets of the two runs differ" in err) == (2, True)


def test_scoring_says_how_likely_each_token_is(run, place, seq2seq):
    status, out, _ = seq2seq(
        *("score", "--run", run, "--source", "text.ru", "--target", "text.en", "--json")
    )
    assert status == 0
    found = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [one["target"] for one in found] == (
        (place / "text.en").read_text(encoding="utf-8").split("\n")[:-1]
    )
    for one in found:
        assert len(one["tokens"]) == len(one["token_scores"])
        assert one["score"] == pytest.approx(sum(one["token_scores"]))
    (place / "short.en").write_text("one\n", encoding="utf-8")
    status, _, err = seq2seq("score", "--run", run, "--source", "text.ru", "--target", "short.en")
    assert status == 2
    assert f"{COUNT} lines" in err


# Checkpoints


def test_averaging_makes_a_checkpoint_that_the_other_commands_take(run, seq2seq):
    from safetensors.torch import load_file

    status, out, _ = seq2seq("average", "--run", "runs/tiny", "--last", 2)
    assert (status, out) == (0, "runs/tiny/average-2\n")
    steps = [load_file(run / f"step-{n}" / "model.safetensors") for n in (4, 8)]
    mean = load_file(run / "average-2" / "model.safetensors")
    assert mean.keys() == steps[0].keys()
    for name, weights in mean.items():
        expected = (steps[0][name].double() + steps[1][name].double()) / 2
        assert torch.equal(weights, expected.float())
    status, _, _ = seq2seq(
        *("translate", "--run", run, "--checkpoint", "average-2", "--input", "text.ru")
    )
    assert status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--last", 3], "has 2 checkpoints (step-4, step-8)"),
        (["--last", 0], "--last 0"),
        (["--last", 2, "--out", "../x"], "must be a plain name"),
        (["--last", 2, "--out", "best"], "must be a plain name"),
        (["--last", 2, "--out", "samples"], "exists already"),
    ],
)
def test_averages_that_cannot_be_are_refused(arguments, message, run, seq2seq):
    status, _, err = seq2seq("average", "--run", run, *arguments)
    assert status == 2
    assert message in err
    assert sorted(p.name for p in run.glob(".*")) == []


def test_resuming_goes_on_from_the_last_checkpoint(run, place, seq2seq):
    status, out, _ = seq2seq(
        *("train", "--name", "tiny", "--resume", "train.max_updates=10", "threads=1")
    )
    assert status == 0
    assert out.endswith("run: runs/tiny\n")
    assert json.loads((run / "last.json").read_text(encoding="utf-8")) == {"step": 10}


def test_unequal_files_leave_no_run_behind(place, seq2seq):
    (place / "short.en").write_text("one\n" * 19, encoding="utf-8")
    files = ["--train-source", "text.ru", "--train-target", "short.en"]
    status, _, err = seq2seq("train", "--name", "off", *files, *TINY)
    assert status == 2
    assert "24 lines" in err
    assert "19" in err
    assert not (place / "runs" / "off").exists()


def test_one_pair_is_enough(place, seq2seq):
    (place / "one.ru").write_text("предложение\n", encoding="utf-8")
    (place / "one.en").write_text("sentence\n", encoding="utf-8")
    files = ["--train-source", "one.ru", "--train-target", "one.en"]
    status, out, _ = seq2seq("train", "--name", "one", *files, *TINY)
    assert status == 0
    assert out.endswith("run: runs/one\n")


# Looking


def test_every_head_becomes_a_picture(run, place, seq2seq):
    status, _, err = seq2seq(
        *("attention", "--run", run, "--text", "предложение номер 5", "--out", "maps")
    )
    assert status == 0, err
    assert len(list((place / "maps").rglob("*.png"))) >= 3
    assert len(list((place / "maps").rglob("*.npz"))) == 1

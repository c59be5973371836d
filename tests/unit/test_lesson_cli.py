"""`seq2seq lesson`: what it prints, writes, refuses; the page without a browser."""

from __future__ import annotations

import csv
import json
import re
from html import escape
from html.parser import HTMLParser

import pytest
import torch
from attention_samples import SENTENCES, make_run

from seq2seq.cli.main import main
from seq2seq.config_file import load_config, save_config
from seq2seq.errors import UserError
from seq2seq.lesson.runs import load_runs
from viz import lesson_cli, lesson_train
from viz.lesson_files import files
from viz.lesson_page import html
from viz.lesson_parts import PARTS, Built, Wishes, build, possible

WITHOUT_RUNS = ("shapes", "worked", "mask", "cross", "parameters", "complexity")


@pytest.fixture
def lesson(tmp_path, monkeypatch, capsys):
    """Run the command in a folder of its own; returns stdout."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        assert main(["lesson", *map(str, words)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.en").write_text("".join(f"{s}\n" for s, _ in SENTENCES), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{t}\n" for _, t in SENTENCES), encoding="utf-8")
    return ["--source", folder / "a.en", "--reference", folder / "a.de", "--device", "cpu"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of as many heads, which differ in their seed."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("a", 1), ("b", 2)):
        make_run(folder / name)
        config = load_config(folder / name / "config.json")
        config.seed = seed
        save_config(config, folder / name / "config.json")
    return folder


@pytest.fixture(scope="module")
def built():
    torch.set_num_threads(1)
    return [build(name, Wishes(d_model=16, length=4, counts=(1, 2))) for name in WITHOUT_RUNS]


def test_the_whole_lesson(lesson, tmp_path):
    out = lesson("--d-model", 16, "--length", 4, "--heads", "1,2")
    folder = tmp_path / "lesson"
    assert "lesson/lesson.html" in out
    assert "0.6697615493266569" in out
    wanted = {"lesson.html", "lesson.txt", "shapes.csv", "worked.csv", "worked_scaling.csv"}
    wanted |= {"mask.csv", "cross.csv", "parameters.csv", "complexity_entries.csv"}
    wanted |= {"complexity_heads.csv", "complexity_length.csv"}
    assert {p.name for p in folder.iterdir()} == wanted
    assert (folder / "lesson.txt").read_text("utf-8").split("\n\nseq2seq ")[0] in out


def test_a_second_time_changes_nothing_and_another_lesson_goes_elsewhere(lesson, tmp_path):
    lesson("worked", "--formats", "png,pdf")
    folder = tmp_path / "lesson"
    names = {"lesson.html", "lesson.txt", "worked.csv", "worked_scaling.csv"}
    assert {p.name for p in folder.iterdir()} == names | {"lesson_worked.png", "lesson_worked.pdf"}
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}
    lesson("worked", "--formats", "png,pdf")
    assert before == {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}
    other = lesson("parameters", "--out", "lesson")
    assert "lesson-2/lesson.html" in other
    assert before["lesson.html"][0] == (folder / "lesson.html").read_bytes()


def test_csv_says_where_it_comes_from(lesson, tmp_path):
    lesson("parameters", "--d-model", 24, "--heads", "1,3", "--out", "here")
    lines = (tmp_path / "here" / "parameters.csv").read_text("utf-8").split("\n")
    assert lines[0].startswith("# seq2seq ")
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [row["total"] for row in rows] == ["1800", "2400", "2400"]


@pytest.mark.parametrize("name", WITHOUT_RUNS)
def test_one_part_is_printed_and_nothing_is_written(lesson, tmp_path, name):
    out = lesson(name, "--d-model", 16, "--length", 4, "--heads", "1,2")
    assert out.startswith("== ")
    assert out.count("\n== ") == 0
    assert list(tmp_path.iterdir()) == []


def test_usual_numbers_of_heads_that_do_not_divide_are_left_out(lesson):
    out = lesson("parameters", "--d-model", 12)
    assert "h = 1, 2, 4: 432 = 3 · d_model²" in out


def test_parts_come_in_the_order_of_the_lesson(lesson):
    out = lesson("parameters", "shapes", "worked", "--heads", "1,2", "--d-model", 16)
    titles = re.findall("^== (.*)$", out, re.MULTILINE)
    assert [title.split()[0] for title in titles] == ["Shapes:", "A", "What"]
    assert lesson_cli.NAMES == PARTS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["workd"], "no part 'workd': did you mean worked?"),
        (["xyz"], "no part 'xyz': there are shapes"),
        (["heads"], "give --run RUN"),
        (["single"], "give --runs A B"),
        (["sweep"], "give --runs A B"),
        (["seeds"], "give --runs A B"),
        (["optim.lr=1"], "goes with --train"),
        (["--train", "--runs", "a", "b"], "leave out --runs"),
        (["worked", "--train"], "for the parts single and sweep"),
        (["--train", "--heads", "2"], "at least two"),
        (["mask", "--text", " "], "--text is blank"),
        (["mask", "--text", "A dog."], "give --run RUN"),
        (["--source", "a"], "needs --reference"),
        (["--formats", "gif"], "gif is none of png, svg, pdf"),
        (["--heads", "0"], "no number of at least 1"),
        (["--heads", ","], "no number of at least 1"),
        (["complexity", "--heads", "3"], "does not divide --d-model 512"),
        (["parameters", "--heads", "3"], "does not divide --d-model 512"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=re.escape(message)):
        lesson_cli.lesson(words)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_looked_into(lesson, runs, text):
    out = lesson("heads", "mask", "cross", "--run", runs / "a", "--text", SENTENCES[0][0], *text)
    assert out.count("run a · checkpoint step 7 · weights ") == 3
    assert "3 sentence pairs of a.en" in out
    assert "✓ Every head of the decoder obeys the mask" in out
    assert "✓ Keys and values come from the encoder" in out


def pruned(runs, folder, heads):
    """The folder of run a without some heads."""
    assert main(["prune", "--run", str(runs / "a"), "--remove", heads, "--out", str(folder)]) == 0
    return folder


def test_a_run_without_heads_in_some_layers(lesson, runs, text, tmp_path, capsys):
    few = ["enc.0.0,enc.0.1,enc.0.2,enc.0.3", "dec.0.0,dec.0.1", "cross.0.0,cross.0.1"]
    run = pruned(runs, tmp_path / "some", ",".join(few))
    capsys.readouterr()
    options = ["--run", run, "--text", SENTENCES[0][0], *text]
    out = lesson("mask", "cross", *options, "--out", tmp_path / "lesson")
    assert "nan" not in out
    assert "✓ The encoder has no such rule" in out
    assert "over 4 heads: 0" in out
    assert "in layer 1 keys move by" in out
    assert "✗" not in out
    page = (tmp_path / "lesson" / "lesson.html").read_text("utf-8")
    assert "Decoder self-attention, layer 1, every head" in page
    assert "Cross-attention, layer 1, every head" in page


@pytest.mark.parametrize(("part", "kind"), [("mask", "dec"), ("cross", "cross")])
def test_a_run_without_any_head_of_a_kind(lesson, runs, text, tmp_path, part, kind):
    heads = ",".join(f"{kind}.{layer}.{head}" for layer in range(3) for head in range(2))
    run = pruned(runs, tmp_path / "none", heads)
    with pytest.raises(UserError, match=r"run none has no heads of .* left"):
        lesson_cli.lesson([part, "--run", str(run), "--text", SENTENCES[0][0], *map(str, text)])


def test_two_seeds(lesson, runs, tmp_path, text):
    out = lesson("seeds", "--runs", runs / "a", runs / "b", *text, "--out", "lesson")
    assert "Roles emerge" in out
    page = (tmp_path / "lesson" / "lesson.html").read_text("utf-8")
    assert 'id="fig-seeds"' in page
    rows = (tmp_path / "lesson" / "seeds.csv").read_text("utf-8").split("\n")
    assert len([row for row in rows if row and not row.startswith("#")]) == 1 + 8 + 6 + 6


def test_which_parts_need_what(runs):
    assert possible(Wishes()) == list(WITHOUT_RUNS)
    a, b = load_runs([runs / "a", runs / "b"], device="cpu")
    assert "heads" in possible(Wishes(run=a))
    assert set(possible(Wishes(runs=(a, b)))) == {*WITHOUT_RUNS, "seeds"}
    for heads in (1, 2):
        other = load_runs([runs / "b"], device="cpu")[0]
        other.config.model.encoder_heads = heads
        a = (a, other) if heads == 1 else (*a, other)
        assert "single" in possible(Wishes(runs=a))
    assert "sweep" in possible(Wishes(runs=a))


def test_training_single_and_sweep_on_files(lesson, tmp_path, text):
    settings = ["model.d_model=8", "model.d_ff=8", "model.encoder_layers=1", "threads=1"]
    settings += ["model.decoder_layers=1", "train.max_updates=2", "train.validate_every=1"]
    settings += ["tokenizer.kind=char", "data.dev_size=1", "device=cpu", "precision=fp32"]
    pairs = "".join(f"w{i} {i}\tv{i} {i}\n" for i in range(60))
    (tmp_path / "t.tsv").write_text(pairs, encoding="utf-8")
    settings += ["data.train_tsv=t.tsv", "decode.max_len_b=3"]
    words = ["--train", "--heads", "1,2", *settings, *text, "--text", "w1 1"]
    out = lesson("single", *words)
    assert "1 head against 2 heads, both 8 wide" in out
    runs = [tmp_path / "lesson" / "runs" / f"heads-{n}" for n in (1, 2)]
    configs = [json.loads((run / "config.json").read_text("utf-8")) for run in runs]
    assert [c["model"]["encoder_heads"] for c in configs] == [1, 2]
    assert [c["model"]["decoder_heads"] for c in configs] == [1, 2]
    assert configs[0]["seed"] == configs[1]["seed"]
    assert configs[0]["train"] == configs[1]["train"]
    stamps = [(run / "finished.json").stat().st_mtime_ns for run in runs]
    again = lesson("single", *words)  # reads what is there
    assert stamps == [(run / "finished.json").stat().st_mtime_ns for run in runs]
    assert again.split("page to open")[0] == out.split("page to open")[0]
    with pytest.raises(UserError, match=r"another seed: give another --out"):
        lesson_cli.lesson(list(map(str, ["single", *words, "seed=3"])))
    (runs[1] / "finished.json").unlink()
    with pytest.raises(UserError, match="did not finish"):
        lesson_cli.lesson(list(map(str, ["single", *words])))


def test_training_on_the_grammar_unless_the_reader_says(tmp_path):
    plan = lesson_train._plan(tmp_path, 2, ["train.max_updates=7", "model.d_model=32"])
    assert (plan.data.kind, plan.train.max_updates, plan.model.d_model) == ("grammar", 7, 32)
    assert plan.train.max_minutes is None  # equal budgets are equal numbers of updates
    assert (plan.model.encoder_heads, plan.model.decoder_heads) == (2, 2)
    own = lesson_train._plan(tmp_path, 2, ["data.train_source=a", "data.train_target=b"])
    assert own.data.kind == "files"
    chosen = lesson_train._plan(tmp_path, 2, ["experiment=multi30k", "data.root=x"])
    assert chosen.data.kind == "multi30k"


class Page(HTMLParser):
    """Collects what the page refers to, its ids, and its images' texts."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.alts, self.styled = [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [found[name] for name in ("src", "href") if found.get(name)]
        self.ids += [found["id"]] if "id" in found else []
        self.alts += [found.get("alt")] if tag == "img" else []
        self.styled += "style" in found


def test_the_page_needs_nothing_from_elsewhere(built):
    page = html([section_of(one) for one in built], ["facts"])
    found = Page(page)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert {link[1:] for link in found.links if link[0] == "#"} <= set(found.ids)
    assert len(set(found.ids)) == len(found.ids)
    assert found.alts
    assert all(found.alts)
    assert found.styled == 0  # the policy forbids style attributes
    assert "default-src 'none'" in page
    assert page == html([section_of(one) for one in built], ["facts"])


def section_of(one: Built):
    from viz.lesson_page import Section
    from viz.report import Picture
    from viz.style import render

    pictures = [Picture(d.name, render(d.figure, "svg"), d.caption) for d in one.drawn]
    return Section(one.part, pictures, one.lab)


def test_every_claim_stands_on_the_page_with_its_number(built):
    content = files(built, ["facts"])
    page = content["lesson.html"].decode("utf-8")
    for claim in (claim for one in built for claim in one.part.claims):
        assert page.count(f">{escape(claim.says)}<") == 2  # on its card, and in the table of all
    assert '<td data-v="0.6697615493266569">0.6698</td>' in page
    assert page.count('<td data-v="0.6697615493266569">') == 2 * 2 * 2 + 2 * 4  # a, twice a matrix

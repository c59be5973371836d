from __future__ import annotations

import shutil

import pytest
from attention_samples import SENTENCES, make_record, make_run
from test_viz_page import Parsed, long_record

from seq2seq.analysis.tables import Column, HeadTable
from seq2seq.errors import UserError
from viz.binder import Binder, place_page
from viz.cli import attention
from viz.page import html, shell

SOURCE, TARGET = SENTENCES[1]
SHELL_MB = sum(len(part) for part in shell()) / 1e6


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    return str(make_run(tmp_path_factory.mktemp("runs") / "tiny"))


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> str:
    return str(make_run(tmp_path_factory.mktemp("runs") / "other"))


def page_of(folder) -> dict:
    return Parsed((folder / "attn.html").read_text("utf-8")).data


def test_one_page_for_all_sentences(tmp_path) -> None:
    binder = Binder(tmp_path)
    assert binder.add(make_record()) == []
    assert binder.add(make_record(seed=1)) == []
    assert binder.finish() == [tmp_path / "attn.html"]
    assert binder.finish() == []
    text = (tmp_path / "attn.html").read_text("utf-8")
    assert text == html([make_record(), make_record(seed=1)])


def test_a_full_page_is_written_and_the_next_begun(tmp_path) -> None:
    records = [long_record(20, seed=seed) for seed in range(5)]
    binder = Binder(tmp_path, max_mb=SHELL_MB + 0.05)
    written = [path for maps in records for path in binder.add(maps)] + binder.finish()
    assert len(written) > 1
    assert [path.name for path in written[:2]] == ["attn.html", "attn_2.html"]
    counts = [len(Parsed(path.read_text("utf-8")).data["records"]) for path in written]
    assert sum(counts) == 5
    assert all(path.stat().st_size <= (SHELL_MB + 0.05) * 1e6 for path in written)
    alone = Binder(tmp_path, max_mb=SHELL_MB + 0.001)
    alone.add(records[0])
    with pytest.raises(UserError, match="fewer or shorter sentences"):
        alone.finish()


def test_pages_are_never_written_over(tmp_path) -> None:
    assert place_page(tmp_path / "new", "a").name == "attn.html"
    assert place_page(tmp_path / "new", "b").name == "attn_2.html"
    assert place_page(tmp_path / "new", "a").name == "attn.html"
    assert (tmp_path / "new" / "attn.html").read_text("utf-8") == "a"
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="file"):
        place_page(tmp_path / "file", "a")


def test_the_command_writes_the_page_beside_the_pictures(run, tmp_path, capsys) -> None:
    given = ["--run", run, "--text", SOURCE, "--target", TARGET, "--figures", "none"]
    attention([*given, "--out", str(tmp_path), "--level", "word", "--special", "mute"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["attn.html", "attn_000.npz"]
    assert "page to open in a browser:\n  " in capsys.readouterr().out
    data = page_of(tmp_path)
    chosen = {"level": "word", "special": "mute"}
    usual = {"scale": "auto", "weight": "alpha", "theme": "auto", "labels": "auto"}
    assert data["start"] == chosen | usual
    (facts,) = data["records"]
    assert facts["text"] == {"source": SOURCE, "target": TARGET}
    assert facts["name"] == "tiny · step 7"
    assert "target given" in facts["provenance"]
    attention([*given, "--out", str(tmp_path / "b"), "--no-page"])
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["attn_000.npz"]


def test_the_page_holds_the_kinds_layers_and_heads_asked_for(run, tmp_path) -> None:
    given = ["--run", run, "--text", SOURCE, "--target", TARGET, "--figures", "none"]
    chosen = ["--kinds", "cross", "--layers", "0,2", "--heads", "1"]
    attention([*given, *chosen, "--out", str(tmp_path)])
    (facts,) = page_of(tmp_path)["records"]
    assert facts["layers"] == {"enc": [], "dec": [], "cross": [0, 2]}
    assert facts["heads"]["cross"] == [[1], [1]]


def test_comparison_with_another_sentence_and_another_run(run, other, tmp_path) -> None:
    given = ["--run", run, "--text", SOURCE, "--target", TARGET, "--figures", "none"]
    attention([*given, "--compare", "It was slow.", "--out", str(tmp_path / "a")])
    data = page_of(tmp_path / "a")
    assert data["paired"]
    assert [facts["text"]["source"] for facts in data["records"]] == [SOURCE, "It was slow."]
    attention([*given, "--compare", other, "--out", str(tmp_path / "b")])
    first, second = page_of(tmp_path / "b")["records"]
    assert (first["name"], second["name"]) == ("tiny · step 7", "other · step 7")
    assert first["tokens"] == second["tokens"]
    (tmp_path / "in").write_text(f"{SOURCE}\nIt was ready.\n", encoding="utf-8")
    lines = ["--run", run, "--input", str(tmp_path / "in"), "--figures", "none"]
    attention([*lines, "--compare", other, "--out", str(tmp_path / "c")])
    names = [facts["name"].split()[0] for facts in page_of(tmp_path / "c")["records"]]
    assert names == ["tiny", "other", "tiny", "other"]


def test_comparison_with_another_checkpoint(run, tmp_path) -> None:
    """Also of the same run: a step folder stands for the run with these weights."""
    later = tmp_path / "later"
    shutil.copytree(run, later)
    shutil.copytree(later / "step-7", later / "step-9")
    given = ["--run", run, "--text", SOURCE, "--target", TARGET, "--figures", "none"]
    attention([*given, "--compare", str(later / "step-9"), "--out", str(tmp_path / "a")])
    first, second = page_of(tmp_path / "a")["records"]
    assert (first["name"], second["name"]) == ("tiny · step 7", "later · step 9")
    (tmp_path / "pictures").mkdir()
    with pytest.raises(UserError, match=r"--compare: .*pictures is no run folder"):
        attention([*given, "--compare", str(tmp_path / "pictures"), "--out", str(tmp_path / "b")])


def test_a_table_of_heads_can_be_joined(run, tmp_path) -> None:
    from seq2seq.analysis.head_id import HeadId

    table = HeadTable([Column("effect")], {HeadId("cross", 2, 1): {"effect": 0.5}})
    (tmp_path / "heads.csv").write_text(table.to_csv(), encoding="utf-8")
    given = ["--run", run, "--text", SOURCE, "--target", TARGET, "--figures", "none"]
    attention([*given, "--join", str(tmp_path / "heads.csv"), "--out", str(tmp_path / "o")])
    assert page_of(tmp_path / "o")["statistics"] == {"effect": {"cross.2.1": 0.5}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--compare", "runs/none"], "no run folder runs/none"),
        (["--compare", " "], "--compare is empty"),
        (["--compare", "It was.", "--no-page"], "--compare is for the page"),
        (["--join", "none.csv"], r"--join: none\.csv cannot be read"),
    ],
)
def test_mistakes_are_told(run, tmp_path, arguments, words) -> None:
    given = ["--run", run, "--text", SOURCE, "--target", TARGET, "--out", str(tmp_path / "o")]
    with pytest.raises(UserError, match=words):
        attention([*given, *arguments])
    assert not (tmp_path / "o").exists()


def test_a_sentence_to_compare_with_goes_with_one_sentence(run, tmp_path) -> None:
    (tmp_path / "in").write_text(f"{SOURCE}\n", encoding="utf-8")
    given = ["--run", run, "--input", str(tmp_path / "in"), "--out", str(tmp_path / "o")]
    with pytest.raises(UserError, match="goes with --text"):
        attention([*given, "--compare", "It was slow."])

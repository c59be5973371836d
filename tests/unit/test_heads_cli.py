"""`seq2seq heads`, from run folder to report."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser

import pytest
from attention_samples import SENTENCES, make_run

from seq2seq.analysis.frequency import ranks, read_frequencies
from seq2seq.analysis.intervene import all_heads
from seq2seq.analysis.survey import Options, piece_ranks, survey, usable
from seq2seq.analysis.tables import read_table
from seq2seq.cli.main import main
from seq2seq.errors import UserError
from seq2seq.run_folder import load_run

FILES = {
    "heads.csv",
    "heads.html",
    "heads.md",
    "rollout.csv",
    "similarity_cross.csv",
    "similarity_dec.csv",
    "similarity_enc.csv",
}


@pytest.fixture(scope="module", autouse=True)
def few_training_sentences():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viz.heads_data.SAMPLE", 300)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run folder (encoder 2 × 4 heads, decoder 3 × 2) and parallel text with a blank line."""
    folder = tmp_path_factory.mktemp("heads")
    make_run(folder / "run")
    pairs = [*SENTENCES, ("", "nichts"), (" ".join(["the"] * 90), "die")]
    (folder / "a.en").write_text("".join(f"{s}\n" for s, _ in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{t}\n" for _, t in pairs), encoding="utf-8")
    return folder


@pytest.fixture
def command(place, monkeypatch, capsys):
    """Run the command in the place, on its text; returns status, stdout and stderr."""
    monkeypatch.chdir(place)
    text = ["--run", "run", "--device", "cpu", "--source", "a.en", "--reference", "a.de"]

    def run(*arguments):
        status = main(["heads", *text, "--max-tokens", "80", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def whole(place):
    """One report with everything in it."""
    arguments = ["--run", place / "run", "--source", place / "a.en", "--reference", place / "a.de"]
    more = ["--max-tokens", "80", "--ablate", "loss,bleu", "--trials", "20", "--beam", "1"]
    status = main(["heads", *map(str, arguments), *more, "--out", str(place / "whole"),
                   "--format", "png", "--device", "cpu"])  # fmt: skip
    assert status == 0
    return place / "whole"


def test_the_files_of_a_report(whole):
    names = {path.name for path in whole.iterdir()}
    assert names >= FILES
    pictures = {"importance", "loss_change", "bleu_change", "layers", "rollout", "map",
                "similarity_enc"}  # fmt: skip
    assert {f"heads_{name}.png" for name in pictures} <= names
    assert (whole / "heads_map.png").read_bytes()[:4] == b"\x89PNG"


def test_the_table_has_a_row_for_each_head_and_says_where_it_comes_from(whole, place):
    text = (whole / "heads.csv").read_text(encoding="utf-8")
    table = read_table(text, "heads.csv")
    run = load_run(place / "run", device="cpu")
    assert table.heads == all_heads(run.model)
    facts = "\n".join(table.facts)
    assert re.search(r"run run · checkpoint step 7 · weights [0-9a-f]{12}", facts)
    assert "3 sentence pairs of a.en, targets given" in facts
    assert "left out: 1 with a blank side" in facts
    assert "left out: 1 longer than 80 tokens" in facts
    assert "loss of the whole model" in facts
    assert "BLEU of the whole model" in facts
    assert "tok:13a" in facts
    for name in (
        "entropy",
        "added",
        "importance",
        "nearest_js",
        "loss_change",
        "loss_p_holm",
        "bleu_p",
    ):
        assert set(table.values(name)) == set(table.heads)
    assert text.split("\n")[0].startswith("# run run")
    assert (whole / "heads.md").read_text(encoding="utf-8").startswith("run run · checkpoint")


def test_the_matrix_of_divergences(whole):
    lines = (whole / "similarity_dec.csv").read_text(encoding="utf-8").split("\n")
    assert lines[0].startswith("# run run")
    rows = list(csv.reader(line for line in lines if line and line[0] != "#"))
    assert rows[0] == [
        "JS [nats]",
        "dec.0.0",
        "dec.0.1",
        "dec.1.0",
        "dec.1.1",
        "dec.2.0",
        "dec.2.1",
    ]
    assert [row[0] for row in rows[1:]] == rows[0][1:]
    values = [[float(cell) for cell in row[1:]] for row in rows[1:]]
    assert all(values[i][j] == values[j][i] for i in range(6) for j in range(6))
    assert [values[i][i] for i in range(6)] == [0.0] * 6


def test_what_positions_may_hold(whole, place):
    """The file is the mean over the very pairs of the table."""
    run = load_run(place / "run", device="cpu")
    lines = (whole / "rollout.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# run run")
    rows = [row for row in csv.reader(lines) if len(row) == 4 and row[0] in ("enc", "dec", "cross")]
    assert len(rows) == 2 * 4 + 3 * 4 + 3 * 3
    expected = survey(run.model, run.tokenizer, SENTENCES).shares.shares()
    for kind, layer, part, share in rows:
        assert float(share) == pytest.approx(expected[kind, int(layer)][part], abs=1e-5)
    sums = {place: sum(parts.values()) for place, parts in expected.items()}
    assert list(sums.values()) == pytest.approx([1.0] * 8)


class Page(HTMLParser):
    """What a page refers to, and its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.alts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        found = dict(attrs)
        self.links += [found[name] for name in ("src", "href") if name in found]
        if tag == "img":
            self.alts.append(found["alt"])


def test_the_page_needs_nothing_else(whole, place):
    text = (whole / "heads.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("img") >= 10
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    assert "://" not in re.sub(r'base64,[^"]*', "", text)
    assert all(page.alts)
    assert "<<" not in text.split("<script>")[0]
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    assert len(text) < 4e6
    run = load_run(place / "run", device="cpu")
    for head in all_heads(run.model):
        assert f'<th scope="row">{head}</th>' in text


def test_hostile_names_stay_text(place):
    from head_tables import make_distances, make_table

    from viz.report_files import files

    table = make_table()
    table = type(table)(table.columns, table.rows, ["<script>alert(1)</script> & <<rows>> $x$"])
    page = files(table, make_distances(), title="<img src=x onerror=alert(1)>")["heads.html"]
    text = page.decode("utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;&lt;rows&gt;&gt;" in text
    assert "<img src=x" not in text


def test_the_same_command_changes_nothing_and_another_takes_another_folder(command, place):
    ask = ("--out", "twice")
    status, out, _ = command(*ask)
    assert status == 0
    assert "twice/heads.html" in out
    before = {path: path.stat().st_mtime_ns for path in (place / "twice").iterdir()}
    assert {path.name for path in before} == FILES
    assert command(*ask)[1] == out
    assert {path: path.stat().st_mtime_ns for path in (place / "twice").iterdir()} == before
    _, out, _ = command(*ask, "--special-rows")
    assert "twice-2/heads.html" in out
    assert {path: path.stat().st_mtime_ns for path in (place / "twice").iterdir()} == before
    first, second = ((place / n / "heads.csv").read_text("utf-8") for n in ("twice", "twice-2"))
    assert "rows of words" in first
    assert "all rows" in second
    a, b = (read_table(text, "x").values("rows") for text in (first, second))
    assert all(b[head] == a[head] + 3 for head in a)  # one </s> or <s> for each of 3 sentences


def test_other_tables_stand_beside(command, place):
    (place / "trace.csv").write_text(
        "# traced\nkind,layer,head,effect [share]\nenc,1,2,0.75\n", "utf-8"
    )
    status, _, _ = command("--join", "trace.csv", "--out", "joined", "--format", "svg")
    assert status == 0
    table = read_table((place / "joined" / "heads.csv").read_text(encoding="utf-8"), "x")
    assert {str(h): v for h, v in table.values("effect").items()} == {"enc.1.2": 0.75}
    assert "traced" in table.facts
    assert (place / "joined" / "heads_effect.svg").exists()
    text = (place / "joined" / "heads.html").read_text(encoding="utf-8")
    assert 'data-name="effect"' in text
    assert '<td data-v="0.75">0.750</td>' in text


def test_a_table_with_other_heads_off_is_refused(command, place):
    (place / "off.csv").write_text(
        "# without enc.0.1\nkind,layer,head,effect\nenc,1,2,0.7\n", "utf-8"
    )
    status, _, told = command("--join", "off.csv", "--out", "refused")
    assert status == 2
    assert "off.csv was measured with other heads off (enc.0.1) than here (none)" in told
    assert not (place / "refused").exists()


def test_of_a_trace_effects_are_shown_and_the_verdict_rests_on_them(command, place):
    header = "kind,layer,head,effect,effect_low,flips,subject_effect"
    (place / "probes.csv").write_text(f"{header}\nenc,1,2,0.75,0.7,0.9,0.2\n", "utf-8")
    status, _, _ = command("--join", "probes.csv", "--out", "told")
    assert status == 0
    table = read_table((place / "told" / "heads.csv").read_text(encoding="utf-8"), "x")
    (verdict,) = (text for text in table.texts("verdict").values() if text)
    assert verdict.endswith("carries the answer 0.75, subject 0.20")
    text = (place / "told" / "heads.html").read_text(encoding="utf-8")
    assert re.search(r'<th scope="col" data-name="subject_effect"', text)
    assert re.search(r'<th scope="col" class="more" data-name="effect_low"', text)


def test_trees_give_syntactic_roles(monkeypatch, place):
    """Trees are found by the text of the line, whatever their order, and may be of some lines."""
    words = SENTENCES[1][0].rstrip(".").split()  # The database rejected the request
    rows = [("The", 2, "det"), ("database", 3, "nsubj"), ("rejected", 0, "root"),
            ("the", 5, "det"), ("request", 3, "obj"), (".", 3, "punct")]  # fmt: skip
    assert [word for word, _, _ in rows][:5] == words
    lines = [f"{i}\t{w}\t_\t_\t_\t_\t{h}\t{r}\t_\t_" for i, (w, h, r) in enumerate(rows, 1)]
    (place / "a.conllu").write_text("\n".join(lines) + "\n", "utf-8")
    source = place / "many.en"
    source.write_text(f"{SENTENCES[1][0]}\n" * 30 + f"{SENTENCES[0][0]}\n", "utf-8")
    (place / "many.de").write_text("Die Datenbank.\n" * 31, "utf-8")
    monkeypatch.chdir(place)
    files = ["--source", "many.en", "--reference", "many.de", "--deps", "a.conllu"]
    options = ["--run", "run", "--device", "cpu", "--role-syntactic", "-2", "--out", "parsed"]
    assert main(["heads", *files, *options]) == 0
    text = (place / "parsed" / "relations.csv").read_text(encoding="utf-8")
    assert "links of 30 of 31 sentences by a.conllu" in text
    found = list(csv.DictReader(line for line in text.split("\n") if line and line[0] != "#"))
    assert {row["link"] for row in found} == {"nsubj→head", "head→nsubj", "obj→head", "head→obj"}
    assert {row["links"] for row in found} == {"30"}
    table = read_table((place / "parsed" / "heads.csv").read_text(encoding="utf-8"), "x")
    roles = table.texts("roles")  # all of them, for the margin is none
    assert all(("nsubj→head" in text) == (head.kind == "enc") for head, text in roles.items())
    assert len(table.values("syntactic")) == 8


def test_trees_of_other_sentences_are_refused(command, place):
    (place / "other.conllu").write_text("1\tNo\t_\t_\t_\t_\t0\troot\t_\t_\n", "utf-8")
    status, _, error = command("--deps", "other.conllu", "--out", "never")
    assert status == 2
    assert "other.conllu holds no tree of any of the 3 sentences" in error


def test_rare_words_are_those_of_a_list_or_of_the_training_text(command, place, monkeypatch):
    monkeypatch.setattr("seq2seq.analysis.statistics.COMMON", 3)
    (place / "freq.tsv").write_text("the 90\nroad 50\nwas 40\nanimal 7\nrequest 1\n", "utf-8")
    run = load_run(place / "run", device="cpu")
    counts = read_frequencies(place / "freq.tsv", run.tokenizer, "--freq")
    expected = survey(run.model, run.tokenizer, SENTENCES, Options(ranks=ranks(counts))).table
    for name, options in (("listed", ["--freq", "freq.tsv"]), ("unlisted", [])):
        status, _, _ = command(*options, "--out", name)
        assert status == 0
        table = read_table((place / name / "heads.csv").read_text(encoding="utf-8"), "x")
        fact = "rarity by freq.tsv" if options else "rarity by the first 300 training sentences"
        assert fact in table.facts
        same = table.values("rare") == pytest.approx(expected.values("rare"))
        assert same == bool(options)
    assert expected.values("rare")


def test_numbers_of_other_weights_do_not_stand_beside(command, place):
    (place / "old.csv").write_text("# weights abc123abc123\nkind,layer,head,effect\n", "utf-8")
    status, _, error = command("--join", "old.csv", "--out", "never")
    assert status == 2
    assert "old.csv is about other weights (abc123abc123) than this report (" in error
    assert not (place / "never").exists()


def test_heads_can_be_surveyed_with_others_off(command, place):
    command("--out", "on")
    status, _, _ = command("--out", "off", "--without-heads", "enc.0.1,cross.2.0")
    assert status == 0
    on, off = (read_table((place / n / "heads.csv").read_text("utf-8"), n) for n in ("on", "off"))
    assert "without cross.2.0" in off.facts
    for name in ("enc.0.0", "enc.0.1"):  # what comes before the gap looks as before
        head = next(h for h in on.heads if str(h) == name)
        assert off.rows[head]["entropy"] == pytest.approx(on.rows[head]["entropy"])
    later = [h for h in on.heads if h.place == ("enc", 1)]
    assert any(abs(off.rows[h]["entropy"] - on.rows[h]["entropy"]) > 1e-4 for h in later)
    head = next(h for h in on.heads if str(h) == "enc.0.1")
    assert (off.rows[head]["importance"], on.rows[head]["importance"] > 0) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ablate", "chrf"], "chrf is none of loss, bleu"),
        (["--format", "gif"], "gif is none of png, svg, pdf"),
        (["--limit", "0"], "'0' is no number of at least 1"),
        (["--join", "missing.csv"], "--join: missing.csv cannot be read"),
        (["--all-but-one"], "give --ablate loss, too"),
        (["--max-tokens", "1"], "None of the 5 sentence pairs has text on both sides"),
        (["--without-heads", "enc.9.9"], "The model has no head enc.9.9"),
        (["--reference", "a.de"], "needs one --reference FILE"),
    ],
)
def test_what_cannot_be_is_one_sentence(command, arguments, message):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_the_rarest_pieces_are_the_last_of_the_vocabulary(place):
    tokenizer = load_run(place / "run", device="cpu").tokenizer
    ranks = piece_ranks(tokenizer)
    assert len(ranks) == tokenizer.source_vocab - 4
    assert sorted(ranks.values()) == list(range(len(ranks)))
    assert "</s>" not in ranks


def test_pairs_that_can_be_used(place):
    tokenizer = load_run(place / "run", device="cpu").tokenizer
    pairs = [("the", "die"), (" ", "die"), ("the " * 30, "die")]
    assert usable(tokenizer, pairs, 20) == (
        pairs[:1], ["left out: 1 with a blank side", "left out: 1 longer than 20 tokens"]
    )  # fmt: skip
    with pytest.raises(UserError, match="None of the 2"):
        usable(tokenizer, pairs[1:], 20)


def test_a_survey_leaves_the_model_as_it_was_and_tells_progress(place):
    run = load_run(place / "run", device="cpu")
    run.model.train()
    told = []
    found = survey(run.model, run.tokenizer, SENTENCES, progress=lambda *n: told.append(n))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert run.model.training
    assert found.table.heads == all_heads(run.model)
    again = survey(run.model, run.tokenizer, SENTENCES)
    assert again.table.rows == found.table.rows
    with pytest.raises(UserError, match="no sentence pair"):
        survey(run.model, run.tokenizer, [])

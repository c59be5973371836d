"""The reference probe on planted weights, and the command around it."""

import csv
import io
import shutil
from types import SimpleNamespace

import pytest
import torch
from attention_samples import make_model, make_run

from seq2seq.analysis import study
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.minimal_pair import both_ways, places, word_pieces
from seq2seq.analysis.probe import (
    FIRST,
    IT,
    PREDICATE,
    PRONOUN,
    SECOND,
    preferences,
    pronoun_pairs,
)
from seq2seq.analysis.tables import read_table
from seq2seq.cli.main import main
from seq2seq.config import RunConfig
from seq2seq.data.grammar import minimal_pairs
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.errors import UserError
from viz.trace_cli import trace

COUNT = 40
ORACLE, RIVAL, POSITION, UNIFORM = (HeadId("enc", 0, head) for head in range(4))


@pytest.fixture(scope="module")
def tokenizer():
    config = RunConfig().tokenizer
    config.vocab_size = 700  # so small that words fall into pieces
    sentences = [member for pair in minimal_pairs(3 * COUNT) for member in pair]
    return train_tokenizer(
        config, [pair.source for pair in sentences], [pair.target for pair in sentences]
    )


@pytest.fixture(scope="module")
def pairs(tokenizer):
    found = pronoun_pairs(tokenizer, minimal_pairs(10 * COUNT), COUNT)
    assert len(found) == COUNT
    return found


def test_places_hold_the_words_that_they_are_named_for(tokenizer, pairs):
    for pair in pairs:
        a, b = ([*map(str.lower, text.rstrip(".").split())] for text in pair.text)
        assert spelled(tokenizer.source_pieces(pair.contrast.source), pair.source[IT]) == "it"
        for ids, text in ((pair.contrast.source, a), (pair.contrast.other, b)):
            pieces = tokenizer.source_pieces(ids)
            assert spelled(pieces, pair.source[PREDICATE]) == text[-1]
            assert spelled(pieces, pair.source[FIRST]) == text[1]
            assert spelled(pieces, pair.source[SECOND]) == text[text.index("it") - 2]


def spelled(pieces, at):
    return "".join(pieces[place] for place in at).replace("▁", "").lower()


def test_target_places_are_those_of_the_nouns_and_of_the_row_before_the_pronoun(tokenizer):
    truth = minimal_pairs(10 * COUNT)
    for pair in pronoun_pairs(tokenizer, truth, COUNT):
        a, b = next(both for both in truth if both[0].source == pair.text[0])
        read = tokenizer.target_pieces(pair.contrast.target_in)
        for name, member in ((FIRST, a), (SECOND, b)):
            link = next(li for li in member.links if (li.kind, li.side) == ("antecedent", "target"))
            words = member.target.replace(",", " ,").split()
            noun = "".join(words[link.head - 1 : link.head + 1])  # with its article
            assert spelled(read, pair.target[name]) == noun.lower()
        assert pair.target[PRONOUN] == [len(read) - 1]
        assert pair.contrast.token != pair.contrast.other_token


def test_every_position_has_one_place(pairs):
    for pair in pairs:
        everywhere = sorted(at for positions in pair.source.values() for at in positions)
        assert everywhere == list(range(len(pair.contrast.source)))
    both = places(pairs)
    assert len(both["source"][IT]) == len(both_ways(pairs)) == 2 * len(pairs)


def test_oracle_is_always_right_and_position_in_no_pair(tokenizer, pairs, monkeypatch):
    model = make_model(tokenizer)
    plant(monkeypatch, model, pairs)
    table = preferences(model, pairs)
    right, both = table.values("right"), table.values("right_pairs")
    assert (right[ORACLE], both[ORACLE]) == (1, 1)
    assert (right[RIVAL], both[RIVAL]) == (0, 0)
    assert (right[POSITION], both[POSITION]) == (0.5, 0)
    assert right[UNIFORM] <= 0.5  # what prefers neither noun is not right
    assert both[UNIFORM] == 0
    assert table.values("antecedent")[ORACLE] == pytest.approx(0.9)
    assert table.values("rival")[RIVAL] == pytest.approx(0.9)
    assert table.texts("looks_at")[ORACLE] == "antecedent 0.90"
    assert table.texts("looks_at")[POSITION].startswith(("antecedent 0.", "rival 0."))
    low, high = table.values("right_low")[ORACLE], table.values("right_high")[ORACLE]
    assert 0.8 < low < high == 1


def plant(monkeypatch, model, pairs):
    """Encoder layer 0 knows, errs, takes the nearest noun, looks everywhere; others are 0."""
    nouns = {}
    for pair in pairs:
        nouns[tuple(pair.contrast.source)] = (pair, FIRST, SECOND)
        nouns[tuple(pair.contrast.other)] = (pair, SECOND, FIRST)

    def weights(source, target_in):
        (rows, s), t = source.shape, target_in.shape[1]
        planted = torch.zeros(rows, 4, s, s)
        for row, ids in enumerate(source.tolist()):
            pair, right, wrong = nouns[tuple(i for i in ids if i)]
            spare = len(pair.contrast.source) - 1  # the end of sentence takes the rest
            for head, name in enumerate((right, wrong, SECOND)):
                at = pair.source[name]
                planted[row, head, :, at] = 0.9 / len(at)
                planted[row, head, :, spare] += 0.1
            planted[row, 3] = 1 / (spare + 1)
        zeros = {"dec": torch.zeros(rows, 2, t, t), "cross": torch.zeros(rows, 2, t, s)}
        return SimpleNamespace(
            encoder=[planted, torch.zeros_like(planted)],
            decoder=[zeros["dec"]] * 3,
            cross=[zeros["cross"]] * 3,
        )

    monkeypatch.setattr(model, "attention_weights", weights)


def test_blind_rules_are_stated(tokenizer, pairs):
    (fact,) = preferences(make_model(tokenizer), pairs).facts
    assert "the nearest noun is right in 0.50 of the sentences and 0 of the pairs" in fact


@pytest.mark.parametrize(
    ("pieces", "words", "expected"),
    [
        (["▁The", "▁c", "at", "."], ["The", "cat", "."], [[0], [1, 2], [3]]),
        (["▁", "The", "▁cat"], ["The", "cat"], [[1], [2]]),
        (["▁The", "<unk>"], ["The", "☃"], None),
    ],
)
def test_pieces_of_words(pieces, words, expected):
    assert word_pieces(pieces, words) == expected


# --- the command ---------------------------------------------------------------------------------

GIVEN = [
    *("--text", "The animal crossed the road.", "--target", "Die Datenbank"),
    *("--other", "The database rejected the request.", "--other-target", "Das Tier"),
]


def test_two_sentences_give_tables_and_a_sentence(tmp_path, capsys):
    run = str(make_run(tmp_path / "demo"))
    assert trace(["--run", run, *GIVEN]) == 0
    shown = capsys.readouterr().out
    assert "decides" in shown.split("\n")[0]
    folder = tmp_path / "demo" / "trace"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {"trace.md", "heads.csv", "places.csv", "pairs.csv"} <= set(before)
    table = before["heads.csv"].decode("utf-8")
    assert "# run demo · checkpoint step 7 · weights " in table
    assert "# A: The animal crossed the road. → Die Datenbank" in table
    rows = list(csv.reader(io.StringIO(table[table.index("kind,") :])))
    assert len(rows) == 1 + 2 * 4 + 3 * 2 + 3 * 2
    assert trace(["--run", run, *GIVEN]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def untrained(tmp_path, tokenizer, monkeypatch):
    """A run that no one trained; leaning the right way counts as right."""
    leaning = lambda runs: (runs.before.delta > runs.goal.delta + 0.003).tolist()  # noqa: E731
    monkeypatch.setattr("seq2seq.analysis.study.is_right", leaning)
    monkeypatch.setattr("seq2seq.analysis.study.LEAST", 1)
    monkeypatch.setattr("seq2seq.analysis.study.POOL", 5)
    monkeypatch.setattr("viz.trace_cli.LEAST_PAIRS", 1)
    monkeypatch.setattr("viz.trace_cli.SENTENCES", 5)
    monkeypatch.setattr("attention_samples.make_tokenizer", lambda: tokenizer)
    return make_run(tmp_path / "demo")


def test_the_probe_writes_every_table(untrained, capsys):
    command = ["--run", str(untrained), "--probe", "it", "--pairs", "20", "--split", "train"]
    assert trace(command) == 0
    shown = capsys.readouterr().out
    assert "decides “it”" in " ".join(shown.split())
    assert max(map(len, shown.split("\n\n")[0].split("\n"))) <= 80
    folder = untrained / "trace"
    names = {path.name for path in folder.iterdir()}
    assert {"heads.csv", "places.csv", "pairs.csv", "links.csv", "probes.csv", "trace.csv"} <= names
    table = read_table((folder / "heads.csv").read_text(encoding="utf-8"), "heads.csv")
    assert "pairs of the embedded grammar (train, synthetic), both ways" in table.facts[2]
    for name in ("effect", "flips", "gradient", "token_change", "beyond_others", "right_pairs"):
        assert len(table.values(name)) == 20
    page = (folder / "trace.md").read_text(encoding="utf-8")
    assert page.count("\n## ") == 5


def test_all_probes_stand_side_by_side(untrained, monkeypatch, capsys):
    """What cannot be asked is said, and does not keep the others from being asked."""
    builtin = study.builtin

    def but_object(model, tokenizer, name, count, split):
        if name == "object":
            raise UserError("The model has none of them right.")
        return builtin(model, tokenizer, name, count, split)

    monkeypatch.setattr(study, "builtin", but_object)
    assert trace(["--run", str(untrained), "--probe", "--pairs", "8", "--split", "train"]) == 0
    shown = capsys.readouterr().out
    assert "Not asked: The model has none of them right." in shown
    assert max(map(len, shown[: shown.index("\nit: ")].split("\n"))) <= 80
    folder = untrained / "trace"
    rows = list(csv.DictReader(uncommented(folder / "probes.csv")))
    asked = ["it", "subject", "adjective", "particle"]
    assert [row["probe"] for row in rows] == asked
    heads = 2 * 4 + 3 * 2 + 3 * 2
    every = list(csv.DictReader(uncommented(folder / "trace.csv")))
    assert [row["probe"] for row in every] == [name for name in asked for _ in range(heads)]
    table = read_table((folder / "heads.csv").read_text(encoding="utf-8"), "heads.csv")
    for row in every:
        name = "effect" if row["probe"] == "it" else f"{row['probe']}_effect"
        head = HeadId(row["kind"], int(row["layer"]), int(row["head"]))
        assert table.values(name)[head] == pytest.approx(float(row["effect"]))
    for row in rows:
        mine = [each for each in every if each["probe"] == row["probe"]]
        best = max(mine, key=lambda each: float(each["effect"]))
        assert row["strongest"] == f"{best['kind']}.{best['layer']}.{best['head']}"
        assert row["effect"] == best["effect"]
    assert {row["probe"] for row in csv.DictReader(uncommented(folder / "places.csv"))} == {*asked}


def uncommented(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


def test_several_runs_say_what_is_stable(untrained, monkeypatch, capsys):
    """Two copies of one run: all ways are taken by both, or by none."""
    twin = untrained.with_name("twin")
    shutil.copytree(untrained, twin)
    monkeypatch.setattr("seq2seq.analysis.study.PROBES", ("it", "subject"))
    both = ["--run", str(untrained), "--run", str(twin), "--probe", "--pairs", "8"]
    assert trace([*both, "--split", "train"]) == 0
    shown = capsys.readouterr().out
    assert "run 1: demo\nrun 2: twin\n" in shown
    rows = list(csv.DictReader(uncommented(untrained / "stability" / "stability.csv")))
    assert rows
    assert {row["asked"] for row in rows} == {"2"}
    assert {row["taken"] for row in rows} <= {"0", "2"}
    assert all(row["effect demo"] == row["effect twin"] for row in rows)
    assert not (untrained / "trace").exists()
    page = (untrained / "stability" / "stability.md").read_text(encoding="utf-8")
    assert "\n## demo\n" in page
    assert "\n## twin\n" in page


def test_a_probe_that_is_named_and_cannot_be_asked_is_an_error(untrained, monkeypatch):
    monkeypatch.setattr("seq2seq.analysis.study.LEAST", 200)
    with pytest.raises(UserError, match="larger tokenizer"):
        trace(["--run", str(untrained), "--probe", "adjective", "--pairs", "6"])
    with pytest.raises(UserError, match="larger tokenizer"):
        trace(["--run", str(untrained), "--probe", "--pairs", "6"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Give two sentences"),
        (["--text", "a"], "Give two sentences"),
        (["--probe", "--text", "a"], "or --probe alone"),
        (["--text", "a", "--other", "b", "--target", "c"], "go together"),
        (["--text", "a", "--other", "a", "--target", "c", "--other-target", "d"], "are the same"),
        (["--text", "a", "--other", "b", "--target", "c", "--other-target", "c"], "same transl"),
        (["--probe", "--pairs", "39"], "39 are too few"),
        (["--probe", "it", "--pairs", "40"], "larger tokenizer"),
        (["--run", "other", "--text", "a", "--other", "b"], "compared on probes alone"),
        (["--run", "other", "--probe", "--without-heads", "enc.0.0"], "compared on probes alone"),
        (["--probe", "it,its"], "no probe 'its': choose it, subject, object, adjective, particle"),
        (["--text", "a", "--other", "b", "--without-heads", "enc.9.9"], "has no head enc.9.9"),
    ],
)
def test_refusals_are_one_sentence(tmp_path, options, message):
    run = str(make_run(tmp_path / "demo"))
    with pytest.raises(UserError, match=message) as caught:
        trace(["--run", run, *options])
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:No installed font")
@pytest.mark.parametrize("text", ["", " ", "☃ 中文 \u202e", "The " * 30])
def test_any_two_sentences_work_or_are_refused(tmp_path, text):
    run = str(make_run(tmp_path / "demo"))
    status = main(["trace", "--run", run, "--text", text, "--other", "The dog."])
    assert status in (0, 2)  # 2: one sentence on stderr, never a traceback

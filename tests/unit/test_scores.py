"""What is printed, what goes into the JSON, and that no evaluation is overwritten."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from seq2seq.errors import UserError
from seq2seq.scores import Comparison, Difference, Score, Scores, save_evaluation

SCORES = Scores(
    metrics={
        "bleu": Score(34.46, "nrefs:1|tok:13a", 33.0, 35.96),
        "ter": Score(50.0, "tok:tercom"),
    },
    n=2,
    exact_match=0.5,
    confidence=0.95,
    resamples=1000,
    seed=12345,
    tokenizer="13a",
    notes=["look at this"],
)
LINES = ["eins\u2028zwei", ""]


class TestShown:
    def test_lines_hold_score_interval_signature_and_notes(self):
        assert str(SCORES).split("\n") == [
            "BLEU = 34.5 [33.0, 36.0]  nrefs:1|tok:13a",
            "TER = 50.0  tok:tercom",
            "exact match = 50.0 % of 2",
            "note: look at this",
        ]

    def test_perplexity_where_given(self):
        assert "perplexity = 5.250" in str(dataclasses.replace(SCORES, perplexity=5.25))

    def test_json_keys(self):
        found = SCORES.to_dict()
        assert found["bleu"] == {
            "score": 34.46,
            "signature": "nrefs:1|tok:13a",
            "low": 33.0,
            "high": 35.96,
        }
        assert found["ter"]["low"] is None
        assert found["signatures"] == {"bleu": "nrefs:1|tok:13a", "ter": "tok:tercom"}
        assert (found["n"], found["confidence"], found["exact_match"]) == (2, 0.95, 0.5)
        assert found["notes"] == ["look at this"]
        assert "perplexity" not in found
        assert "chrf" not in found

    def test_json_is_strict_even_for_an_infinite_perplexity(self):
        endless = dataclasses.replace(SCORES, perplexity=math.inf).to_dict()
        assert json.loads(json.dumps(endless, allow_nan=False))["perplexity"] is None
        assert dataclasses.replace(SCORES, perplexity=2.0).to_dict()["perplexity"] == 2.0

    def test_metrics_by_name(self):
        assert SCORES.bleu.value == 34.46
        assert SCORES.ter.value == 50.0
        with pytest.raises(KeyError):
            _ = SCORES.chrf


class TestComparison:
    @pytest.mark.parametrize(
        ("metric", "delta", "p_value", "better"),
        [
            ("bleu", 2.0, 0.01, "b"),
            ("bleu", -2.0, 0.01, "a"),
            ("ter", 2.0, 0.01, "a"),
            ("ter", -2.0, 0.01, "b"),
            ("bleu", 2.0, 0.05, None),
            ("bleu", 0.0, 0.01, None),
        ],
    )
    def test_better(self, metric, delta, p_value, better):
        difference = Difference(30.0, 30.0 + delta, delta, delta - 1, delta + 1, p_value, "sig")
        found = Comparison(
            metrics={metric: difference}, n=5, resamples=10, seed=1, tokenizer="13a", notes=["n"]
        )
        assert found.better(metric) == better
        said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert said[metric] == dataclasses.asdict(difference) | {"better": better}
        assert said["n"] == 5
        first, note = str(found).split("\n")
        assert f"b - a = {delta:+.2f}" in first
        assert first.endswith("sig")
        assert note == "note: n"


class TestSave:
    def test_files(self, tmp_path):
        saved = save_evaluation(tmp_path / "new", "test", LINES, SCORES, {"seconds": 1.5})
        assert saved.hypotheses == tmp_path / "new" / "test.hyp.txt"
        assert saved.hypotheses.read_bytes() == "eins\u2028zwei\n\n".encode()
        assert json.loads(saved.scores.read_text("utf-8")) == SCORES.to_dict() | {"seconds": 1.5}
        assert sorted(p.name for p in saved.scores.parent.iterdir()) == [
            "test.hyp.txt",
            "test.json",
        ]

    def test_same_evaluation_keeps_its_name(self, tmp_path):
        first = save_evaluation(tmp_path, "test", LINES, SCORES, {"seconds": 1.5})
        assert save_evaluation(tmp_path, "test", LINES, SCORES, {"seconds": 2.5}) == first

    @pytest.mark.parametrize(
        ("lines", "scores", "extra"),
        [
            (["anders", ""], SCORES, None),
            (LINES, dataclasses.replace(SCORES, confidence=0.9), None),
            (LINES, SCORES, {"beam": 5}),
        ],
    )
    def test_another_evaluation_gets_another_name(self, tmp_path, lines, scores, extra):
        first = save_evaluation(tmp_path, "test", LINES, SCORES)
        before = [path.read_bytes() for path in first]
        second = save_evaluation(tmp_path, "test", lines, scores, extra)
        assert second.scores.name == "test-2.json"
        assert second.hypotheses.name == "test-2.hyp.txt"
        assert [path.read_bytes() for path in first] == before
        third = save_evaluation(tmp_path, "test", ["drei", "vier"], SCORES)
        assert third.scores.name == "test-3.json"

    @pytest.mark.parametrize("content", ["{", "[1]", "null", ""])
    def test_a_file_that_is_no_evaluation_is_left_alone(self, tmp_path, content):
        (tmp_path / "test.json").write_text(content, "utf-8")
        assert save_evaluation(tmp_path, "test", LINES, SCORES).scores.name == "test-2.json"
        assert (tmp_path / "test.json").read_text("utf-8") == content

    def test_an_interrupted_save_is_completed(self, tmp_path):
        save_evaluation(tmp_path, "test", LINES, SCORES).scores.unlink()
        assert save_evaluation(tmp_path, "test", LINES, SCORES).scores.name == "test.json"

    @pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "/a"])
    def test_name_must_be_plain(self, tmp_path, name):
        with pytest.raises(UserError, match="plain file name"):
            save_evaluation(tmp_path, name, LINES, SCORES)

    def test_lines_must_be_those_scored_and_unbroken(self, tmp_path):
        with pytest.raises(UserError, match="of 2 hypotheses, but 1 "):
            save_evaluation(tmp_path, "test", ["eins"], SCORES)
        with pytest.raises(UserError, match="Hypothesis 2 holds a line break"):
            save_evaluation(tmp_path, "test", ["eins", "zwei\ndrei"], SCORES)
        assert list(tmp_path.iterdir()) == []

    def test_folder_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("x", "utf-8")
        with pytest.raises(UserError, match="cannot be saved"):
            save_evaluation(tmp_path / "file", "test", LINES, SCORES)

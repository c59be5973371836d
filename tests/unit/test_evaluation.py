"""Scores against hand-derived values, brute force, and the sacrebleu command on the same files."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from seq2seq.errors import UserError
from seq2seq.evaluation import check_counts, compare, evaluate, perplexity

TEXT = "der die das Haus Hund Mann läuft steht rot, blau. alt! neu? und im (Park) zum Fluss"
WORDS = TEXT.split()


def sentences(n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 14))) for _ in range(n)]


def worsened(lines: list[str], rate: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(WORDS) if rng.random() < rate else w for w in line.split())
        for line in lines
    ]


def command(folder: Path, hyps: list[str], refs: list[list[str]], *flags: str) -> dict[str, dict]:
    """What the sacrebleu command says of these lines, by metric name in small letters."""
    paths = [folder / f"{i}.txt" for i in range(len(refs) + 1)]
    for path, lines in zip(paths, [hyps, *refs], strict=True):
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    run = [sys.executable, "-m", "sacrebleu", *map(str, paths[1:]), "-i", str(paths[0])]
    run += ["-m", "bleu", "chrf", "ter", "--chrf-word-order", "2", "-f", "json", "-w", "9", *flags]
    said = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    return {entry["name"].lower().replace("2++", ""): entry for entry in said}


class TestAgainstTheCommand:
    def test_two_references_with_intervals(self, tmp_path):
        refs = [sentences(60, 1), worsened(sentences(60, 1), 0.3, 2)]
        hyps = worsened(refs[0], 0.4, 3)
        said = command(tmp_path, hyps, refs, "--confidence", "--confidence-n", "200")
        scores = evaluate(hyps, refs, target_lang="de", resamples=200)
        for name, score in scores.metrics.items():
            assert score.value == pytest.approx(said[name]["score"], abs=1e-6)
            assert score.signature == said[name]["signature"]
            half = said[name]["confidence_var"]
            assert (score.high - score.low) / 2 == pytest.approx(half, abs=1e-4)
            assert score.low < score.value < score.high

    def test_chinese(self, tmp_path):
        refs = [["我喜欢在公园里散步。", "这只猫 2 岁了，很可爱。", "他昨天买了一本新书。"]]
        hyps = ["我喜欢在公园里跑步。", "这只狗 2 岁了，很可爱。", "他买了一本书。"]
        flags = ["--tokenize", "zh", "--ter-normalized", "--ter-asian-support"]
        said = command(tmp_path, hyps, refs, *flags)
        scores = evaluate(hyps, refs, target_lang="zh", resamples=0)
        for name, score in scores.metrics.items():
            assert score.value == pytest.approx(said[name]["score"], abs=1e-6)
            assert score.signature == said[name]["signature"]
        assert "|tok:zh|" in scores.bleu.signature
        assert 0 < scores.ter.value < 50  # characters are counted, not one word a line

    def test_blanks_around_lines_and_odd_line_separators(self, tmp_path):
        refs = [
            ["ein alter Mann geht heim  ", "\u2028zwei Hunde laufen im Park", "", "das ist gut"]
        ]
        hyps = ["ein alter Mann geht\tweg", "zwei Hunde\u2028laufen weg ", "leer", ""]
        said = command(tmp_path, hyps, refs)
        scores = evaluate(hyps, refs, target_lang="de", resamples=0)
        assert scores.n == 4
        for name, score in scores.metrics.items():
            assert score.value == pytest.approx(said[name]["score"], abs=1e-6)


class TestValues:
    def test_by_hand(self):
        # n-gram precisions 4/5, 3/4, 2/3, 1/2: their product is 1/5. One substitution in 5 words.
        scores = evaluate(["a b c d e"], [["a b c d f"]], target_lang="de", resamples=0)
        assert scores.bleu.value == pytest.approx(100 * 0.2**0.25)
        assert scores.ter.value == pytest.approx(20.0)
        assert scores.exact_match == 0.0

    def test_brevity_penalty_by_hand(self):
        scores = evaluate(["a b c d"], [["a b c d e f"]], target_lang="de", resamples=0)
        assert scores.bleu.value == pytest.approx(100 * math.exp(1 - 6 / 4))

    def test_chrf_by_hand(self):
        # Characters "ab" and "ac": orders 1 and 2; words: order 1. Precision = recall = F of the
        # mean over the three orders that exist: (1/2 + 0 + 0) / 3.
        scores = evaluate(["ab"], [["ac"]], target_lang="de", resamples=0, metrics=["chrf"])
        assert scores.chrf.value == pytest.approx(100 / 6)
        assert list(scores.metrics) == ["chrf"]

    def test_equal_to_the_reference(self):
        lines = sentences(20, 5)
        scores = evaluate(lines, [lines], target_lang="de", resamples=20)
        assert scores.bleu.value == pytest.approx(100)
        assert scores.chrf.value == pytest.approx(100)
        assert scores.ter.value == 0
        assert scores.exact_match == 1
        assert scores.bleu.low == pytest.approx(100)

    def test_exact_match_is_against_the_first_reference(self):
        refs = [["a b", "c d", "e"], ["x", "y", "z"]]
        scores = evaluate(["a b ", "c d", "z"], refs, target_lang="de", resamples=0)
        assert scores.exact_match == pytest.approx(2 / 3)

    def test_final_mark_in_chinese_is_seen_by_script_although_the_language_says_german(self):
        hyps, refs = ["我喜欢在公园里散步！"], [["我喜欢在公园里散步。"]]
        fixed = evaluate(hyps, refs, target_lang="zh", tokenize="13a", resamples=0)
        assert fixed.bleu.value == 0
        assert any("tokenize=auto" in note for note in fixed.notes)
        chosen = evaluate(hyps, refs, target_lang="de", resamples=0)
        # 10 tokens, the last one wrong: precisions 9/10, 8/9, 7/8, 6/7, whose product is 6/10.
        assert chosen.bleu.value == pytest.approx(100 * 0.6**0.25)
        assert chosen.tokenizer == "zh"
        assert any("'de'" in note for note in chosen.notes)

    def test_no_four_tokens_is_explained(self):
        scores = evaluate(["ja", "nein"], [["ja", "nein"]], target_lang="de", resamples=0)
        assert scores.bleu.value == 0
        assert scores.exact_match == 1
        assert any("four tokens" in note for note in scores.notes)

    def test_ter_without_spaces_is_explained(self):
        scores = evaluate(["ฉันรักแมว"], [["ฉันรักหมา"]], target_lang="th", resamples=0)
        assert "|tok:char|" in scores.bleu.signature
        assert any(note.startswith("TER") for note in scores.notes)

    def test_interval_by_scoring_each_resampled_corpus_anew(self):
        refs = sentences(12, 7)
        hyps = worsened(refs, 0.3, 8)
        draws = np.random.default_rng(5).choice(12, size=(40, 12))
        each = sorted(
            sacrebleu.corpus_bleu([hyps[i] for i in d], [[refs[i] for i in d]]).score for d in draws
        )
        score = evaluate(hyps, [refs], target_lang="de", confidence=0.8, resamples=40, seed=5).bleu
        assert (score.low, score.high) == pytest.approx((each[4], each[35]))

    def test_seed_decides_the_interval(self):
        refs = sentences(30, 9)
        hyps = worsened(refs, 0.3, 10)

        def once(seed):
            return evaluate(hyps, [refs], target_lang="de", resamples=100, seed=seed)

        assert once(1) == once(1)
        assert once(1).bleu.low != once(2).bleu.low
        assert "|seed:2|" in once(2).bleu.signature


class TestRefusals:
    def test_counts_with_names(self):
        names = ["out.txt", "a.txt", "b.txt"]
        with pytest.raises(UserError, match=r"3 lines in out\.txt and 2 in b\.txt"):
            check_counts(["x"] * 3, [["x"] * 3, ["x"] * 2], names)

    @pytest.mark.parametrize("ours", [9, 11])
    def test_counts(self, ours):
        with pytest.raises(UserError, match=f"{ours} lines in the hyp.* 10 in reference 2"):
            evaluate(["x"] * ours, [["x"] * ours, ["x"] * 10], target_lang="de")

    def test_counts_of_the_second_system(self):
        with pytest.raises(UserError, match="1 lines in system b and 2 in reference 1"):
            compare(["a", "b"], ["a"], [["a", "b"]], target_lang="de")

    @pytest.mark.parametrize("flat", [["a", "b"], ("a", "b"), "ab", [["a", "b"], "ab"]])
    def test_flat_references(self, flat):
        with pytest.raises(UserError, match="list of lists"):
            evaluate(["a", "b"], flat, target_lang="de")

    @pytest.mark.parametrize(
        ("hyps", "refs", "said"),
        [
            ([], [[]], "nothing to score"),
            (["a"], [], "no reference"),
            ("a", [["a"]], "one string"),
            ([None], [["a"]], "Line 1 of the hypotheses"),
            (["a", "b"], [["a", "b"], ["a", 3]], "Line 2 of reference 2"),
        ],
    )
    def test_nothing_or_no_text(self, hyps, refs, said):
        with pytest.raises(UserError, match=said):
            evaluate(hyps, refs, target_lang="de")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"metrics": ["blue"]}, "bleu, chrf, ter"),
            ({"metrics": []}, "bleu, chrf, ter"),
            ({"metrics": "bleu"}, "bleu, chrf, ter"),
            ({"tokenize": "13b"}, "13a, intl"),
            ({"confidence": 95}, "between 0 and 1"),
            ({"confidence": math.nan}, "between 0 and 1"),
            ({"resamples": -1}, "resamples"),
            ({"seed": -1}, "seed"),
        ],
    )
    def test_options(self, options, said):
        with pytest.raises(UserError, match=said):
            evaluate(["a"], [["a"]], target_lang="de", **options)

    def test_comparison_needs_trials(self):
        with pytest.raises(UserError, match="at least 1"):
            compare(["a"], ["a"], [["a"]], target_lang="de", resamples=0)

    def test_tokeniser_that_is_not_installed(self, monkeypatch):
        def missing(*_args, **_options):
            raise RuntimeError("\nextra dependencies\n\n")

        missing.TOKENIZERS = ("ja-mecab",)
        monkeypatch.setattr(sacrebleu, "BLEU", missing)
        with pytest.raises(UserError, match=r"ja-mecab cannot be used here \(extra dependencies\)"):
            evaluate(["a"], [["a"]], target_lang="de", tokenize="ja-mecab")


class TestComparison:
    def test_identical_systems(self):
        lines = worsened(sentences(30, 1), 0.3, 2)
        found = compare(lines, lines, [sentences(30, 1)], target_lang="de", resamples=50)
        for name, difference in found.metrics.items():
            assert difference.delta == difference.low == difference.high == 0
            assert difference.p_value == 1
            assert found.better(name) is None

    def test_clearly_better_system(self):
        refs = sentences(80, 1)
        good, bad = worsened(refs, 0.1, 2), worsened(refs, 0.4, 3)
        found = compare(bad, good, [refs], target_lang="de", resamples=200)
        other = compare(good, bad, [refs], target_lang="de", resamples=200)
        for name, difference in found.metrics.items():
            assert difference.p_value == pytest.approx(1 / 201)
            assert (difference.delta < 0) == (name == "ter")
            assert difference.low < difference.delta < difference.high
            assert (found.better(name), other.better(name)) == ("b", "a")
            assert other.metrics[name].delta == pytest.approx(-difference.delta)
        assert "|bs:200|ar:200|seed:12345|" in found.metrics["bleu"].signature

    def test_values_are_those_of_evaluate(self):
        refs = sentences(20, 1)
        a, b = worsened(refs, 0.2, 2), worsened(refs, 0.2, 3)
        found = compare(a, b, [refs], target_lang="de", resamples=5)
        for name, difference in found.metrics.items():
            for system, value in ((a, difference.a), (b, difference.b)):
                alone = evaluate(system, [refs], target_lang="de", resamples=0).metrics[name]
                assert value == pytest.approx(alone.value)

    def test_p_value_against_all_swaps(self):
        refs = sentences(7, 4)
        a, b = worsened(refs, 0.4, 5), worsened(refs, 0.2, 6)

        def delta(swaps):
            x = [q if s else p for p, q, s in zip(a, b, swaps, strict=True)]
            y = [p if s else q for p, q, s in zip(a, b, swaps, strict=True)]
            return sacrebleu.corpus_chrf(y, [refs], word_order=2).score - (
                sacrebleu.corpus_chrf(x, [refs], word_order=2).score
            )

        real = abs(delta([0] * 7))
        every = [abs(delta(s)) >= real - 1e-9 for s in itertools.product([0, 1], repeat=7)]
        exact = sum(every) / len(every)
        found = compare(a, b, [refs], target_lang="de", resamples=4000, metrics=["chrf"])
        assert 0.02 < exact < 0.9
        assert found.metrics["chrf"].p_value == pytest.approx(exact, abs=0.03)

    def test_interval_by_scoring_each_resampled_corpus_anew(self):
        refs = sentences(12, 7)
        a, b = worsened(refs, 0.3, 8), worsened(refs, 0.3, 9)
        deltas = []
        for d in np.random.default_rng(5).choice(12, size=(40, 12)):
            scored = [
                sacrebleu.corpus_bleu([s[i] for i in d], [[refs[i] for i in d]]).score
                for s in (a, b)
            ]
            deltas.append(scored[1] - scored[0])
        deltas.sort()
        options = {"target_lang": "de", "resamples": 40, "seed": 5, "metrics": ["bleu"]}
        found = compare(a, b, [refs], **options).metrics["bleu"]
        assert (found.low, found.high) == pytest.approx((deltas[1], deltas[38]))

    def test_p_values_are_uniform_where_systems_differ_by_chance_alone(self):
        refs = sentences(25, 1)
        p_values = []
        for trial in range(100):
            a, b = (worsened(refs, 0.3, 1000 * side + trial) for side in (1, 2))
            found = compare(a, b, [refs], target_lang="de", resamples=100, metrics=["bleu"])
            p_values.append(found.metrics["bleu"].p_value)
        # Of 100 uniform values: below 0.1 are 10 ± 3, and their mean is 0.5 ± 0.03.
        assert 1 <= sum(p < 0.1 for p in p_values) <= 20
        assert 0.38 < np.mean(p_values) < 0.62

    def test_one_sentence_proves_nothing(self):
        found = compare(["x y z q"], ["a b c d"], [["a b c d"]], target_lang="de", resamples=50)
        assert found.metrics["bleu"].delta == pytest.approx(100)
        assert all(d.p_value == 1 for d in found.metrics.values())

    def test_seed_decides(self):
        refs = sentences(25, 1)
        a, b = worsened(refs, 0.3, 2), worsened(refs, 0.3, 3)

        def once(seed):
            return compare(a, b, [refs], target_lang="de", resamples=60, seed=seed)

        assert once(1) == once(1)
        assert once(1).metrics["chrf"].low != once(2).metrics["chrf"].low

    def test_notes_name_the_system(self):
        found = compare(["a b@@ c"], ["a b c"], [["a b c"]], target_lang="de", resamples=2)
        assert any(note.startswith("system a: 1 of 1") for note in found.notes)
        assert not any(note.startswith("system b") for note in found.notes)
        assert sum("four tokens" in note for note in found.notes) == 1


class TestPerplexity:
    def test_uniform_over_a_vocabulary_is_its_size(self):
        assert perplexity(7 * math.log(1 / 32), 7) == pytest.approx(32)

    def test_certain(self):
        assert perplexity(0.0, 3) == 1
        assert perplexity(1e-7, 3) == 1  # float32 rounding

    def test_too_large_for_a_float(self):
        assert perplexity(-1e6, 1) == math.inf
        assert perplexity(-math.inf, 1) == math.inf

    @pytest.mark.parametrize(("total", "tokens"), [(-1.0, 0), (2.0, 3), (math.nan, 3)])
    def test_impossible(self, total, tokens):
        with pytest.raises(UserError):
            perplexity(total, tokens)


def test_sacrebleu_is_not_imported_before_it_is_needed():
    code = "import sys, seq2seq.evaluation; print({'sacrebleu', 'torch'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "set()"

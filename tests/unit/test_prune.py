"""Pruning curves: on a model in which the right order is known, and against smaller models."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
import torch
from attention_samples import SENTENCES, make_model, make_tokenizer

from seq2seq.analysis import prune
from seq2seq.analysis.importance import importance
from seq2seq.analysis.intervene import HeadId, all_heads, attentions
from seq2seq.analysis.prune import (
    IMPORTANCE,
    RANDOM,
    REVERSE,
    Curve,
    Options,
    Quality,
    Removal,
    curve,
    least_important,
    parameters_without,
    removal_counts,
    removal_order,
)
from seq2seq.analysis.prune_tables import finding, to_csv, to_markdown
from seq2seq.analysis.tables import Column, HeadTable
from seq2seq.config import DecodeConfig
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import evaluate
from seq2seq.model.pruning import remove
from seq2seq.model.transformer import parameter_count

IDLE = [HeadId("enc", 0, 2), HeadId("enc", 1, 0), HeadId("cross", 1, 1)]
SOURCES = [source for source, _ in SENTENCES] * 3


@pytest.fixture(scope="module")
def planted():
    """A translator whose heads of IDLE do nothing, and its own translations as references.

    Encoder 2 layers × 4 heads of width 4, decoder 3 layers × 2 heads of width 8.
    """
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    with torch.no_grad():
        for kind, layer, head in IDLE:
            attention = attentions(model)[kind, layer]
            attention.w_o.weight[:, head * attention.d_v : (head + 1) * attention.d_v] = 0
    translator = Translator(model, tokenizer, DecodeConfig(beam=1, max_len_a=0, max_len_b=12))
    targets = [t.text for t in translator.translate(SOURCES)]
    return translator, list(zip(SOURCES, targets, strict=True))


@pytest.fixture(scope="module")
def found(planted):
    translator, pairs = planted
    options = Options(step=0.15, seeds=2, trials=50)
    return curve(translator, pairs, options, target_lang="de")


class TestOrder:
    def test_heads_that_do_nothing_go_first_and_cost_nothing(self, found):
        (path,) = found.of(IMPORTANCE)
        assert path.heads[:3] == IDLE
        assert path.counts == [0, 3, 6, 9, 12, 15, 18, 20]
        whole, without, *others = path.points
        assert whole.bleu == pytest.approx(100)
        assert (without.bleu, without.p) == (whole.bleu, 1.0)
        assert without.loss == pytest.approx(whole.loss, abs=1e-12)
        assert without.parameters == whole.parameters - 268 - 268 - 536
        assert all(abs(point.loss - whole.loss) > 1e-6 for point in others)
        assert path.points[-1].bleu < 50

    def test_reverse_is_the_other_way_round(self, found):
        (up,), (down,) = found.of(IMPORTANCE), found.of(REVERSE)
        assert down.heads == up.heads[::-1]
        assert down.points[6].bleu == pytest.approx(down.points[7].bleu)  # idle heads are left
        assert down.points[1].bleu < up.points[1].bleu

    def test_random_orders_follow_the_seed(self, found, planted):
        first, second = found.of(RANDOM)
        assert (first.seed, second.seed) == (1, 2)
        assert first.heads != second.heads
        assert sorted(first.heads) == sorted(second.heads) == sorted(all_heads(planted[0].model))
        assert removal_order(*planted, RANDOM, seed=2) == second.heads

    def test_by_share_of_the_layer_then_by_plain_importance(self):
        columns = [Column("importance"), Column("importance_share")]
        rows = {
            HeadId("enc", 0, 0): {"importance": 9.0, "importance_share": 0.6},
            HeadId("enc", 0, 1): {"importance": 12.0, "importance_share": 0.8},
            HeadId("dec", 0, 0): {"importance": 0.4, "importance_share": 1.0},
            HeadId("dec", 1, 0): {"importance": 0.2, "importance_share": 1.0},
            HeadId("cross", 0, 1): {"importance": 0.0, "importance_share": 0.0},
            HeadId("cross", 0, 0): {"importance": 0.0, "importance_share": 0.0},
        }
        order = [str(head) for head in least_important(HeadTable(columns, rows))]
        assert order == ["cross.0.0", "cross.0.1", "enc.0.0", "enc.0.1", "dec.1.0", "dec.0.0"]

    @pytest.mark.parametrize("order", [IMPORTANCE, REVERSE])
    def test_measuring_anew_ranks_the_heads_of_the_smaller_model(self, planted, order):
        translator, pairs = planted
        counts = [3, 7, 12, 20]
        found = removal_order(translator, pairs, order, counts=counts)
        model, expected = translator.model, []
        for count in counts:
            ranked = least_important(importance(model, translator.tokenizer, pairs))
            ranked = ranked if order == IMPORTANCE else ranked[::-1]
            expected += ranked[: count - len(expected)]
            model = remove(translator.model, expected)
        assert found == expected
        assert found != removal_order(translator, pairs, order)

    @pytest.mark.parametrize(
        ("total", "step", "counts"),
        [
            (10, 0.1, list(range(11))),
            (24, 0.3, [0, 7, 14, 22, 24]),  # 7.2, 14.4, 21.6
            (3, 0.1, [0, 1, 2, 3]),
            (1, 0.5, [0, 1]),
            (8, 1.0, [0, 8]),
            (7, 1 / 3, [0, 2, 5, 7]),
        ],
    )
    def test_points(self, total, step, counts):
        assert removal_counts(total, step) == counts


class TestPoints:
    def test_they_are_those_of_smaller_models(self, found, planted):
        translator, pairs = planted
        for order, place in ((IMPORTANCE, 3), (REVERSE, 1), (RANDOM, 4), (IMPORTANCE, 7)):
            path = found.of(order)[0]
            smaller = Translator(
                remove(translator.model, path.heads[: path.counts[place]]),
                translator.tokenizer,
                translator.config,
            )
            texts = [t.text for t in smaller.translate(SOURCES)]
            scores = evaluate(
                texts, [[t for _, t in pairs]], target_lang="de", resamples=0, metrics=["bleu"]
            )
            scored = smaller.score(SOURCES, [t for _, t in pairs])
            point = path.points[place]
            assert point.bleu == pytest.approx(scores.metrics["bleu"].value, abs=1e-9)
            tokens = sum(len(pair.tokens) for pair in scored)
            assert point.loss == pytest.approx(-sum(p.score for p in scored) / tokens, abs=1e-9)
            assert point.parameters == parameter_count(smaller.model)

    def test_the_ends_are_shared(self, found):
        for path in found.paths:
            assert path.points[0] == found.paths[0].points[0]
            assert path.points[-1] == found.paths[0].points[-1]

    def test_the_model_is_left_as_it_was(self, found, planted):
        translator, pairs = planted
        assert found.total == 20
        texts = [t.text for t in translator.translate(SOURCES)]
        assert texts == [target for _, target in pairs]

    def test_parameters_by_hand(self, planted):
        """D = 16: 268 for an encoder head of width 4, 536 for a decoder head of width 8."""
        model = planted[0].model
        gone = [HeadId("enc", 0, 0), HeadId("enc", 1, 3), HeadId("dec", 2, 1)]
        assert parameters_without(model, gone) == parameter_count(model) - 2 * 268 - 536

    def test_a_pruned_model_goes_on_from_what_it_has(self, planted):
        translator, pairs = planted
        left = remove(translator.model, [str(h) for h in all_heads(translator.model)[:14]])
        smaller = Translator(left, translator.tokenizer, translator.config)
        options = Options(orders=[IMPORTANCE], step=0.5, trials=10)
        found = curve(smaller, pairs, options, target_lang="de")
        assert sorted(found.paths[0].heads) == sorted(all_heads(left))
        assert found.paths[0].counts == [0, 3, 6]

    def test_progress_counts_points(self, planted):
        told = []
        options = Options(orders=[IMPORTANCE, RANDOM], step=0.5, seeds=1, trials=5)
        curve(*planted, options, target_lang="de", progress=lambda *now: told.append(now))
        assert told == [(n, 6) for n in range(1, 7)]


class TestRefused:
    def test_no_pairs_and_no_heads(self, planted):
        translator, pairs = planted
        with pytest.raises(UserError, match="at least one sentence pair"):
            curve(translator, [], target_lang="de")
        none = remove(translator.model, all_heads(translator.model))
        with pytest.raises(UserError, match="no heads left"):
            curve(Translator(none, translator.tokenizer), pairs, target_lang="de")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"orders": ["importance", "size"]}, "size: heads go by importance, reverse, random"),
            ({"orders": []}, "No order: heads go by"),
            ({"step": 0.0}, "step is 0, but must be"),
            ({"step": 1.5}, "step is 1.5, but must be"),
            ({"step": float("nan")}, "step is nan"),
            ({"seeds": 0}, "0 random orders"),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(UserError, match=re.escape(message)):
            Options(**options)


HEADS = [HeadId("enc", 0, h) for h in range(4)]


def by_hand(*bleus, p=(), orders=(IMPORTANCE,), heads=4):
    """A curve with these scores at 0, 1, … heads."""
    ps = p or [1.0] + [0.001] * (len(bleus) - 1)
    points = [Quality(bleu, q, 1.0, 100) for bleu, q in zip(bleus, ps, strict=True)]
    counts = list(range(len(bleus)))
    paths = [Removal(order, None, counts, HEADS[:heads], points) for order in orders]
    return Curve(paths, "nrefs:1", ["run x"])


class TestFinding:
    def test_up_to_the_first_fall_that_is_no_chance(self):
        found = by_hand(30.0, 29.5, 29.0, 20.0, 1.0, p=[1.0, 0.4, 0.06, 0.01, 0.001])
        assert found.dispensable() == 2
        assert finding(found) == (
            "2 of 4 heads (50%) can go, least important first, before BLEU falls by more than "
            "chance: 30.00 with all, 29.00 without these, 20.00 at the next point (p = 0.010)."
        )

    def test_a_later_rise_does_not_count(self):
        assert by_hand(30.0, 20.0, 30.0, 30.0, 30.0, p=[1, 0.01, 1, 1, 1]).dispensable() == 0

    def test_a_rise_is_no_fall(self):
        assert by_hand(30.0, 35.0, 36.0, 10.0, 1.0).dispensable() == 2

    def test_all_can_go(self):
        found = by_hand(1.0, 1.0, 1.0, 1.0, 0.9, p=[1, 1, 1, 1, 0.5])
        assert found.dispensable() == 4
        assert finding(found).startswith("All 4 heads can go before BLEU falls by more than chance")

    def test_without_importance_there_is_none(self):
        assert finding(by_hand(30.0, 20.0, 10.0, 5.0, 1.0, orders=[REVERSE])) == ""


class TestTables:
    @pytest.fixture
    def three(self):
        counts, paths = [0, 2, 4], []
        for order, seed, bleus in (
            (IMPORTANCE, None, (30, 28, 1)),
            (RANDOM, 1, (30, 10, 1)),
            (RANDOM, 2, (30, 14, 1)),
        ):
            points = [Quality(b, 0.5, 2.0, 90) for b in bleus]
            heads = HEADS[::-1] if seed == 2 else HEADS
            paths.append(Removal(order, seed, counts, heads, points))
        return Curve(paths, "nrefs:1|tok:13a", ["run x"])

    def test_mean_and_spread_of_seeds(self, three):
        """Deviations of ±2 from 12: √(8 / 1)."""
        assert three.spread(RANDOM, "bleu")[1] == pytest.approx((12, np.sqrt(8)))
        assert three.spread(IMPORTANCE, "bleu")[1] == (28, 0)

    def test_csv(self, three):
        text = to_csv(three)
        facts = [line for line in text.split("\n") if line.startswith("#")]
        assert facts == ["# run x", "# BLEU nrefs:1|tok:13a"]
        rows = list(csv.DictReader(io.StringIO(text.split("13a\n")[1])))
        assert len(rows) == 9
        assert rows[1] == {
            "order": "importance", "seed": "", "heads_removed": "2", "share": "0.5", "bleu": "28",
            "bleu_p": "0.5", "loss [nats/token]": "2", "parameters": "90",
            "removed_here": "enc.0.0 enc.0.1",
        }  # fmt: skip
        assert rows[7]["seed"] == "2"
        assert rows[7]["removed_here"] == "enc.0.3 enc.0.2"

    def test_markdown(self, three):
        text = to_markdown(three)
        assert "BLEU nrefs:1|tok:13a" in text
        assert "| 2 | 50% | 28.00 | 0.500 | 2.000 | 12.00 ± 2.83 | 2.000 ± 0.000 | 90 |" in text
        assert "in random order (mean ± sd of 2)" in text
        assert "removed, least important first**: enc.0.0 enc.0.1 | enc.0.2 enc.0.3" in text
        assert "removed, in random order, seed 2**: enc.0.3 enc.0.2 | enc.0.1 enc.0.0" in text
        table = [line for line in text.split("\n") if line.startswith("|")]
        assert len({line.count("|") for line in table}) == 1

    def test_the_picture_of_one_order_has_one(self):
        text = to_markdown(by_hand(3.0, 2.0, 1.0, 1.0, 1.0, orders=[REVERSE]))
        assert "parameters left |" in text


def test_orders_are_those_of_the_command():
    from viz.prune_cli import ORDERS

    assert tuple(prune.ORDERS) == ORDERS

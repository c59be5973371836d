"""What the lesson measures and prints, against values derived by hand (S1 to S10)."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from seq2seq.errors import UserError
from seq2seq.lesson import complexity, cost, parameters, rules, shapes, worked
from seq2seq.lesson.example import random_example, replaced
from seq2seq.lesson.part import Verdict
from seq2seq.model import attention as attention_module

A, C = 0.6697615493266569, 0.3302384506733431  # softmax of (1/√2, 0)


def rows_of(part, name):
    """A table of a part as dictionaries, by column name."""
    listing = next(table.listing for table in part.tables if table.name == name)
    names = [column.name for column in listing.columns]
    return [dict(zip(names, row, strict=True)) for row in listing.rows]


def measured(part, words):
    """What was measured of the claim that says `words`; and its verdict."""
    claim = next(claim for claim in part.claims if words in claim.says)
    return claim.measured, claim.verdict


@pytest.fixture(scope="module")
def example():
    return worked.work()


def test_s1_every_matrix_of_the_worked_example(example):
    two = example.two
    eye = [[1, 0], [0, 1]]
    assert two.w_q.tolist() == two.w_k.tolist() == two.w_v.tolist()
    assert two.w_q.tolist() == [[*eye, [0, 0], [0, 0]], [[0, 0], [0, 0], *eye]]
    assert two.query.tolist() == two.key.tolist() == two.value.tolist() == [eye, eye]
    assert example.unscaled.scores.tolist() == [eye, eye]
    root = 1 / math.sqrt(2)
    np.testing.assert_allclose(two.scores, [[[root, 0], [0, root]]] * 2, atol=1e-9)
    np.testing.assert_allclose(two.weights, [[[A, C], [C, A]]] * 2, atol=1e-9)
    np.testing.assert_allclose(two.heads, [[[A, C], [C, A]]] * 2, atol=1e-9)
    np.testing.assert_allclose(two.concat, [[A, C, A, C], [C, A, C, A]], atol=1e-9)
    assert two.w_o.tolist() == np.eye(4).tolist()
    assert two.out.tolist() == two.concat.tolist()


def test_s1_it_is_the_projects_module_that_was_watched(example, monkeypatch):
    """With another equation in the module, the lesson's numbers are others, and claims fail."""

    def uniform(query, key, value, **_):
        weights = torch.full((*query.shape[:-1], key.shape[-2]), 0.5, dtype=query.dtype)
        weights = (weights * 0).softmax(-1)
        return weights @ value, weights

    monkeypatch.setattr(attention_module, "scaled_dot_product_attention", uniform)
    other = worked.work()
    assert other.two.weights.tolist() == [[[0.5, 0.5]] * 2] * 2
    assert Verdict.fails in {claim.verdict for claim in worked.part(other).claims}


def test_s2_equal_heads_and_one_entry_changed(example):
    assert worked.divergence(example.two) == 0.0
    np.testing.assert_allclose(example.changed.weights[0], [[A, C], [C, A]], atol=1e-9)
    # the second head's query of "I" is 0 now: it attends evenly; "learn." as before
    np.testing.assert_allclose(example.changed.weights[1], [[0.5, 0.5], [C, A]], atol=1e-9)

    def kl(p, q):
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))

    p, q = (A, C), (0.5, 0.5)
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    js = (kl(p, m) + kl(q, m)) / 2
    assert worked.divergence(example.changed) == pytest.approx(js / 2, abs=1e-9)


def test_s3_s4_scaling_and_one_wide_head(example):
    assert example.unscaled.weights[0, 0, 0] == pytest.approx(0.731058578630, abs=1e-9)
    one = example.one
    assert one.weights.shape == (1, 2, 2)
    assert example.one_unscaled.scores[0].tolist() == [[2, 0], [0, 2]]
    assert one.scores[0].tolist() == [[1, 0], [0, 1]]  # 2 / √4
    assert one.weights[0, 0, 0] == pytest.approx(0.731058578630, abs=1e-9)
    rows = rows_of(worked.part(example), "worked_scaling")
    assert [(row["heads"], row["d_k"], row["scaled"]) for row in rows] == [
        (2, 2, "yes"), (2, 2, "no"), (1, 4, "yes"), (1, 4, "no")]  # fmt: skip
    wanted = [1 / (1 + math.exp(-x)) for x in (1 / math.sqrt(2), 1, 1, 2)]
    assert [row["weight"] for row in rows] == pytest.approx(wanted, abs=1e-9)


def test_the_worked_part_says_so(example):
    part = worked.part(example)
    assert {claim.verdict for claim in part.claims} == {Verdict.holds}
    assert "0.6697615493266569" in measured(part, "weight of two thirds")[0]
    assert "0.3302384506733431" in measured(part, "weight of two thirds")[0]
    assert "JS(head 1, head 2) = 0;" in measured(part, "by chance")[0]
    assert "2 / √4 = 1" in measured(part, "One head as wide")[0]
    stages = rows_of(part, "worked")
    assert stages[4]["head 1"] == stages[4]["head 2"] == "[0.6698 0.3302; 0.3302 0.6698]"
    text = part.to_text()
    assert "✓" in text
    assert "✗" not in text


def test_s5_shapes_from_the_tensors():
    part = shapes.part(shapes.trace())
    rows = {row["tensor"]: [*row.values()][1:] for row in rows_of(part, "shapes")}
    assert rows["embeddings X"] == ["4 × 512", "4 × 768", "4 × 512", "4 × 256"]
    assert rows["W_Q, W_K of a head"] == ["512 × 64", "768 × 64", "512 × 64", "256 × 64"]
    assert rows["Q, K of a head"] == rows["output of a head"] == ["4 × 64"] * 4
    assert rows["weights of a head"] == ["4 × 4"] * 4
    assert rows["concatenation"] == ["4 × 512", "4 × 768", "4 × 256", "4 × 256"]
    assert rows["W_O"] == ["512 × 512", "768 × 768", "256 × 512", "256 × 256"]
    assert rows["output"] == rows["embeddings X"]
    assert {claim.verdict for claim in part.claims} == {Verdict.holds}
    assert measured(part, "as wide as the model")[0] == "512 / 8 = 64; 768 / 12 = 64"


def test_s6_captured_score_entries():
    entries = cost.score_entries(4, 6, 8)
    assert [e.captured for e in entries] == [8 * 4 * 4, 8 * 6 * 6, 8 * 6 * 4]
    assert entries[0].captured == 128
    assert (entries[2].queries, entries[2].keys) == (6, 4)


@pytest.fixture(scope="module")
def costs():
    return cost.measure(32, 5, (1, 2, 4, 8))


def test_s7_operations_counted_by_pytorch(costs):
    d, n = 32, 5
    wanted = {h: cost.Flops(4 * n * n * d, 8 * n * d * d) for h in (1, 2, 4, 8)}
    assert costs.by_heads == wanted
    assert costs.by_length[10].products == 4 * costs.by_length[5].products
    assert costs.by_length[10].projections == 2 * costs.by_length[5].projections
    assert costs.entries_by_heads == {h: h * n * n for h in (1, 2, 4, 8)}
    assert costs.crossing == 2 * d


def test_s7b_the_numbers_of_the_base_model():
    found = cost.flops(512, 8, 60)
    assert (found.products, found.projections) == (7_372_800, 125_829_120)
    assert cost.crossing(512, 8) == 1024
    assert cost.flops(512, 8, 1023).products < cost.flops(512, 8, 1023).projections
    assert cost.flops(512, 8, 1025).products > cost.flops(512, 8, 1025).projections


def test_the_complexity_part_says_so(costs):
    part = complexity.part(costs)
    assert {claim.verdict for claim in part.claims} == {Verdict.holds}
    assert "n = 64 = 2 · d_model" in measured(part, "takes over late")[0]
    assert len(rows_of(part, "complexity_heads")) == 4
    assert not any("milliseconds" in claim.measured for claim in part.claims)


def test_time_is_measured_when_asked_for():
    found = cost.measure(8, 3, (1, 2), timed=True)
    assert set(found.milliseconds) == {1, 2}
    assert min(found.milliseconds.values()) > 0
    part = complexity.part(found)
    assert "1: " in measured(part, "Operations are not time")[0]
    assert all(row["time"] > 0 for row in rows_of(part, "complexity_heads"))
    for times, verdict in (((1.0, 2.0), Verdict.holds), ((1.0, 1.05), Verdict.open)):
        other = dataclasses.replace(found, milliseconds=dict(zip((1, 2), times, strict=True)))
        assert measured(complexity.part(other), "Operations are not time")[1] == verdict


def test_heads_that_do_not_divide_are_refused_in_words():
    with pytest.raises(UserError, match=r"--heads 3 does not divide --d-model 32"):
        cost.measure(32, 5, (1, 3))


def test_s8_parameters_of_every_number_of_heads():
    found = parameters.count(24, (1, 2, 3, 8))
    assert set(found) == {1, 2, 3, 8}
    assert set(found.values()) == {parameters.Counts(3 * 24 * 24, 24 * 24, 4 * 24)}
    part = parameters.part(found, 24)
    rows = rows_of(part, "parameters")
    assert rows[0]["attention"] == "1 head, without W_O"
    assert rows[0]["total"] == 3 * 24 * 24 + 3 * 24
    assert rows[1]["total"] == rows[4]["total"] == 4 * 24 * 24 + 4 * 24
    text, verdict = measured(part, "extra parameters")
    assert verdict == Verdict.partly  # only against a single head without W_O
    assert text.startswith("576 = d_model²")


@pytest.fixture(scope="module")
def random_pair():
    return random_example()


def test_s9_no_weight_on_later_positions(random_pair):
    heads = rules.masked(random_pair)
    assert len(heads) == 2 * 4
    assert [head.cells for head in heads] == [15] * 8  # 6 positions: 5 + 4 + 3 + 2 + 1
    assert [head.later for head in heads] == [0.0] * 8
    assert rules.ahead(random_pair) > 0.1
    before, after = rules.leak(random_pair, 3)
    assert before <= 1e-6 < after
    part = rules.mask_part(random_pair)
    assert {claim.verdict for claim in part.claims} == {Verdict.holds}


def test_s9_a_leak_is_seen(random_pair):
    """A weight above the diagonal, and a mask that lets the future through, turn the verdict."""
    maps = random_pair.maps
    leaky = [weights.copy() for weights in maps.dec]
    leaky[1][2, 0, 4] = 1e-3
    found = rules.mask_part(dataclasses.replace(
        random_pair, maps=dataclasses.replace(maps, dec=leaky)))  # fmt: skip
    text, verdict = measured(found, "obeys the mask")
    assert verdict == Verdict.fails
    assert "0.001" in text


def test_s9_predictions_before_a_token_would_move_without_the_mask(random_pair, monkeypatch):
    everything = torch.ones
    monkeypatch.setattr(
        attention_module, "causal_mask", lambda length, device: everything(length, length).bool()
    )
    before, _ = rules.leak(random_pair, 3)
    assert before > 1e-3


def test_s10_only_keys_and_values_move_with_the_source(random_pair):
    moves = {(m.changed, m.layer): m for m in rules.moved(random_pair)}
    assert set(moves) == {("source", 0), ("source", 1), ("target", 0), ("target", 1)}
    first = moves["source", 0]
    assert first.query == 0.0 < min(first.key, first.value)
    assert moves["source", 1].query > 0  # it asks about what layer 0 has fetched
    for layer in (0, 1):
        target = moves["target", layer]
        assert target.key == target.value == 0.0 < target.query
    part = rules.cross_part(random_pair)
    assert {claim.verdict for claim in part.claims} == {Verdict.holds}
    assert "6 × 7 (target × source)" in measured(part, "A row asks")[0]


def test_looking_leaves_the_random_state_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    random_example()
    shapes.trace(tokens=2)
    cost.score_entries(2, 3, 2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("ids", "place", "wanted"),
    [([5, 6, 3], 1, [5, 5, 3]), ([5, 5, 3], 0, [1, 5, 3]), ([2, 7, 8], 1, [2, 8, 8])],
)
def test_a_token_is_replaced_by_another_one_of_the_sentence(ids, place, wanted):
    assert replaced(ids, place) == wanted

"""Heads of two models matched: the assignment by brute force, the heads by planted permutations."""

import itertools

import numpy as np
import pytest
import torch
from attention_samples import SENTENCES, make_model, make_record, make_tokenizer

from seq2seq.analysis.capture import capture
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervene import attentions
from seq2seq.analysis.matching import assign, match
from seq2seq.errors import UserError

ORDER = [2, 0, 3, 1]  # new head i of enc.1 is old head ORDER[i]


@pytest.mark.parametrize("seed", range(40))
def test_the_assignment_equals_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 6))
    columns = int(rng.integers(rows, 7))
    size = (rows, columns)  # whole numbers have ties
    cost = rng.integers(0, 4, size).astype(float) if seed % 2 else rng.normal(size=size)
    found = assign(cost)
    assert len(set(found)) == rows
    best = min(
        sum(cost[row, column] for row, column in enumerate(columns_of_rows))
        for columns_of_rows in itertools.permutations(range(columns), rows)
    )
    assert sum(cost[row, column] for row, column in enumerate(found)) == pytest.approx(best)


def test_more_rows_than_columns_are_refused():
    with pytest.raises(ValueError, match="2 rows cannot have 1 columns"):
        assign(np.zeros((2, 1)))


def test_a_planted_permutation_is_found():
    """S14: the same model with the heads of one layer shuffled."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    texts = [s for s, _ in SENTENCES], [t for _, t in SENTENCES]
    before = capture(model, tokenizer, *texts)
    attention = attentions(model)["enc", 1]
    rows = torch.cat([torch.arange(attention.d_v) + old * attention.d_v for old in ORDER])
    with torch.no_grad():
        for linear in (attention.w_q, attention.w_k, attention.w_v):
            linear.weight.copy_(linear.weight[rows].clone())
            linear.bias.copy_(linear.bias[rows].clone())
        attention.w_o.weight.copy_(attention.w_o.weight[:, rows].clone())
    after = capture(model, tokenizer, *texts)
    found = match(zip(before, after, strict=True))
    assert set(found) == set(attentions(model))
    for place, matching in found.items():
        wanted = list(range(len(matching.first)))
        if place == ("enc", 1):
            wanted = [ORDER.index(old) for old in wanted]
            assert min(matching.by_number) > 1e-4
        assert list(matching.partner) == wanted, place
        assert max(matching.matched) < 1e-12
    assert found["enc", 1].first[0] == HeadId("enc", 1, 0)


def test_divergence_is_the_mean_over_rows_of_words():
    """Against sums written out: one head of each model, two sentences of unlike lengths."""

    def kl(p, q):
        return sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)

    one = {"enc": (1, 1), "dec": (1, 1), "cross": (1, 1)}
    first = [make_record(shape=one, seed=1), make_record(("▁a",), ("▁b", "▁c"), shape=one, seed=2)]
    second = [make_record(shape=one, seed=3), make_record(("▁a",), ("▁b", "▁c"), shape=one, seed=4)]
    found = match(zip(first, second, strict=True))["cross", 0]
    values = []
    for a, b in zip(first, second, strict=True):
        words = ~a.special[a.query_side("cross")]
        for p, q in zip(a.cross[0][0][words], b.cross[0][0][words], strict=True):
            m = (p + q) / 2
            values.append((kl(p, m) + kl(q, m)) / 2)
    assert found.divergence[0, 0] == pytest.approx(np.mean(values), abs=1e-6)


def test_records_that_do_not_go_together_are_refused_in_words():
    record = make_record()
    with pytest.raises(UserError, match="different pieces"):
        match([(record, make_record(("▁other",)))])
    shallow = make_record(shape={"enc": (1, 4), "dec": (3, 2), "cross": (3, 2)})
    with pytest.raises(UserError, match="different layers"):
        match([(record, shallow)])
    few = make_record(shape={"enc": (2, 2), "dec": (3, 2), "cross": (3, 2)})
    with pytest.raises(UserError, match="fewer heads first"):
        match([(record, few)])
    assert match([(few, record)])["enc", 0].divergence.shape == (2, 4)

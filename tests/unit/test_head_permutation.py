"""Heads have no order: a model with its heads shuffled is the same, and its tables are shuffled."""

from __future__ import annotations

import pytest
import torch
from attention_samples import SENTENCES, make_model, make_tokenizer

from seq2seq.analysis.capture import capture_each
from seq2seq.analysis.importance import importance
from seq2seq.analysis.intervene import HeadId, attentions
from seq2seq.analysis.similarity import Similarity
from seq2seq.analysis.statistics import HeadStatistics

PLACE = ("enc", 1)
ORDER = [2, 0, 3, 1]  # new head i is old head ORDER[i]


def shuffle(model):
    """Rows of W_Q, W_K, W_V and columns of W_O, by blocks of a head's width."""
    attention = attentions(model)[PLACE]
    width = attention.d_v
    rows = torch.cat([torch.arange(width) + old * width for old in ORDER])
    with torch.no_grad():
        for linear in (attention.w_q, attention.w_k, attention.w_v):
            linear.weight.copy_(linear.weight[rows].clone())
            linear.bias.copy_(linear.bias[rows].clone())
        attention.w_o.weight.copy_(attention.w_o.weight[:, rows].clone())


@pytest.fixture(scope="module")
def found():
    """Statistics, divergences, importance and log-probabilities before and after."""
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    sources, targets = [s for s, _ in SENTENCES], [t for _, t in SENTENCES]

    def look():
        statistics, similarity, scores = HeadStatistics(), Similarity(), []
        for maps in capture_each(model, tokenizer, sources, targets):
            statistics.add(maps)
            similarity.add(maps)
            scores += maps.logprob.tolist()
        table = statistics.table().joined(importance(model, tokenizer, SENTENCES))
        return table, similarity.distances()["enc"], scores

    before = look()
    shuffle(model)
    return before, look()


def old(head: HeadId) -> HeadId:
    return head._replace(head=ORDER[head.head]) if head.place == PLACE else head


def test_the_model_is_the_same(found):
    (_, _, before), (_, _, after) = found
    assert after == pytest.approx(before, abs=1e-12)


def test_every_number_moves_with_its_head(found):
    (before, _, _), (after, _, _) = found
    assert before.heads == after.heads
    for head in after.heads:
        assert after.rows[head] == pytest.approx(before.rows[old(head)], abs=1e-9), head
    moved = {before.rows[HeadId(*PLACE, i)]["entropy"] for i in range(4)}
    assert len(moved) == 4  # so that a table left as it was would have been noticed


def test_divergences_move_with_their_heads(found):
    (_, before, _), (_, after, _) = found
    places = [before.heads.index(old(head)) for head in after.heads]
    assert after.matrix == pytest.approx(before.matrix[places][:, places], abs=1e-9)

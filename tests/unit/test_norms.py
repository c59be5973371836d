"""What heads add: against a loop over positions, and idle heads that add nothing."""

from __future__ import annotations

import pytest
import torch
from model_samples import tiny_model

from seq2seq.analysis.intervene import HeadId, attentions
from seq2seq.analysis.norms import contribution_sizes
from seq2seq.config import BOS, EOS
from seq2seq.errors import UserError


class Words:
    """A tokenizer whose texts are piece ids."""

    def encode_source(self, texts):
        return [[int(word) for word in text.split()] for text in texts]

    encode_target = encode_source


PAIRS = [("4 5 6", "7 8"), ("9 10", "4 5 6 7"), ("5 5 5 5", "12")]


def by_hand(model, head, pairs):
    """Sizes of α f(x) one query, one key at a time, for a head of the first cross-attention."""
    attention, added, special, rows = attentions(model)[head.place], 0.0, 0.0, 0
    first = head.head * attention.d_v
    w_o = attention.w_o.weight[:, first : first + attention.d_v]  # [D, Dv]
    for source, target in pairs:
        source = torch.tensor([[*map(int, source.split()), EOS]])
        target = [*map(int, target.split())]
        seen = {}
        handle = attention.register_forward_hook(
            lambda _m, inputs, _o, s=seen: s.update(kv=inputs[1])
        )
        with torch.no_grad():
            weights = model.attention_weights(source, torch.tensor([[BOS, *target]]))
        handle.remove()
        matrix = weights.cross[head.layer][0, head.head]
        for query in range(len(target)):  # not the row that writes </s>
            rows += 1
            for key in range(source.shape[1]):
                vector = w_o @ seen["kv"].value[0, head.head, key]
                size = (matrix[query, key] * vector).norm().item()
                added += size
                special += size * (key == source.shape[1] - 1)
    return added / rows, special / added


@pytest.mark.parametrize("name", ["cross.0.0", "cross.2.3"])
def test_sizes_by_hand(name):
    model, head = tiny_model(), HeadId.parse(name)
    row = contribution_sizes(model, Words(), PAIRS).rows[head]
    assert (row["added"], row["added_special"]) == pytest.approx(by_hand(model, head, PAIRS))


def test_batches_change_nothing_and_every_head_has_a_row():
    model = tiny_model()
    whole = contribution_sizes(model, Words(), PAIRS)
    single = contribution_sizes(model, Words(), iter(PAIRS), batch_tokens=1)
    assert len(whole.rows) == 2 * 2 + 3 * 4 + 3 * 4
    for head, row in whole.rows.items():
        assert row == pytest.approx(single.rows[head])
        assert 0 < row["added_special"] < 1


def test_a_head_that_w_o_ignores_adds_nothing():
    model = tiny_model()
    with torch.no_grad():
        attentions(model)["dec", 1].w_o.weight[:, 4:8] = 0
    rows = contribution_sizes(model, Words(), PAIRS).rows
    assert rows[HeadId("dec", 1, 1)] == {"added": 0.0, "added_special": 0.0}
    assert rows[HeadId("dec", 1, 0)]["added"] > 0


def test_no_words_is_an_error():
    with pytest.raises(UserError, match="no words"):
        contribution_sizes(tiny_model(), Words(), [])

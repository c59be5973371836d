from __future__ import annotations

import math

import numpy as np
import pytest
from attention_samples import make_record, with_weights

from seq2seq.analysis.heads import entropy, main_offset, summarise


def previous(n: int) -> np.ndarray:
    """A head that looks at the token before; the first one at itself."""
    return np.eye(n)[[max(i - 1, 0) for i in range(n)]]


def test_entropy_by_formula() -> None:
    assert entropy(np.full((6, 6), 1 / 6)) == pytest.approx([math.log(6)] * 6)
    assert entropy(np.eye(4)).tolist() == [0.0] * 4  # 0 ln 0 = 0, not NaN
    causal = np.tri(4) / np.tri(4).sum(-1, keepdims=True)
    assert entropy(causal).mean() == pytest.approx(0.7945134576)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("causal", [True, False])
def test_a_previous_token_head_has_share_one_at_every_length(n, causal) -> None:
    if n == 2:
        offset, share = main_offset(previous(n), [1], causal=causal)
    else:
        offset, share = main_offset(previous(n), list(range(n)), causal=causal)
    assert (offset, share) == (-1, 1.0)


def test_next_and_itself() -> None:
    following = np.eye(5)[[1, 2, 3, 4, 4]]
    assert main_offset(following, list(range(5)), causal=False) == (1, 1.0)
    assert main_offset(np.eye(5), list(range(5)), causal=True) == (0, 1.0)


def test_summary_of_a_planted_layer() -> None:
    maps = make_record(src=["a", "b", "c", "d", "e"])
    sink = np.zeros((6, 6))
    sink[:, 5], sink[:, 0] = 0.9, 0.1
    uniform = np.full((6, 6), 1 / 6)
    weights = np.stack([previous(6), sink, uniform, np.eye(6)])
    summaries = summarise(with_weights(maps, "enc", 1, weights), "enc", 1)
    assert summaries[0].offset == -1
    assert summaries[0].offset_share == 1.0
    assert summaries[0].entropy == 0.0
    assert summaries[1].special == pytest.approx(0.9)
    assert summaries[1].entropy == pytest.approx(-0.9 * math.log(0.9) - 0.1 * math.log(0.1))
    assert summaries[2].special == pytest.approx(1 / 6)
    assert summaries[3].special == 0.0  # the end of sentence looks at itself, but is no word


def test_a_cross_head_has_no_offset_and_numbers_stay() -> None:
    maps = make_record().select(heads=[1])
    summaries = summarise(maps, "cross", 2)
    assert list(summaries) == [1]
    assert summaries[1].offset is None

"""Masks: True = may attend."""

import torch

from seq2seq.config import PAD
from seq2seq.model.masks import causal_mask, padding_mask


def test_words_are_true_and_padding_false():
    ids = torch.tensor([[7, 5, 3], [8, 3, PAD], [PAD, PAD, PAD]])
    mask = padding_mask(ids, PAD)
    assert mask.dtype is torch.bool
    assert mask.shape == (3, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True] * 3, [True, True, False], [False] * 3]


def test_no_mask_where_there_is_no_padding():
    assert padding_mask(torch.tensor([[7, 5], [8, 3]]), PAD) is None


def test_another_id_may_be_the_padding():
    assert padding_mask(torch.tensor([[7, 5]]), 5)[0, 0, 0].tolist() == [True, False]


def test_elsewhere_than_on_a_cpu_nothing_is_waited_for():
    # Looking for padding there would stop its queue; a meta tensor cannot be looked at.
    mask = padding_mask(torch.ones(2, 3, dtype=torch.int64, device="meta"), PAD)
    assert mask.shape == (2, 1, 1, 3)


def test_causal():
    mask = causal_mask(5)
    assert mask.dtype is torch.bool
    assert all(mask[i, j].item() == (j <= i) for i in range(5) for j in range(5))
    assert causal_mask(0).shape == (0, 0)

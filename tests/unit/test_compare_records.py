"""What may be laid over what: same tokens, else the same words in the same places."""

from __future__ import annotations

import numpy as np
import pytest
from attention_samples import make_record

from seq2seq.analysis.compare import moved, overlay
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import AttentionError
from seq2seq.errors import UnfitError

SOURCE = ["▁It", "▁was", "▁slow", "."]
TARGET = ["▁Es", "▁war", "▁lang", "sam", "."]


def record(source=SOURCE, target=TARGET, seed=0):
    return make_record(source, target, seed=seed)


def test_the_same_tokens_stay_pieces():
    a, b = record(), record(seed=1)
    assert overlay(a, b, "cross") == (a, b)


def test_other_pieces_of_the_same_words_are_compared_by_words():
    a, b = record(), record(target=["▁Es", "▁w", "ar", "▁langsam", "."])
    ours, theirs = overlay(a, b, "cross")
    assert ours.level == theirs.level == "word"
    assert ours.tgt_out == theirs.tgt_out == ["Es", "war", "langsam.", "</s>"]
    assert np.array_equal(ours.cross[0], to_words(a).cross[0])
    assert overlay(a, b, "enc") == (a, b)  # the sources are the same


def test_words_may_differ_in_their_places():
    ours, theirs = overlay(record(), record(["▁It", "▁was", "▁long", "."]), "enc")
    assert ours.src == ["It", "was", "slow.", "</s>"]
    assert theirs.src == ["It", "was", "long.", "</s>"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (["▁It", "▁was", "▁very", "▁slow", "."], "A has 4 source words, B has 5"),
        (["▁She", "▁is", "▁here", "."], "only 1 of 4 source words are the same in place"),
        (["▁was", "▁It", "▁slow", "."], None),  # half of them, with </s>
    ],
)
def test_other_sentences_are_refused_with_a_reason(source, words):
    if words is None:
        assert overlay(record(), record(source), "enc")[1].src[:2] == ["was", "It"]
        return
    with pytest.raises(UnfitError, match=words):
        overlay(record(), record(source), "enc")
    with pytest.raises(UnfitError, match="cross-attention"):
        overlay(record(), record(source), "cross")
    overlay(record(), record(source), "dec")  # the targets are the same


def test_targets_count_where_they_are_drawn():
    longer = record(target=["▁Es", "▁war", "▁sehr", "▁lang", "sam", "."])
    with pytest.raises(UnfitError, match="A has 4 target words, B has 5"):
        overlay(record(), longer, "dec")
    overlay(record(), longer, "enc")


def test_an_unknown_kind_is_refused():
    with pytest.raises(AttentionError, match="no attention kind 'self'"):
        overlay(record(), record(), "self")


def test_moved_mass_is_half_of_the_differences():
    a, b = np.array([[1.0, 0, 0], [0.5, 0.5, 0]]), np.array([[0, 0, 1.0], [0.5, 0.25, 0.25]])
    assert moved(a, b).tolist() == [1.0, 0.25]
    assert moved(a, a).tolist() == [0, 0]

"""Ranks of pieces, by counting text and by a list of words."""

import pytest
from attention_samples import SENTENCES, make_tokenizer

from seq2seq.analysis.frequency import count_pieces, ranks, read_frequencies
from seq2seq.errors import UserError


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def test_pieces_are_counted_as_the_model_reads_them(tokenizer):
    lines = [source for source, _ in SENTENCES]
    counts = count_pieces(tokenizer, [*lines, "", " "])
    by_hand = [
        piece for ids in tokenizer.encode_source(lines) for piece in tokenizer.source_pieces(ids)
    ]
    assert counts.total() == len(by_hand)
    assert all(counts[piece] == by_hand.count(piece) for piece in set(by_hand))


def test_ranks_say_how_many_are_more_common():
    assert ranks({"a": 5, "b": 9, "c": 5, "d": 1}) == {"b": 0, "a": 1, "c": 1, "d": 3}
    assert ranks({}) == {}


def test_pieces_of_a_word_count_as_often_as_the_word(tokenizer, tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("the\t70\ndatabase 3\n\nthe 5\n", encoding="utf-8")
    counts = read_frequencies(path, tokenizer, "--freq")
    expected = {}
    for word, times in (("the", 75), ("database", 3)):
        for piece in tokenizer.source_pieces(tokenizer.encode_source([word])[0]):
            expected[piece] = expected.get(piece, 0) + times
    assert counts == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 5\nhouse\n", "--freq: .*words.tsv, line 2 is not a word and its count: 'house'"),
        ("the five\n", "line 1 is not a word"),
        ("5\n", "line 1 is not a word"),
        ("the -5\n", "line 1 is not a word"),
        ("\n", "holds no word"),
    ],
)
def test_what_is_no_list_is_refused(tokenizer, tmp_path, text, message):
    path = tmp_path / "words.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_frequencies(path, tokenizer, "--freq")

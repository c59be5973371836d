from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from attention_samples import make_record, make_tokenizer, with_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.analysis.words import is_unspaced, merge, spell, to_words, word_starts


def words_of(pieces, special=None):
    starts = word_starts(pieces, special or [False] * len(pieces))
    return [spell(pieces[a:b]) for a, b in pairwise(starts)]


def test_the_example_by_hand() -> None:
    maps = make_record()  # ▁it ▁appli cation </s>
    rows = [[0.5, 0.2, 0.2, 0.1], [0.1, 0.6, 0.2, 0.1], [0.3, 0.3, 0.3, 0.1], [0.25] * 4]
    maps = with_weights(maps, "enc", 0, np.array([rows] * 4))
    merged = to_words(maps)
    assert merged.src == ["it", "application", "</s>"]
    expected = [[0.5, 0.4, 0.1], [0.2, 0.7, 0.1], [0.25, 0.5, 0.25]]
    assert np.allclose(merged.enc[0], [expected] * 4, atol=1e-15)


def test_decoder_rows_are_words_read_cross_rows_words_written() -> None:
    maps = make_record()  # ▁die ▁Anwen dung ▁war
    merged = to_words(maps)
    assert merged.tgt_in == ["<s>", "die", "Anwendung", "war"]
    assert merged.tgt_out == ["die", "Anwendung", "war", "</s>"]
    # "Anwendung" is read in rows 2 and 3, and written in rows 1 and 2.
    old, new = maps.dec[1][0], merged.dec[1][0]
    assert new[2, 2] == pytest.approx((old[2, 2:4].sum() + old[3, 2:4].sum()) / 2)
    assert new[2, 0] == pytest.approx((old[2, 0] + old[3, 0]) / 2)
    old, new = maps.cross[1][0], merged.cross[1][0]
    assert new[1, 1] == pytest.approx((old[1, 1:3].sum() + old[2, 1:3].sum()) / 2)
    assert merged.logprob[1] == pytest.approx(maps.logprob[1:3].sum())
    assert merged.special["tgt_in"].tolist() == [True, False, False, False]
    assert merged.special["tgt_out"].tolist() == [False, False, False, True]


def test_the_merged_record_is_sound_and_merging_again_changes_nothing() -> None:
    merged = to_words(make_record())
    merged.check()
    assert merged.level == "word"
    assert to_words(merged) is merged


def test_a_hypothesis_cut_within_a_word() -> None:
    maps = make_record(tgt=["▁die", "▁Anwen", "dung"])
    # Without the end of sentence: the last piece is written but never read.
    size = 3
    maps = replace(
        maps,
        dec=[w[:, :size, :size] for w in maps.dec],
        cross=[w[:, :size] for w in maps.cross],
        tgt_in=maps.tgt_in[:size],
        tgt_out=maps.tgt_out[:size],
        special={k: v if k == "src" else v[:size] for k, v in maps.special.items()},
        logprob=maps.logprob[:size],
    )
    merged = to_words(maps)
    assert merged.tgt_in == ["<s>", "die", "Anwen"]
    assert merged.tgt_out == ["die", "Anwendung"]
    merged.check()


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁it", "▁appli", "cation"], ["it", "application"]),
        (["▁", "彼", "▁x"], ["彼", "x"]),  # the mark alone joins the next piece
        (["▁", "▁a"], ["a"]),
        (["▁a", "▁"], ["a"]),  # or, at the end, the one before
        (["▁"], [""]),
        (["x", "y", "▁z"], ["xy", "z"]),  # text without a mark in front
        (["▁1", "2", "3", "▁4"], ["123", "4"]),
        (["▁the", "▁the"], ["the", "the"]),
        (["▁", "<0xE5>", "<0xBD>", "<0xBC>", "x"], ["彼x"]),  # byte fallback
        (["▁&quot;", "▁<", "0x41", ">"], ["&quot;", "<0x41>"]),  # text that looks like a byte
    ],
)
def test_words_from_pieces(pieces, words) -> None:
    assert words_of(pieces) == words


def test_control_tokens_are_never_merged() -> None:
    pieces = ["<2de>", "▁a", "b", "</s>", "c", "</s>", "<pad>"]
    special = [True, False, False, True, False, True, True]
    assert words_of(pieces, special) == ["<2de>", "ab", "</s>", "c", "</s>", "<pad>"]


@pytest.mark.parametrize("end", [True, False])
def test_the_last_word_is_merged_with_and_without_an_end(end) -> None:
    pieces = ["▁appli", "cation", *(["</s>"] if end else [])]
    special = [False, False, *([True] if end else [])]
    assert words_of(pieces, special)[0] == "application"


@pytest.mark.parametrize("script", ["彼女 は 来 た", "▁これ は 日本 語", "ภาษา ไทย", "ខ្មែរ", "猫"])
def test_scripts_without_spaces_keep_their_pieces(script) -> None:
    pieces = script.split()
    maps = make_record(src=pieces)
    merged = to_words(maps)
    assert merged.src == [*pieces, "</s>"]
    assert merged.tgt_out == ["die", "Anwendung", "war", "</s>"]
    assert merged.meta["notices"] == ["the source does not space its words: pieces are shown"]
    merged.check()


@pytest.mark.parametrize("text", ["it application", "학교에 간다", "שלום", "", "12 %", "x 彼 yz"])
def test_scripts_with_spaces_are_merged(text) -> None:
    assert not is_unspaced([text])


def test_words_joined_are_the_detokenised_text() -> None:
    tokenizer = make_tokenizer()
    for text in ("Der Entwickler lieferte die Anwendung aus.", "weil sie  bereit war, 12 x"):
        ids = tokenizer.encode_target([text])[0]
        pieces = tokenizer.target_pieces(ids)
        words = words_of(pieces)
        expected = tokenizer.decode_target(ids)
        if "<unk>" not in pieces:
            assert " ".join(words) == expected
        assert not any("▁" in word or " " in word for word in words)
        assert len(words) == len(text.split())


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 999))
def test_any_grouping_keeps_row_sums(queries, keys, seed) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(keys), size=(2, queries))
    rows = [0, *sorted(rng.choice(np.arange(1, queries), rng.integers(0, queries), False)), queries]
    columns = [0, *sorted(rng.choice(np.arange(1, keys), rng.integers(0, keys), False)), keys]
    merged = merge(weights, rows, columns)
    assert np.allclose(merged.sum(-1), 1, atol=1e-12)
    for i in range(len(rows) - 1):  # by the definition, cell by cell
        for j in range(len(columns) - 1):
            block = weights[0, rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
            assert merged[0, i, j] == pytest.approx(block.sum(1).mean())

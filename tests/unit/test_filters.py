"""Which training pairs are dropped, why, and that every one of them is counted."""

from __future__ import annotations

import pytest

from seq2seq.config import DataConfig
from seq2seq.data.filters import PairFilter, pair_hash

BLANK = [
    "",
    " ",
    "\t",
    "\u00a0",
    "\u3000",
    "\u200b",
    "\ufeff",
    " \u200b\u00a0 ",
    "\u2028",
    "\u2060",
]


@pytest.mark.parametrize("blank", BLANK)
def test_a_pair_with_a_blank_side_is_dropped_as_a_pair(blank: str) -> None:
    filters = PairFilter(DataConfig())
    assert not filters.keeps_text(blank, "A")
    assert not filters.keeps_text("a", blank)
    assert not filters.keeps_text(blank, blank)
    assert filters.keeps_text(f"a{blank}", f"{blank}A")
    assert filters.counts == {"empty": 3}


def test_identical_pairs_are_kept_unless_asked_otherwise() -> None:
    copy = PairFilter(DataConfig())
    assert copy.keeps_text("42", "42")
    filters = PairFilter(DataConfig(drop_identical=True))
    assert not filters.keeps_text("Berlin", " Berlin ")
    assert filters.keeps_text("Berlin", "berlin")
    assert filters.counts == {"identical": 1}


def test_a_pair_with_one_side_too_long() -> None:
    filters = PairFilter(DataConfig(max_length=100))
    assert filters.keeps_lengths(100, 100)
    assert not filters.keeps_lengths(101, 100)
    assert not filters.keeps_lengths(100, 101)
    assert not filters.keeps_lengths(20_000, 20_000)
    assert filters.counts == {"too long": 3}


def test_a_pair_of_too_unequal_lengths() -> None:
    filters = PairFilter(DataConfig(max_ratio=3.0))
    assert filters.keeps_lengths(4, 12)  # the ratio itself is allowed
    assert not filters.keeps_lengths(4, 13)
    assert not filters.keeps_lengths(13, 4)
    assert filters.keeps_lengths(1, 10)  # too short for the ratio to mean anything
    assert not filters.keeps_lengths(1, 11)
    assert filters.counts == {"length ratio": 3}
    unlimited = PairFilter(DataConfig(max_ratio=0.0))
    assert unlimited.keeps_lengths(1, 200)


def test_a_side_without_pieces_is_empty() -> None:
    filters = PairFilter(DataConfig())
    assert not filters.keeps_lengths(0, 5)
    assert not filters.keeps_lengths(5, 0)
    assert filters.counts == {"empty": 2}


def test_hashes_tell_sides_apart_and_fit_into_64_bits() -> None:
    pairs = [("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("a", "B"), ("é", "e\u0301")]
    hashes = {pair_hash(*pair) for pair in pairs}
    assert len(hashes) == len(pairs)
    assert all(0 <= value < 1 << 64 for value in hashes)
    # The same in every process: the first 8 bytes of BLAKE2b of "a\nb", computed with b2sum.
    assert pair_hash("a", "b") == int.from_bytes(bytes.fromhex("a76de9f2d561975f"), "little")

"""The token store: what is in it, in which order, and that it is built once and whole."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from seq2seq.choices import SubwordKind
from seq2seq.config import DataConfig, TokenizerConfig
from seq2seq.data import store as store_module
from seq2seq.data.store import TokenStore, build_once, build_store, open_store
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import UserError

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    alphabet = ["abcdefgh ABCDEFGH 0123456789"]
    return train_tokenizer(TokenizerConfig(kind=SubwordKind.char), alphabet, alphabet)


def built(pairs: Pairs, tokenizer: Tokenizer, folder: Path, **options: object) -> TokenStore:
    return build_store(pairs, tokenizer, DataConfig(**options), folder)  # type: ignore[arg-type]


def texts(store: TokenStore, tokenizer: Tokenizer) -> Pairs:
    rows = [[store.sentence(side, i).tolist() for side in (0, 1)] for i in range(len(store))]
    return [(tokenizer.decode_target(s), tokenizer.decode_target(t)) for s, t in rows]


def test_pairs_never_shift(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Blank lines on one side take their partner with them, and only that."""
    pairs = [("a", "A"), ("b", ""), ("", "C"), ("d", "D"), ("\u200b", "E"), ("f", "\u00a0")]
    store = built(pairs, tokenizer, tmp_path / "store")
    assert texts(store, tokenizer) == [("a", "A"), ("d", "D")]
    assert store.counts == {"empty": 4}


def test_every_reason_is_counted(tokenizer: Tokenizer, tmp_path: Path) -> None:
    pairs = [
        ("a b c", "A B C"),
        ("", "A"),
        ("a" * 20_000, "A"),
        ("a b c d e f g h", "A"),
        ("a", "a"),
        ("a b c", "A B C"),
        ("b", "B"),
    ]
    options = {"max_length": 30, "max_ratio": 3.0, "drop_identical": True}
    store = built(pairs, tokenizer, tmp_path / "store", **options)
    assert texts(store, tokenizer) == [("a b c", "A B C"), ("b", "B")]
    expected = {"empty": 1, "too long": 1, "length ratio": 1, "identical": 1, "duplicate": 1}
    assert store.counts == expected
    assert len(pairs) == len(store) + sum(store.counts.values())


def test_the_first_of_equal_pairs_is_kept(tokenizer: Tokenizer, tmp_path: Path) -> None:
    pairs = [("c", "C"), ("a", "A"), ("b", "B"), ("a", "A"), ("c", "D"), ("c", "C"), ("b", "B")]
    store = built(pairs, tokenizer, tmp_path / "once")
    assert texts(store, tokenizer) == [("c", "C"), ("a", "A"), ("b", "B"), ("c", "D")]
    assert store.order.tolist() == [0, 1, 2, 4]
    assert store.counts == {"duplicate": 3}
    every = built(pairs, tokenizer, tmp_path / "all", drop_duplicates=False)
    assert texts(every, tokenizer) == pairs
    assert every.counts == {}


def test_duplicates_are_found_across_chunks(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "CHUNK", 2)
    pairs = [(c, c.upper()) for c in "abcdabeaf"]
    store = built(pairs, tokenizer, tmp_path / "store")
    assert "".join(source for source, _ in texts(store, tokenizer)) == "abcdef"


def test_lengths_are_pieces(tokenizer: Tokenizer, tmp_path: Path) -> None:
    store = built([("ab", "A"), ("ab", "A"), ("", "A"), ("a", "ABC D")], tokenizer, tmp_path / "s")
    assert store.lengths(0).tolist() == [3, 2]  # the mark of a word's beginning counts
    assert store.lengths(1).tolist() == [2, 6]


def test_it_is_read_through_the_memory_map(tokenizer: Tokenizer, tmp_path: Path) -> None:
    store = built([("a", "A")] * 3, tokenizer, tmp_path / "store", drop_duplicates=False)
    for ids in store.ids:
        assert isinstance(ids, np.memmap)
        assert ids.dtype == np.uint16
        with pytest.raises(ValueError, match="read-only"):
            ids[0] = 1


def test_memory_does_not_grow_with_the_text(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More text costs building no more than its lengths and hashes."""
    monkeypatch.setattr(store_module, "CHUNK", 500)

    def pairs(count: int) -> Iterator[tuple[str, str]]:
        return ((f"{i} " + "abc " * 10, f"{i} " + "ABC " * 10) for i in range(count))

    def peak(count: int, name: str) -> int:
        tracemalloc.start()
        try:
            build_store(pairs(count), tokenizer, DataConfig(), tmp_path / name)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    grown = peak(6000, "more") - peak(1000, "less")
    assert grown < 5000 * 100  # bytes a pair; its ids alone are some 180
    assert len(open_store(tmp_path / "more")) == 6000


def test_it_is_built_once(tokenizer: Tokenizer, tmp_path: Path) -> None:
    first = built([("a", "A"), ("", "B")], tokenizer, tmp_path / "deep" / "store")

    def never() -> Iterator[tuple[str, str]]:
        raise AssertionError("read again")
        yield

    second = build_store(never(), tokenizer, DataConfig(), tmp_path / "deep" / "store")
    assert texts(second, tokenizer) == texts(first, tokenizer)
    assert second.counts == first.counts == {"empty": 1}
    assert second.name == "store"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, UserError])
def test_an_interrupted_build_leaves_nothing(
    tokenizer: Tokenizer, tmp_path: Path, error: type[BaseException]
) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield from [("a", "A")] * (store_module.CHUNK + 1)
        raise error

    with pytest.raises(error):
        build_store(broken(), tokenizer, DataConfig(), tmp_path / "store")
    assert list(tmp_path.iterdir()) == []
    assert len(built([("a", "A")], tokenizer, tmp_path / "store")) == 1


def test_two_processes_that_build_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "made"

    def slow(building: Path) -> None:
        build_once(folder, lambda other: (other / "by").write_text("the other"))  # type: ignore[arg-type, return-value]
        (building / "by").write_text("this one")

    build_once(folder, slow)
    assert (folder / "by").read_text() == "the other"
    assert list(tmp_path.iterdir()) == [folder]


def test_nothing_left_is_said_with_the_reasons(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"all 3 training pairs \(2 empty, 1 too long\)"):
        built([("", "A"), ("a", ""), ("a" * 99, "A")], tokenizer, tmp_path / "s", max_length=20)
    with pytest.raises(UserError, match="has no sentence pairs"):
        built([], tokenizer, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_large_vocabularies_take_wider_ids(tmp_path: Path) -> None:
    """16 bits hold 65,536 ids, and no more."""

    class Wide:
        source_vocab = target_vocab = 70_000

        def encode_source(self, batch: list[str]) -> list[list[int]]:
            return [[69_999, 4] for _ in batch]

        encode_target = encode_source

    store = build_store([("a", "b")], Wide(), DataConfig(), tmp_path / "s")  # type: ignore[arg-type]
    assert store.sentence(0, 0).tolist() == [69_999, 4]

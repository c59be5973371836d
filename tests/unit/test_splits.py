"""Dev and test split off a training text: reproducible, disjoint, without leaks."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data import splits
from seq2seq.data.splits import Split, draw_places, scan, split_off

Pairs = list[tuple[str, str]]


def numbered(count: int) -> Pairs:
    return [(f"s{i}", f"t{i}") for i in range(count)]


def split(pairs: Pairs, dev: int = 1000, test: int = 1000, seed: int = 1) -> Split:
    return split_off(pairs, scan(pairs, frozenset()), dev_size=dev, test_size=test, seed=seed)


@pytest.mark.parametrize(
    ("pairs", "dev", "test", "sizes"),
    [
        (20, 1000, 1000, (1, 1)),  # 5 % of 20 is 1
        (39, 1000, 1000, (1, 1)),
        (40, 1000, 1000, (2, 2)),
        (1000, 1000, 7, (50, 7)),
        (1000, 0, 3, (0, 3)),
        (1000, 3, 0, (3, 0)),
    ],
)
def test_sizes(pairs: int, dev: int, test: int, sizes: tuple[int, int]) -> None:
    found = split(numbered(pairs), dev, test)
    assert (len(found.dev), len(found.test)) == sizes
    assert found.removed == sum(sizes)
    assert not found.memory


@given(st.lists(st.sampled_from(["", " ", "a", "b", "c", "d", "e", "f"]), max_size=150), st.data())
@settings(deadline=None, derandomize=True, max_examples=80)
def test_any_text(sources: list[str], data: st.DataObject) -> None:
    pairs = [(source, data.draw(st.sampled_from(["", "x", "y", "z", "w"]))) for source in sources]
    found = split(pairs, 5, 5)
    usable = [(s, t) for s, t in pairs if s.strip() and t]
    assert set(found.dev) <= set(usable)
    assert len(set(found.dev)) == len(found.dev)
    if len(set(usable)) < 20:
        assert found.memory
        assert not found.held_out
        assert not found.test
        assert found.dev == list(dict.fromkeys(usable))[:5]
    else:
        assert not set(found.dev) & set(found.test)
        assert set(found.test) <= set(usable)
        assert found.removed == sum(pair in found.dev or pair in found.test for pair in pairs)


def test_nineteen_different_pairs_are_too_few_however_often_repeated() -> None:
    found = split(numbered(19) * 50)
    assert found.memory
    assert found.dev == numbered(19)
    assert found.test == []
    assert split(numbered(1)).dev == numbered(1)


def test_repeated_pairs_leave_training_altogether_but_do_not_eat_it() -> None:
    """200 lines of 30 different pairs: one goes to dev, one to test, 28 stay to be learnt."""
    pairs = numbered(30) * 7
    random.Random(5).shuffle(pairs)
    found = split(pairs)
    assert len(found.dev) == len(found.test) == 1
    assert found.removed == 14


@pytest.mark.parametrize("seed", range(30))
def test_no_pair_is_drawn_twice_from_a_text_of_repeats(seed: int) -> None:
    found = split(numbered(40) * 5, seed=seed)
    assert len(found.dev) == len(found.test) == 2
    assert len(found.held_out) == 4


def test_blank_pairs_are_never_drawn() -> None:
    pairs = [(f"s{i}", "") if i % 10 else (f"s{i}", f"t{i}") for i in range(2000)]
    found = split(pairs)
    assert len(found.dev) == len(found.test) == 10  # 5 % of the 200 pairs with text
    assert all(target for _, target in found.dev + found.test)


def test_the_choice_follows_from_seed_and_number_of_lines() -> None:
    pairs, others = numbered(500), [(f"{i} x", f"{i} y") for i in range(500)]
    first, again, other_text = split(pairs), split(pairs), split(others)
    assert first == again
    places = [int(source[1:]) for source, _ in first.dev + first.test]
    assert places == [int(source.split()[0]) for source, _ in other_text.dev + other_text.test]
    assert places != [int(source[1:]) for source, _ in split(pairs, seed=2).dev]
    assert len(set(places)) == 50
    assert min(places) < 100 < 400 < max(places)  # from all over the text, not from its end


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_places_are_a_permutation(count: int) -> None:
    assert sorted(draw_places(count, 3)) == list(range(count))


def test_places_of_a_long_text_begin_alike_however_many_are_taken() -> None:
    places = draw_places(10**9, 1)
    first = [next(places) for _ in range(5)]
    again = draw_places(10**9, 1)
    assert [next(again) for _ in range(9)][:5] == first


def test_scan_counts() -> None:
    pairs = [("a", "A"), ("b", ""), ("\u200b", "B"), ("a", "A"), ("c", "C")]
    found = scan(pairs, frozenset({("c", "C"), ("d", "D"), ("b", "")}))
    assert (found.pairs, found.usable, found.distinct, found.known) == (5, 3, 2, 2)


def test_scan_digest_sees_every_change_and_the_border_between_sides() -> None:
    texts: list[Pairs] = [
        [("a", "b")],
        [("a", "c")],
        [("ab", "")],
        [("", "ab")],
        [("a", "b"), ("", "")],
        [("a", "b"), ("a", "b")],
    ]
    assert len({scan(text, frozenset()).digest for text in texts}) == len(texts)


def test_scan_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, pairs count as different rather than being remembered."""
    monkeypatch.setattr(splits, "COUNT_EXACTLY", 10)
    assert scan(numbered(9) * 2, frozenset()).distinct == 9
    assert scan(numbered(10) * 2, frozenset()).distinct == 20

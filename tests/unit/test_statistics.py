"""Statistics of heads over many sentences: planted heads, numbers by hand, rows pooled."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights, without_heads

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.roles import Thresholds, detect, main_role, with_roles
from seq2seq.analysis.statistics import (
    COMMON,
    FIRST,
    HeadStatistics,
    is_punctuation,
    variability,
)
from seq2seq.attention_maps import AttentionError, AttentionMaps
from seq2seq.errors import UserError

Plant = Callable[[int], np.ndarray]


def words(count: int) -> list[str]:
    return [f"▁w{i}" for i in range(count)]


def previous(n: int) -> np.ndarray:
    return np.eye(n)[[max(i - 1, 0) for i in range(n)]]


def following(n: int) -> np.ndarray:
    return np.eye(n)[[min(i + 1, n - 1) for i in range(n)]]


def uniform(n: int) -> np.ndarray:
    return np.full((n, n), 1 / n)


def causal_uniform(n: int) -> np.ndarray:
    return np.tri(n) / np.tri(n).sum(-1, keepdims=True)


def separator(n: int) -> np.ndarray:
    rows = np.full((n, n), 0.2 / (n - 1))
    rows[:, -1] = 0.8
    return rows


def mixture(n: int) -> np.ndarray:
    """Even rows look back, odd rows look two ahead: no single offset."""
    return np.array([previous(n)[i] if i % 2 else np.eye(n)[min(i + 2, n - 1)] for i in range(n)])


def plain(maps: AttentionMaps) -> AttentionMaps:
    """The record with no control tokens, so that every row counts."""
    return replace(maps, special={s: np.zeros_like(m) for s, m in maps.special.items()})


def planted(n: int, plants: list[Plant], kind: str = "enc", source: list[str] | None = None):
    """A record of n positions with one layer of heads; position n - 1 of the source is </s>."""
    shape = {k: (1, len(plants)) for k in ("enc", "dec", "cross")}
    maps = make_record(source or words(n - 1), words(n - 1), shape=shape)
    return with_weights(maps, kind, 0, np.stack([plant(n) for plant in plants]))


def row_of(records, head: str, **options):
    statistics = HeadStatistics(**options)
    for maps in records:
        statistics.add(maps)
    return statistics.table().rows[HeadId.parse(head)]


class TestNumbers:
    def test_a_uniform_head(self):
        row = row_of([plain(planted(6, [uniform]))], "enc.0.0")
        assert row["entropy"] == pytest.approx(math.log(6))
        assert row["entropy_share"] == pytest.approx(1)
        assert row["uniform_entropy"] == pytest.approx(math.log(6))
        assert row["confidence"] == pytest.approx(1 / 6)
        assert row["distance"] == pytest.approx(1.9444444444)
        assert row["rows"] == 6

    def test_a_causal_uniform_head_is_as_broad_as_it_can_be(self):
        row = row_of([plain(planted(4, [causal_uniform], "dec"))], "dec.0.0")
        assert row["entropy"] == pytest.approx(0.7945134576)
        assert row["entropy_share"] == pytest.approx(1)  # not 0.573, as dividing by ln 4 would give
        assert row["uniform_entropy"] == pytest.approx(0.7945134576)

    def test_a_one_hot_head(self):
        row = row_of([plain(planted(6, [previous]))], "enc.0.0")
        assert row["entropy"] == 0
        assert row["confidence"] == 1
        assert row["distance"] == pytest.approx(5 / 6)  # row 0 looks at itself

    def test_the_lessons_example(self):
        a, b = 0.6697615493266569, 0.3302384506733431
        head = np.array([[a, b], [b, a]])
        row = row_of([plain(planted(2, [lambda _: head]))], "enc.0.0")
        assert row["confidence"] == pytest.approx(0.6697615493)

    @pytest.mark.parametrize("n", [2, 3, 5, 9])
    @pytest.mark.parametrize("kind", ["enc", "dec"])
    def test_a_previous_token_head_has_share_one_at_every_length(self, n, kind):
        row = row_of([plain(planted(n, [previous], kind))], f"{kind}.0.0")
        assert row["previous"] == 1
        assert row["previous_mass"] == 1
        if n > 2:
            assert (row["offset"], row["offset_share"]) == (-1, 1)
        assert row["itself"] == pytest.approx(1 / n)
        assert ("next" in row) == (kind == "enc")
        assert row.get("next", 0) == 0

    def test_next_is_not_previous(self):
        row = row_of([plain(planted(5, [following]))], "enc.0.0")
        assert (row["next"], row["previous"], row["offset"]) == (1, 0, 1)
        assert row["next_mass"] == 1

    def test_mass_on_controls_and_punctuation_by_kind_of_row(self):
        source = ["▁w", ",", "▁«", "▁x"]
        head = np.array([[0.1, 0.2, 0.3, 0.1, 0.3]] * 4 + [[0, 0, 0, 0.1, 0.9]])
        maps = planted(5, [lambda _: head], source=source)
        row = row_of([maps], "enc.0.0")
        assert row["special_mass"] == pytest.approx(0.3)
        assert row["punctuation_mass"] == pytest.approx(0.5)
        assert row["special_mass_of_special"] == pytest.approx(0.9)
        assert row["confidence"] == pytest.approx(0.3)  # </s> has as much, but is no word
        assert row["rows"] == 4
        row = row_of([maps], "enc.0.0", special_rows=True)
        assert row["rows"] == 5
        assert row["special_mass"] == pytest.approx((4 * 0.3 + 0.9) / 5)

    def test_what_is_punctuation(self):
        assert all(map(is_punctuation, [".", "▁,", "▁«", "—", "...", "。"]))
        assert not any(map(is_punctuation, ["", "▁", "a.", "▁5", "$", "+"]))

    def test_cross_attention_has_no_offsets(self):
        row = row_of([make_record()], "cross.2.1")
        assert not {"distance", "previous", "offset", "offset_share", "next_mass"} & set(row)
        assert row["entropy"] > 0


class TestPooling:
    def test_means_are_over_rows_not_sentences(self):
        records = [plain(planted(n, [uniform if n == 3 else previous])) for n in (3, 9)]
        row = row_of(records, "enc.0.0")
        assert row["rows"] == 12
        assert row["entropy"] == pytest.approx(3 * math.log(3) / 12)
        # a uniform head's maximum is key 0: of its rows 1 and 2, row 1 has it one before
        assert row["previous"] == pytest.approx((1 + 8) / (2 + 8))

    def test_any_record_by_brute_force(self):
        records = [make_record(words(n), words(n + 1), seed=n) for n in (3, 5, 8)]
        row = row_of(records, "dec.1.0")
        entropies, shares, distances, back = [], [], [], []
        for maps in records:
            matrix = maps.head("dec", 1, 0).astype(float)
            for i in range(1, len(matrix)):  # row 0 is <s>
                seen = [a for a in matrix[i] if a > 0]
                entropies.append(-sum(a * math.log(a) for a in seen))
                shares.append(entropies[-1] / math.log(i + 1))
                distances.append(sum(a * abs(i - j) for j, a in enumerate(matrix[i])))
                back.append(matrix[i].argmax() == i - 1)
        assert row["entropy"] == pytest.approx(np.mean(entropies))
        assert row["entropy_share"] == pytest.approx(np.mean(shares))
        assert row["distance"] == pytest.approx(np.mean(distances))
        assert row["previous"] == pytest.approx(np.mean(back))

    def test_order_of_sentences_does_not_matter_and_one_by_one_is_together(self):
        records = [make_record(words(n), seed=n) for n in (3, 7, 4)]
        assert row_of(records, "cross.0.1") == pytest.approx(row_of(records[::-1], "cross.0.1"))

    def test_numbers_of_pruned_heads_stay(self):
        maps = make_record()
        whole, pruned = HeadStatistics(), HeadStatistics()
        whole.add(maps)
        pruned.add(without_heads(maps, "enc", 1, [1, 3]))
        rows = pruned.table().rows
        assert [h.head for h in rows if h.place == ("enc", 1)] == [1, 3]
        assert rows[HeadId("enc", 1, 3)] == whole.table().rows[HeadId("enc", 1, 3)]

    def test_permuted_heads_permute_the_table(self):
        maps = make_record()
        order = [2, 0, 3, 1]
        permuted = with_weights(maps, "enc", 0, maps.layers("enc")[0][order])
        for new, old in enumerate(order):
            assert row_of([permuted], f"enc.0.{new}") == row_of([maps], f"enc.0.{old}")

    def test_a_sentence_of_control_tokens_only_counts_for_nothing(self):
        empty = make_record([], [])
        records = [make_record(), empty]
        assert row_of(records, "enc.1.2") == row_of(records[:1], "enc.1.2") | {
            "special_mass_of_special": row_of(records, "enc.1.2")["special_mass_of_special"]
        }

    def test_records_of_different_models_do_not_mix(self):
        statistics = HeadStatistics()
        statistics.add(make_record())
        with pytest.raises(AttentionError, match="different models"):
            statistics.add(without_heads(make_record(), "dec", 0, [1]))

    def test_nothing_counted_is_an_error(self):
        with pytest.raises(UserError, match="no sentence"):
            HeadStatistics().table()

    def test_memory_does_not_grow_with_sentences(self):
        statistics, maps = HeadStatistics(), make_record(words(30), words(30))
        for _ in range(220):  # beyond the sample that variability keeps
            statistics.add(maps)
        tracemalloc.start()
        for _ in range(100):
            statistics.add(maps)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 20_000  # one sentence's maps alone are 130 kB


class TestVariability:
    def test_a_head_that_knows_positions_only_does_not_vary(self):
        records = [planted(n, [previous, uniform]) for n in (FIRST + 1, FIRST + 6, FIRST + 9)]
        assert row_of(records, "enc.0.0")["variability"] == 0
        assert row_of(records, "enc.0.1")["variability"] > 0  # 1/n differs with n

    @pytest.mark.parametrize("m", [2, 3, 5])
    def test_maps_with_nothing_in_common(self, m):
        blocks = [np.eye(m)[[i] * 4][None] for i in range(m)]  # sentence i looks at key i
        assert variability(blocks) == pytest.approx([1 - 1 / m])

    def test_short_sentences_are_left_out(self):
        assert "variability" not in row_of([planted(FIRST, [previous])], "enc.0.0")
        assert row_of([planted(FIRST + 1, [previous])], "enc.0.0")["variability"] == 0
        assert row_of([planted(FIRST + 1, [previous], "dec")], "dec.0.0")["variability"] == 0


RANKS = {f"▁w{i}": i for i in range(COMMON)} | {"▁rare": COMMON, "▁rarer": COMMON + 1}


def rare_head(source: list[str]) -> Plant:
    return lambda n: np.eye(n)[[source.index("▁rarer")] * n]


class TestRoles:
    def roles(self, plants: list[Plant], ranks=None, source=None, limits=None):
        statistics = HeadStatistics(ranks=ranks)
        for n in (8, 12) if source is None else (len(source) + 1,):
            statistics.add(planted(n, plants, source=source))
        found = detect(statistics.table(), limits)
        return [[r.name for r in found[HeadId("enc", 0, i)]] for i in range(len(plants))]

    def test_one_planted_head_for_each_role_and_a_mixture_that_has_none(self):
        source = ["▁w1", "▁rare", "▁w2", "▁w3", "▁rarer", "▁w4", "▁w5", "▁w6"]
        plants = [previous, following, separator, uniform, rare_head(source), mixture, np.eye]
        found = self.roles(plants, RANKS, source)
        assert found == [["previous"], ["next"], ["separator"], ["broad"], ["rare token"], [],
                         ["itself"]]  # fmt: skip

    def test_an_offset_further_away_is_named(self):
        third = lambda n: np.eye(n)[[max(i - 3, 0) for i in range(n)]]  # noqa: E731
        assert self.roles([third]) == [["offset −3"]]

    def test_rare_needs_a_piece_that_is_rare(self):
        source = [f"▁w{i}" for i in range(8)]
        last = lambda n: np.eye(n)[[7] * n]  # noqa: E731 - the rarest of common pieces
        assert self.roles([last], RANKS, source) == [[]]
        strange = [*source[:7], "▁never-seen"]
        assert self.roles([last], RANKS, strange) == [["rare token"]]

    def test_thresholds_can_be_moved_and_a_head_may_have_several_roles(self):
        limits = Thresholds(separator=0.09, broad=0.95)
        assert self.roles([uniform], limits=limits) == [["broad", "separator"]]

    def test_the_column_holds_roles_with_their_evidence(self):
        statistics = HeadStatistics()
        statistics.add(planted(8, [previous, mixture]))
        table = with_roles(statistics.table())
        assert table.columns[0].name == "roles"
        assert list(table.texts("roles").values())[:2] == ["previous 1.00", "none"]
        assert main_role("offset −3 0.95; broad 0.91") == "offset −3"
        assert main_role("none") == "none"

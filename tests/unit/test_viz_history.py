"""Pictures of heads while the model learns: the data drawn are the history's, nothing overlaps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, without_heads
from head_tables import assert_tidy, drawn_texts, heads_of, make_table

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.history import History, emergence
from seq2seq.analysis.tables import HeadTable
from seq2seq.errors import UserError
from viz.evolution import MOST_NAMES, count, evolution, is_log, spread
from viz.film import film, milestones
from viz.history_files import Wish, changed_most, files, findings
from viz.style import render

EARLY = [0, 1, 2, 4, 8, 16, 32, 64, 128, 250, 500, 1000, 1500]


def make_history(layers: int = 2, heads: int = 4, updates=EARLY) -> History:
    tables = [make_table(layers, heads, seed=n) for n, _ in enumerate(updates)]
    return History(updates, tables, ["run demo · updates", "100 dev pairs"])


def axes_named(figure, label):
    (found,) = (axes for axes in figure.axes if axes.get_label() == label)
    return found


class TestCurves:
    def test_a_line_holds_the_numbers_of_its_head(self):
        history = make_history()
        figure = evolution(history, "entropy")
        for kind in ("enc", "dec", "cross"):
            axes = axes_named(figure, f"{kind} entropy")
            for layer, head in itertools.product(range(2), range(4)):
                name = HeadId(kind, layer, head)
                (line,) = (x for x in axes.lines if x.get_label() == str(name))
                assert list(line.get_xdata()) == EARLY
                assert list(line.get_ydata()) == history.values("entropy")[name]
            colours = {
                layer: {
                    x.get_color() for x in axes.lines if x.get_label().startswith(f"{kind}.{layer}")
                }
                for layer in range(2)
            }
            assert [len(found) for found in colours.values()] == [1, 1]
            assert colours[0] != colours[1]

    def test_every_name_stands_at_the_height_of_its_curve_if_there_is_room(self):
        table = make_table(1, 3)
        ends = {0: 0.2, 1: 1.9, 2: 1.0}
        rows = {h: {**r, "entropy": ends[h.head]} for h, r in table.rows.items()}
        axes = axes_named(
            evolution(History([0, 5], [table, HeadTable(table.columns, rows)]), "entropy"),
            "enc entropy",
        )
        low, high = axes.get_ylim()
        for text in axes.texts:
            place = low + text.get_position()[1] * (high - low)
            assert place == pytest.approx(ends[int(text.get_text()[-1])], abs=1e-9)

    @pytest.mark.parametrize(
        ("size", "updates"),
        [((1, 1), EARLY), ((2, 4), [500, 1000, 1500]), ((2, 4), [0, 250_000]), ((6, 8), EARLY)],
    )
    def test_no_text_meets_another_or_leaves_the_page(self, size, updates):
        losses = [(1, 9.5), (400, 4.0), (1500, 2.0), (200_000, 1.0)]
        assert_tidy(evolution(make_history(*size, updates), "entropy", losses))
        if size == (2, 4):
            assert_tidy(evolution(make_history(*size, updates), "distance"))

    def test_heads_that_end_alike_are_named_apart(self):
        table = make_table(2, 8)
        rows = {h: {**r, "confidence": 0.5} for h, r in table.rows.items()}
        history = History([0, 9], [table, HeadTable(table.columns, rows)])
        figure = evolution(history, "confidence")
        assert_tidy(figure)
        names = [text.get_text() for text in axes_named(figure, "enc confidence").texts]
        assert names == [f"{layer}.{head}" for layer in range(2) for head in range(8)]

    def test_of_very_many_heads_those_that_stand_out_are_named(self):
        history = make_history(10, 12, [0, 10])
        figure = evolution(history, "confidence")
        axes = axes_named(figure, "enc confidence")
        names = {text.get_text() for text in axes.texts}
        assert len(names) == MOST_NAMES
        last = {h: v[-1] for h, v in history.values("confidence").items() if h.kind == "enc"}
        means = [np.mean([v for h, v in last.items() if h.layer == i]) for i in range(10)]
        far = {h: abs(v - means[h.layer]) for h, v in last.items()}
        least_named = min(v for h, v in far.items() if f"{h.layer}.{h.head}" in names)
        assert all(v <= least_named for h, v in far.items() if f"{h.layer}.{h.head}" not in names)
        assert "farthest from their layer's mean" in " ".join(t.get_text() for t in figure.texts)
        assert_tidy(figure)

    def test_losses_are_drawn_below_on_the_same_axis(self):
        losses = [(1, 8.0), (50, 4.0), (1500, 2.0), (9999, 1.0)]
        figure = evolution(make_history(), "entropy", losses)
        below, above = axes_named(figure, "dec loss"), axes_named(figure, "dec entropy")
        (line,) = below.lines
        drawn = zip(line.get_xdata(), line.get_ydata(), strict=True)
        assert list(drawn) == losses[:3]  # the last is of after the last snapshot
        assert below.get_xlim() == above.get_xlim() == (0, 1500)
        assert below.get_xscale() == above.get_xscale() == "symlog"

    def test_early_updates_need_a_logarithmic_axis(self):
        assert is_log(EARLY)
        assert not is_log([500, 1000, 1500])
        assert not is_log([0, 100])
        figure = evolution(make_history(updates=[0, 500, 1000]), "entropy")
        assert axes_named(figure, "enc entropy").get_xscale() == "linear"

    def test_a_dashed_line_shows_the_uniform_head(self):
        (line,) = (
            line
            for line in axes_named(evolution(make_history(), "entropy"), "enc entropy").lines
            if line.is_dashed()
        )
        assert set(line.get_ydata()) == {2.6}
        others = axes_named(evolution(make_history(), "confidence"), "enc confidence").lines
        assert not any(line.is_dashed() for line in others)

    def test_a_head_without_a_number_for_a_while_leaves_a_gap(self):
        history = make_history(updates=[0, 1, 2])
        head = HeadId("enc", 0, 1)
        middle = history.tables[1]
        rows = {h: {**r, "previous": None} if h == head else r for h, r in middle.rows.items()}
        tables = [history.tables[0], HeadTable(middle.columns, rows), history.tables[2]]
        figure = evolution(History([0, 1, 2], tables), "previous")
        axes = axes_named(figure, "enc previous")
        (line,) = (line for line in axes.lines if line.get_label() == "enc.0.1")
        assert np.isnan(line.get_ydata()).tolist() == [False, True, False]
        assert "cross previous" not in [axes.get_label() for axes in figure.axes]

    def test_what_cannot_be_drawn_is_said(self):
        with pytest.raises(UserError, match="no column 'entropi'"):
            evolution(make_history(), "entropi")
        with pytest.raises(UserError, match="holds no number"):
            evolution(make_history(), "roles")
        with pytest.raises(UserError, match="two updates"):
            evolution(make_history(updates=[5]), "entropy")

    @pytest.mark.parametrize("extension", ["png", "svg", "pdf"])
    def test_equal_histories_give_equal_bytes(self, extension):
        first, second = (evolution(make_history(), "entropy", [(1, 2.0)]) for _ in range(2))
        assert render(first, extension) == render(second, extension)


class TestSpread:
    def test_places_with_room_stay(self):
        assert spread(np.array([0.5, 0.1, 0.9]), 0.1, 1.0) == pytest.approx([0.5, 0.1, 0.9])

    def test_by_hand(self):
        assert spread(np.array([0.5, 0.5]), 0.2, 1.0) == pytest.approx([0.4, 0.6])
        assert spread(np.array([0.0, 0.0, 0.0]), 0.2, 1.0) == pytest.approx([0.0, 0.2, 0.4])
        assert spread(np.array([1.0, 1.0]), 0.2, 1.0) == pytest.approx([0.8, 1.0])
        assert spread(np.array([0.5] * 6), 0.3, 1.0) == pytest.approx(np.linspace(0, 1, 6))
        assert len(spread(np.zeros(0), 0.1, 1.0)) == 0

    @pytest.mark.parametrize("seed", range(5))
    def test_no_arrangement_is_nearer(self, seed):
        """Against every arrangement on a grid."""
        wanted = np.sort(np.random.default_rng(seed).integers(0, 11, 3) / 10)
        found = spread(wanted, 0.2, 1.0)
        assert np.diff(found).min() >= 0.2 - 1e-9
        assert found[0] >= -1e-9
        assert found[-1] <= 1 + 1e-9
        grid = np.arange(0, 61) / 60
        best = min(
            float(((np.array(places) - wanted) ** 2).sum())
            for places in itertools.product(grid, repeat=3)
            if places[1] - places[0] >= 0.2 - 1e-9 and places[2] - places[1] >= 0.2 - 1e-9
        )
        assert ((found - wanted) ** 2).sum() <= best + 1e-9


def test_updates_in_little_room():
    numbers = [0, 1, 999, 1000, 9999, 10_000, 12_500, 1_500_000, 2_000_000]
    shown = ["0", "1", "999", "1000", "9999", "10k", "12.5k", "1.5M", "2M"]
    assert [count(number) for number in numbers] == shown


def make_series(updates=EARLY, **options) -> list:
    """A sentence whose maps wander from those of one seed to those of another."""
    first, last = make_record(seed=1, **options), make_record(seed=2, **options)
    found = []
    for place, update in enumerate(updates):
        share = place / max(len(updates) - 1, 1)
        mixed = {
            kind: [
                (a + share * (b - a)).astype(np.float32)
                for a, b in zip(first.layers(kind), last.layers(kind), strict=True)
            ]
            for kind in ("enc", "dec", "cross")
        }
        found.append(replace(first, **mixed, meta={**first.meta, "step": update}))
    return found


class TestFilm:
    def test_maps_are_those_of_their_update(self):
        series = make_series([0, 5, 500])
        figure = film(series, "cross", 2, 1)
        maps = [axes for axes in figure.axes if axes.images]
        names = ["before training", "after 5 updates", "after 500 updates"]
        assert [axes.get_label() for axes in maps] == names
        for axes, record in zip(maps, series, strict=True):
            assert (axes.images[0].get_array() == record.head("cross", 2, 1)).all()
        labels = [text.get_text() for text in maps[0].get_yticklabels()]
        assert labels == series[0].tgt_out
        text = " ".join(t.get_text() for t in figure.texts)
        assert "Cross-attention, layer 2 of 3, head 1, while learning" in text
        assert "step 100" not in text  # the footer does not claim one update for all

    def test_a_layer_has_a_row_for_each_head_and_a_column_for_each_update(self):
        series = make_series([0, 5, 12_000])
        series = [without_heads(maps, "enc", 1, [0, 3]) for maps in series]
        figure = film(series, "enc", 1)
        shown = {axes.get_label(): axes for axes in figure.axes if axes.images}
        assert len(shown) == 6
        for maps, head in itertools.product(series, (0, 3)):
            axes = shown[f"head {head} update {maps.meta['step']}"]
            assert (axes.images[0].get_array() == maps.head("enc", 1, head)).all()
        tops = {shown[f"head {head} update 0"].get_position().y1 for head in (0, 3)}
        assert len(tops) == 2
        assert {"head 0", "head 3", "0", "5", "12k"} <= {t.get_text() for t in figure.texts}

    @pytest.mark.parametrize("head", [None, 1])
    def test_no_text_meets_another_or_leaves_the_page(self, head):
        pieces = [f"▁Wörter{i}" for i in range(18)]
        series = make_series([*EARLY, 100_000], src=pieces, tgt=pieces[:7])
        figure = film(series, "cross", 0, head)
        assert_tidy(figure)
        assert len([axes for axes in figure.axes if axes.images]) == (16 if head is None else 8)

    def test_what_cannot_be_drawn_is_said(self):
        with pytest.raises(UserError, match="two updates"):
            film(make_series([0]), "enc", 0)
        other = make_record(tgt=["▁ein", "▁Satz"])
        with pytest.raises(UserError, match="same tokens"):
            film([make_record(), other], "enc", 0)
        with pytest.raises(UserError, match="no head 7"):
            film(make_series([0, 1]), "enc", 0, 7)

    def test_equal_records_give_equal_bytes(self):
        pictures = {render(film(make_series(), "dec", 0), "png") for _ in range(2)}
        assert len(pictures) == 1


class TestMilestones:
    def test_few_frames_are_all_shown(self):
        frames = [np.array([float(i)]) for i in range(5)]
        assert milestones(frames, 8) == [0, 1, 2, 3, 4]
        assert milestones(frames, 5) == [0, 1, 2, 3, 4]

    def test_frames_go_where_something_changes(self):
        """Nothing for ten frames, then ten equal steps: 0, and the ends of fifths of the way."""
        frames = [np.array([max(0.0, i - 9.0)]) for i in range(20)]
        assert milestones(frames, 6) == [0, 11, 13, 15, 17, 19]

    def test_frames_stay_apart_when_all_changes_at_once(self):
        frames = [np.array([float(i > 6)]) for i in range(10)]
        found = milestones(frames, 5)
        assert found[0] == 0
        assert found[-1] == 9
        assert sorted(set(found)) == found
        assert {6, 7} <= set(found) or 7 in found

    def test_where_nothing_changes_they_are_evenly_spaced(self):
        assert milestones([np.zeros(1)] * 9, 5) == [0, 2, 4, 6, 8]


class TestFiles:
    def test_all_that_is_wanted_and_the_film_of_the_head_that_changed_most(self):
        history = make_history(updates=EARLY)
        content = files(history, [make_series()], Wish(statistics=("entropy",)))
        chosen = [changed_most(history, kind) for kind in ("enc", "dec", "cross")]
        values = history.values("entropy")
        for head in chosen:
            change = {h: abs(v[-1] - v[0]) for h, v in values.items() if h.kind == head.kind}
            assert max(change.values()) == change[head]
        strips = {f"film_{h.kind}_L{h.layer}H{h.head}.png" for h in chosen if h.head < 2}
        assert set(content) >= {"history.html", "history.csv", "roles.csv", "roles.md"} | strips
        assert "history_entropy.png" in content
        assert content["history.csv"].decode() == history.to_csv()

    def test_only_some_updates_come_onto_the_page(self):
        history = make_history(updates=EARLY)
        wish = Wish(statistics=("entropy",), strips=(), frames=4)
        page = files(history, [make_series()], wish)["history.html"].decode()
        assert page.count('id="weights-') == 4
        none = files(history, [], replace(wish, frames=0))
        assert "history.html" not in none

    def test_a_sentence_of_the_encoder_only_is_shown_as_such(self):
        history = make_history(updates=[0, 1])
        series = [maps.select(["enc"]) for maps in make_series([0, 1])]
        content = files(history, [series], Wish(statistics=("entropy",), formats=("svg",)))
        assert [name[:8] for name in content if name.startswith("film")] == ["film_enc"]
        with pytest.raises(UserError, match="no cross attention"):
            files(history, [series], Wish(kinds=("cross",)))

    def test_what_is_printed(self):
        head = HeadId("enc", 0, 0)
        columns = make_table().columns
        rows = [{"entropy_share": share} for share in (0.5, 0.95, 0.97)]
        history = History([0, 8, 100], [HeadTable(columns, {head: row}) for row in rows])
        assert findings(history, emergence(history)) == [
            "3 snapshots, from update 0 to 100",
            "1 of 1 heads have a role in the end:",
            "  enc.0.0: broad 0.97, since update 8, not yet at 0",
        ]
        always = History([8, 100], history.tables[1:])
        assert "from the first snapshot on" in findings(always, emergence(always))[-1]
        never = History([0, 8], [HeadTable(columns, {head: {}})] * 2)
        assert "no head reaches" in findings(never, emergence(never))[-1]


def test_the_heads_of_the_samples_are_as_many_as_this_test_thinks():
    assert len(heads_of(2, 4)) == 24
    assert drawn_texts(evolution(make_history(updates=[0, 1]), "entropy"))

"""Pictures of numbers of heads: the data drawn are the table's, and nothing overlaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from figure_geometry import assert_tidy, drawn_texts
from head_tables import heads_of, make_distances, make_table

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.similarity import mds
from seq2seq.analysis.tables import Column, HeadTable
from seq2seq.errors import UserError
from viz import likeness, summary
from viz.bright import bright
from viz.style import render

SIZES = [(1, 1), (2, 4), (4, 8)]


def axes_named(figure, label):
    (found,) = (axes for axes in figure.axes if axes.get_label() == label)
    return found


class TestGrid:
    def test_cells_hold_the_tables_numbers_by_layer_and_head(self):
        table = make_table()
        figure = summary.stat_grid(table, "entropy")
        for kind in ("enc", "dec", "cross"):
            axes = axes_named(figure, f"{kind} entropy")
            drawn = axes.images[0].get_array()
            texts = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text()
                     for t in axes.texts}  # fmt: skip
            for layer, head in itertools.product(range(2), range(4)):
                value = table.rows[HeadId(kind, layer, head)]["entropy"]
                assert drawn[layer, head] == value
                assert texts[layer, head] == f"{value:.2f}"

    def test_a_head_that_is_gone_leaves_its_place_empty(self):
        whole = make_table()
        rows = {h: r for h, r in whole.rows.items() if h != HeadId("dec", 0, 2)}
        figure = summary.stat_grid(HeadTable(whole.columns, rows), "confidence")
        drawn = axes_named(figure, "dec confidence").images[0].get_array()
        assert drawn.mask.tolist() == [[False, False, True, False], [False] * 4]
        assert len(axes_named(figure, "dec confidence").texts) == 7

    def test_a_kind_without_the_number_is_not_drawn(self):
        figure = summary.stat_grid(make_table(), "distance")
        labels = [axes.get_label() for axes in figure.axes]
        assert "enc distance" in labels
        assert "cross distance" not in labels

    def test_negative_numbers_get_colours_on_both_sides_of_white(self):
        figure = summary.stat_grid(make_table(), "bleu_change")
        image = axes_named(figure, "enc bleu_change").images[0]
        assert image.norm.vmin == -image.norm.vmax
        assert np.abs(list(make_table().values("bleu_change").values())).max() == image.norm.vmax
        assert "−" in " ".join(t.get_text() for t in drawn_texts(figure))
        image = axes_named(summary.stat_grid(make_table(), "confidence", most=1.0),
                           "enc confidence").images[0]  # fmt: skip
        assert (image.norm.vmin, image.norm.vmax) == (0, 1)

    def test_title_unit_meaning_and_origin_are_printed(self):
        text = " ".join(t.get_text() for t in summary.stat_grid(make_table(), "importance").texts)
        for part in ("importance [nats/token]", "slope of the loss", "run demo", "12 sentence"):
            assert part in text

    @pytest.mark.parametrize("size", SIZES)
    def test_tidy(self, size):
        assert_tidy(summary.stat_grid(make_table(*size), "bleu_change"))

    def test_tidy_where_kinds_lie_below_each_other(self):
        assert_tidy(summary.stat_grid(make_table(2, 16), "importance"))

    def test_numbers_can_be_read_on_their_colour(self):
        figure = summary.stat_grid(make_table(6, 8), "confidence", most=1.0)
        axes = axes_named(figure, "enc confidence")
        image = axes.images[0]
        for text in axes.texts:
            column, row = map(round, text.get_position())
            rgb = image.cmap(image.norm(image.get_array()[row, column]))[:3]
            light = summary.luminance(rgb)
            ink = 0.0 if text.get_color() == "black" else 1.0
            contrast = (max(light, ink) + 0.05) / (min(light, ink) + 0.05)
            assert contrast >= 4.5

    def test_nothing_to_draw_is_an_error(self):
        table = HeadTable([Column("x")], {HeadId("enc", 0, 0): {"x": "text"}})
        with pytest.raises(UserError, match="holds no number"):
            summary.stat_grid(table, "x")
        with pytest.raises(UserError, match="no column 'y'"):
            summary.stat_grid(table, "y")
        with pytest.raises(UserError, match="no heads"):
            summary.layers(HeadTable([], {}))


class TestLayers:
    def test_dots_are_heads_and_the_line_their_mean(self):
        table = make_table(3, 5)
        axes = axes_named(summary.layers(table), "dec confidence")
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        (mean,) = (line for line in axes.lines if line.get_marker() == "_")
        for layer in range(3):
            values = [table.rows[HeadId("dec", layer, h)]["confidence"] for h in range(5)]
            assert dots[layer].get_ydata().tolist() == values
            assert np.round(dots[layer].get_xdata()).tolist() == [layer] * 5
            assert mean.get_ydata()[layer] == pytest.approx(np.mean(values))

    def test_the_dashed_line_is_a_uniform_heads_entropy(self):
        axes = axes_named(summary.layers(make_table()), "cross entropy")
        dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert [line.get_ydata()[0] for line in dashed] == pytest.approx([2.6])
        assert axes.get_ylim()[1] > 2.6

    def test_a_statistic_has_one_scale_for_all_kinds(self):
        figure = summary.layers(make_table())
        for name in summary.BY_LAYER:
            axes = [a for a in figure.axes if a.get_label().endswith(f" {name}")]
            assert len({a.get_ylim() for a in axes}) == 1
        assert "cross distance" not in [a.get_label() for a in figure.axes]

    @pytest.mark.parametrize("size", SIZES)
    def test_tidy(self, size):
        assert_tidy(summary.layers(make_table(*size)))


class TestMap:
    def test_points_are_those_of_scaling_on_one_scale(self):
        distances = make_distances()
        figure = likeness.head_map(distances, facts=["run demo"])
        limits = set()
        for kind, found in distances.items():
            axes = axes_named(figure, f"map {kind}")
            points = [line.get_xydata()[0] for line in axes.lines if line.get_marker() != "None"]
            assert np.array(points) == pytest.approx(mds(found.matrix).points)
            limits |= {axes.get_xlim(), axes.get_ylim()}
            names = [t.get_text() for t in axes.texts if "nats" not in t.get_text()]
            assert names == [f"{head.layer}.{head.head}" for head in found.heads]
        assert len(limits) == 1

    def test_markers_are_roles_and_shades_are_layers(self):
        distances = make_distances()
        roles = {HeadId("enc", 0, 1): "previous", HeadId("enc", 1, 2): "offset −3"}
        axes = axes_named(likeness.head_map(distances, roles), "map enc")
        points = [line for line in axes.lines if line.get_marker() != "None"]
        assert [p.get_marker() for p in points] == ["o", "<", "o", "o", "o", "o", "D", "o"]
        colours = [p.get_color() for p in points]
        assert len(set(colours[:4])) == len(set(colours[4:])) == 1
        assert colours[0] != colours[4]
        legend = " ".join(
            t.get_text() for t in drawn_texts(likeness.head_map(distances, roles))
        )  # fmt: skip
        for part in ("no role", "previous", "another offset", "layer 0", "layer 1"):
            assert part in legend
        assert "separator" not in legend

    @pytest.mark.parametrize("size", SIZES)
    def test_tidy(self, size):
        assert_tidy(likeness.head_map(make_distances(*size)))

    def test_names_cover_neither_points_nor_each_other(self):
        points = np.random.default_rng(1).normal(scale=0.5, size=(60, 2))
        names = [f"{i // 8}.{i % 8}" for i in range(60)]
        places = likeness.place_labels(points, names)
        boxes = [likeness.Box.around(p, 0.14, 0.07) for p in places]
        assert not any(a.meets(b) for a, b in itertools.combinations(boxes, 2))
        dots = [likeness.Box.around(p, 0.1, 0.1) for p in points]
        assert not any(box.meets(dot) for box, dot in itertools.product(boxes, dots))
        assert all(box.inside(likeness.SIDE / 2) for box in boxes)


class TestMatrix:
    def test_rows_and_columns_follow_the_tree_and_names_follow_them(self):
        found = make_distances(3, 3)["dec"]
        figure = likeness.similarity(found, ["run demo"])
        axes = axes_named(figure, "matrix")
        order = found.order()
        names = [str(found.heads[place]) for place in order]
        assert [t.get_text() for t in axes.get_yticklabels()] == names
        assert [t.get_text() for t in axes.get_xticklabels()] == names
        drawn = axes.images[0].get_array()
        assert np.array_equal(drawn, found.matrix[np.ix_(order, order)])
        assert [t.get_text() for t in axes.texts] == [f"{value:.2f}" for value in drawn.flat]

    def test_the_tree_joins_at_mean_distances_and_lies_along_the_rows(self):
        found = make_distances(2, 2)["enc"]
        axes = axes_named(likeness.similarity(found), "tree")
        joins = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 4]
        assert len(joins) == 3
        ends = {float(y) for join in joins for x, y in join if x == 0}
        assert ends == {0.0, 1.0, 2.0, 3.0}
        assert axes.get_ylim() == (3.5, -0.5)
        smallest = found.matrix[~np.eye(4, dtype=bool)].min()
        assert min(join[1, 0] for join in joins) == pytest.approx(smallest)

    @pytest.mark.parametrize("size", SIZES)
    def test_tidy(self, size):
        assert_tidy(likeness.similarity(make_distances(*size)["cross"]))

    def test_nothing_to_draw_is_an_error(self):
        with pytest.raises(UserError, match="no heads"):
            likeness.head_map({})
        with pytest.raises(UserError, match="no heads"):
            likeness.similarity(likeness.Distances([], np.zeros((0, 0))))


class TestBright:
    def test_points_are_the_tables_numbers_on_one_scale(self):
        table = make_table()
        figure = bright(table, "bleu_change")
        limits = set()
        for kind in ("enc", "dec", "cross"):
            axes = axes_named(figure, f"bright {kind}")
            (points,) = (line for line in axes.lines if line.get_marker() == "o")
            heads = [head for head in table.heads if head.kind == kind]
            expected = [(table.rows[h]["confidence"], table.rows[h]["bleu_change"]) for h in heads]
            assert points.get_xydata().tolist() == [list(pair) for pair in expected]
            assert [t.get_text() for t in axes.texts] == [f"{h.layer}.{h.head}" for h in heads]
            limits.add((axes.get_xlim(), axes.get_ylim()))
        assert len(limits) == 1

    def test_needed_heads_are_up_also_where_need_means_a_fall(self):
        low, high = axes_named(bright(make_table(), "bleu_change"), "bright enc").get_ylim()
        assert low > high
        low, high = axes_named(bright(make_table(), "importance"), "bright enc").get_ylim()
        assert low < high

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("name", ["importance", "bleu_change"])
    def test_tidy(self, size, name):
        assert_tidy(bright(make_table(*size), name))

    def test_nothing_to_draw_is_an_error(self):
        table = HeadTable([Column("confidence"), Column("x")], {HeadId("enc", 0, 0): {"x": 1.0}})
        with pytest.raises(UserError, match="both confidence and x"):
            bright(table, "x")


@pytest.mark.parametrize("extension", ["png", "svg", "pdf"])
def test_the_same_numbers_give_the_same_bytes(extension):
    def bytes_of():
        table, distances = make_table(), make_distances()
        figures = [
            summary.stat_grid(table, "importance"),
            summary.layers(table),
            bright(table, "importance"),
            likeness.head_map(distances, dict.fromkeys(heads_of(2, 4), "broad")),
            likeness.similarity(distances["enc"]),
        ]
        return [render(figure, extension) for figure in figures]

    assert bytes_of() == bytes_of()

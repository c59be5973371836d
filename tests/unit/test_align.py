"""Alignments by hand: modes, words, gold files, error rates; and the picture of them."""

from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from seq2seq.analysis.align import (
    Gold,
    Tally,
    Words,
    check_range,
    hard,
    parse_gold,
    pharaoh,
    split_words,
    word_weights,
    words_of,
)
from seq2seq.analysis.align_heads import Choice, Comparison, choices, layer_choice
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import read_table
from seq2seq.errors import UserError
from viz.alignment import alignment, word_record
from viz.style import Look, render

THREE = np.array(  # y1, y2 and the end of sentence; two words and the end of sentence as keys
    [[0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]
)
ONE_EACH = Words([(0, 1), (1, 2)], [(0, 1), (1, 2)])


def test_modes_read_neighbouring_rows():
    assert hard(THREE, ONE_EACH, mode="out") == {(1, 0), (0, 1)}
    assert hard(THREE, ONE_EACH, mode="in") == {(0, 0)}  # the row that reads y2 looks at the end
    wider = np.eye(4)[[1, 0, 2]]
    three_words = Words([(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2)])
    assert hard(wider, three_words, mode="out") == {(1, 0), (0, 1)}
    assert hard(wider, three_words, mode="in") == {(0, 0), (2, 1)}


def test_where_the_end_of_sentence_wins():
    assert hard(THREE, ONE_EACH, mode="in", eos="null") == {(0, 0)}
    assert hard(THREE, ONE_EACH, mode="in", eos="ignore") == {(0, 0), (1, 1)}


def test_words_are_sums_of_keys_and_means_of_queries():
    """Neither row nor any key piece alone prefers the word that wins."""
    weights = np.array(
        [
            [0.35, 0.35, 0.30, 0.0, 0.0],
            [0.10, 0.10, 0.10, 0.5, 0.2],
            [0.00, 0.00, 0.00, 1.0, 0.0],
        ]
    )
    words = Words([(0, 3), (3, 4)], [(0, 2)])
    assert word_weights(weights, words, "out") == pytest.approx(np.array([[0.65, 0.25, 0.1]]))
    assert hard(weights, words) == {(0, 0)}
    assert word_weights(weights, words, "in") == pytest.approx(np.array([[0.15, 0.75, 0.1]]))
    assert hard(weights, words, mode="in") == {(1, 0)}


def test_a_hypothesis_that_was_cut_has_no_row_to_read_its_last_piece():
    assert hard(THREE[:2], ONE_EACH, mode="in") == {(0, 0)}
    assert hard(THREE[:2], ONE_EACH, mode="out") == {(1, 0), (0, 1)}
    long = Words([(0, 1), (1, 2)], [(0, 2)])
    assert hard(THREE[:2], long, mode="in") == {(0, 0)}


@pytest.mark.parametrize(
    "words", [Words([], [(0, 1), (1, 2)]), Words([(0, 1), (1, 2)], []), Words([], [])]
)
@pytest.mark.parametrize("mode", ["out", "in"])
def test_a_blank_side_has_no_links(words, mode):
    weights = THREE if words.source else THREE[:, :1]
    weights = weights if words.target else weights[:1]
    assert hard(weights, words, mode=mode, eos="ignore") == set()


def test_words_without_numbers_have_no_links():
    assert hard(THREE, replace(ONE_EACH, notice="unclear")) == set()


@pytest.mark.parametrize(("name", "value"), [("mode", "both"), ("eos", "drop")])
def test_other_choices(name, value):
    with pytest.raises(UserError, match=value):
        hard(THREE, ONE_EACH, **{name: value})


def record(src, tgt, source, target):
    shape = {"enc": (1, 1), "dec": (1, 1), "cross": (2, 2)}
    return replace(make_record(src, tgt, shape=shape), text={"source": source, "target": target})


def test_words_of_pieces():
    maps = record(
        ["▁it", "▁appli", "cation", "."],
        ["▁", "die", "▁Anwen", "dung", "."],
        "it application.",
        " die  Anwendung.",
    )
    assert words_of(maps) == Words([(0, 1), (1, 4)], [(0, 2), (2, 5)])
    marked = words_of(maps, ".,?")
    assert marked == Words([(0, 1), (1, 3), (3, 4)], [(0, 2), (2, 4), (4, 5)])


def test_a_mark_inside_a_word_makes_three():
    maps = record(["▁a", ",", "b"], ["▁x"], "a,b", "x")
    assert words_of(maps, ",").source == [(0, 1), (1, 2), (2, 3)]
    assert split_words("a,b", ",") == ["a", ",", "b"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a  b\tc ", 3),
        ("10\u00a0000 a", 2),
        ("a \u200b b", 3),
        ("a\u2028b", 2),
        ("\u200b", 0),
        ("", 0),
    ],
)
def test_words_end_at_spaces(text, count):
    assert len(split_words(text)) == count


def test_pieces_that_do_not_make_the_words_are_told():
    maps = record(["▁a", "▁b"], ["▁x"], "a b c", "x")
    assert words_of(maps).notice == "the source has 3 words, but its pieces make 2"
    assert not words_of(maps).usable


def test_a_script_without_spaces_keeps_its_pieces():
    maps = record(["▁彼女", "は", "走る"], ["▁she", "▁runs"], "彼女は走る", "she runs")
    found = words_of(maps)
    assert found.source == [(0, 1), (1, 2), (2, 3)]
    assert found.by_pieces == ("source",)
    assert found.usable
    spaced = replace(maps, src=["▁彼女", "▁は", "▁走る", "</s>"])
    spaced = replace(spaced, text={"source": "彼女 は 走る", "target": "she runs"})
    assert words_of(spaced).by_pieces == ()


def test_gold_files():
    gold = parse_gold("0-0 1-2 2p1")
    assert gold.sure == {(0, 0), (1, 2)}
    assert gold.possible == {(0, 0), (1, 2), (2, 1)}
    assert parse_gold("1-1 2p3", one_indexed=True) == Gold(
        frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)})
    )
    assert parse_gold("") == Gold(frozenset(), frozenset())


@pytest.mark.parametrize("line", ["0-", "0:1", "a-b", "0-1-2", "-1-2", "²-0", "0-1,1-2"])
def test_what_is_no_link(line):
    with pytest.raises(UserError, match=r"file, line 3: .* is no link"):
        parse_gold(line, "file, line 3")


def test_word_0_where_the_first_is_1():
    with pytest.raises(UserError, match="0-1 names a word 0"):
        parse_gold("1-1 0-1", one_indexed=True)


def test_links_to_words_that_are_not_there():
    gold = parse_gold("0-0 1p3")
    check_range(gold, (2, 4), "line 1")
    for counts in ((1, 4), (2, 3)):
        with pytest.raises(UserError, match=r"line 1: the link 1-3 .* --one-indexed"):
            check_range(gold, counts, "line 1")


def test_lines_are_in_the_order_of_the_target():
    assert pharaoh(frozenset({(0, 2), (3, 0), (1, 2)})) == "3-0 0-2 1-2"
    assert pharaoh(frozenset()) == ""


def tally(links, gold):
    found = Tally()
    found.add(frozenset(links), gold)
    return found


def test_error_rate_by_hand():
    """A = 3, S = 2, A ∩ S = 1, A ∩ P = 2: 1 − (1 + 2) / (3 + 2)."""
    found = tally({(0, 0), (2, 1), (2, 2)}, parse_gold("0-0 1-1 2p1"))
    assert found.aer == pytest.approx(0.4)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(1 / 2)


def test_error_rate_at_the_ends():
    gold = parse_gold("0-0 1-1 2p1")
    empty = tally((), gold)
    assert (empty.aer, empty.precision, empty.recall) == (1.0, None, 0.0)
    assert tally(gold.sure, gold).aer == 0
    assert tally(gold.possible, gold).aer == 0
    assert tally({(5, 5)}, gold).aer == 1
    none = tally({(2, 1)}, parse_gold("2p1"))
    assert (none.aer, none.precision, none.recall) == (0.0, 1.0, None)
    with pytest.raises(UserError, match="no sure link"):
        _ = tally((), parse_gold("")).aer


def test_sentences_are_pooled_not_averaged():
    found = tally({(0, 0)}, parse_gold("0-0"))
    found.add(frozenset(), parse_gold("0-0 1-1 2-2"))
    assert found.aer == pytest.approx(1 - 2 / 5)


def planted():
    """cross.1.0 predicts the swap, cross.0.1 reads it, the others look at the end."""
    maps = record(["▁a", "▁b"], ["▁x", "▁y"], "a b", "x y")
    ends = np.eye(3, dtype=np.float32)[[2, 2, 2]]
    out = np.eye(3, dtype=np.float32)[[1, 0, 2]]
    late = np.eye(3, dtype=np.float32)[[2, 1, 0]]
    maps = with_weights(maps, "cross", 0, np.stack([ends, late]))
    return with_weights(maps, "cross", 1, np.stack([out, ends]))


HEADS = [
    HeadId(k, layer, h) for k, n in (("enc", 1), ("cross", 2)) for layer in range(n) for h in (0, 1)
]


def test_the_best_heads_are_found():
    found = Comparison(choices(HEADS))
    maps = planted()
    found.add(maps, words_of(maps), parse_gold("1-0 0-1"))
    best, mode, aer = found.best()
    assert (str(best.heads[0]), mode, aer) == ("cross.0.1", "in", 0.0)
    best, mode, aer = found.best(layer=1)
    assert (best.name, mode, aer) == ("cross.1.0", "out", 0.0)
    table = found.table(["fact"])
    assert [str(head) for head in table.heads] == [
        "cross.0.0",
        "cross.0.1",
        "cross.1.0",
        "cross.1.1",
    ]
    assert table.values("aer_out") == dict(zip(table.heads, (1.0, 1.0, 0.0, 1.0), strict=True))
    assert table.rows[table.heads[0]]["precision_out"] is None
    again = read_table(table.to_csv(), "table")  # as `heads --join` reads it
    assert again.values("recall_in") == table.values("recall_in")
    text = "\n".join(found.report())
    assert "mean of layer 1" in text
    assert "layer 0: best head cross.0.1, mode in, AER 0.000" in text


def test_a_mean_is_of_the_weights():
    maps = planted()
    chosen = layer_choice(HEADS, 1)
    assert chosen.weights(maps)[0].tolist() == [0, 0.5, 0.5]
    assert len(choices(HEADS)[0].heads) == 4


def test_only_cross_attention_aligns():
    with pytest.raises(UserError, match=r"enc.0.1 cannot align"):
        Choice("x", (HeadId("enc", 0, 1),))
    with pytest.raises(UserError, match="no cross-attention in layer 5: take one of 0, 1"):
        layer_choice(HEADS, 5)


def figure(gold, look=None, mode="out"):
    maps = planted()
    words, weights = words_of(maps), maps.head("cross", 1, 0)
    drawn = word_record(maps, weights, words, mode)
    return alignment(drawn, hard(weights, words, mode=mode), gold, name="head", look=look), weights


def test_the_picture_shows_the_weights_the_links_and_the_gold():
    made, weights = figure(parse_gold("1-0 0p0"))
    axes = next(axes for axes in made.axes if axes.get_label() == "alignment")
    assert np.array_equal(np.asarray(axes.images[0].get_array()), weights[:2])
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b", "</s>"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["x", "y"]
    frames = {p.get_gid(): p.get_linestyle() for p in axes.patches if isinstance(p, Rectangle)}
    assert frames == {"gold-1-0": "solid", "gold-0-0": "dashed"}
    dots = {line.get_gid(): (line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines}
    assert dots == {"link-1-0": (1, 0), "link-0-1": (0, 1)}
    assert "AER 0.333" in made.get_label()  # 1 − (1 + 1) / (2 + 1)
    assert render(made, "svg") == render(figure(parse_gold("1-0 0p0"))[0], "svg")


def test_the_picture_without_gold_and_without_the_end_of_sentence():
    made, _ = figure(None, Look(special="drop"))
    axes = next(axes for axes in made.axes if axes.get_label() == "alignment")
    assert made.get_label() == "head"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b"]
    assert not [p for p in axes.patches if isinstance(p, Rectangle)]
    assert not any("sure" in t.get_text() for t in made.texts)


def test_nothing_is_cut_off_the_picture():
    long = [f"▁Donaudampfschiff{i}" for i in range(20)]
    maps = record(long, long[::-1], " ".join(long), " ".join(long))
    words, weights = words_of(maps), maps.head("cross", 0, 0)
    drawn = word_record(maps, weights, words, "out")
    gold = Gold.exact(frozenset((i, 19 - i) for i in range(20)))
    made = alignment(drawn, hard(weights, words), gold, name="Alignment by cross.0.0, mode out")
    renderer = FigureCanvasAgg(made).get_renderer()
    made.draw(renderer)
    width, height = made.canvas.get_width_height()
    texts = [t for axes in made.axes for t in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    shown = [t.get_window_extent(renderer) for t in (*made.texts, *texts) if t.get_text()]
    assert len(shown) > 40
    for box in shown:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height

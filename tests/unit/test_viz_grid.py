from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from attention_samples import make_record, with_weights, without_heads
from figure_geometry import assert_tidy, maps_of
from matplotlib.text import Text

from seq2seq.analysis.heads import summarise
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import AttentionError
from seq2seq.errors import UserError
from viz import grid
from viz.heatmap import luminance
from viz.labels import FontWarning
from viz.style import Look, colours, render
from viz.view import font_size, pitch

KINDS = ("enc", "dec", "cross")
LONG = "▁Donaudampfschifffahrtsgesellschaft"
WORDS = ["▁The", "▁developer", "▁deployed", "▁the", LONG, "▁W", "WWWWWWWWWWWWWWWWW", "."]


def long_record(tokens: int, heads: int = 4, layers: int = 2):
    words = [WORDS[i % len(WORDS)] for i in range(tokens - 1)]
    shape = dict.fromkeys(KINDS, (layers, heads))
    return make_record(words, words[: max(1, tokens - 3)], shape=shape)


def texts_of(figure):
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text()]


def title_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize("heads", [1, 5])
def test_the_shortest_sentences_are_tidy(heads) -> None:
    """Longer ones are in test_figure_geometry."""
    maps = long_record(2, heads=heads)
    numbers = summarise(maps, "enc", 1)
    assert_tidy(grid.layer(maps, "enc", 1, summaries=numbers))
    assert_tidy(grid.overview(maps, "cross"))
    assert_tidy(grid.head(maps, "dec", 1, 0, Look(labels="both", special="mute")))
    assert_tidy(grid.average(maps, "cross", 0))


@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_any_number_of_heads(heads) -> None:
    maps = long_record(6, heads=heads, layers=1)
    figure = grid.layer(maps, "enc", 0)
    assert_tidy(figure)
    assert len(maps_of(figure)) == heads
    assert_tidy(grid.overview(maps, "enc"))


def test_pitch_and_font_by_the_rules() -> None:
    expected = {
        5: (0.45, 10),
        10: (0.30, 10),
        20: (0.15, 8.64),
        40: (0.105, 6.048),
        60: (0.105, 6.048),
    }
    for tokens, (cell, points) in expected.items():
        assert pitch(tokens, 2) == pytest.approx(cell)
        assert font_size(pitch(tokens, 2)) == pytest.approx(points)


@pytest.mark.parametrize("kind", KINDS)
def test_the_image_is_the_record_and_the_ticks_are_the_tokens(kind) -> None:
    maps = long_record(9)
    for layer in range(2):
        figure = grid.layer(maps, kind, layer)
        for head, axes in enumerate(maps_of(figure)):
            image = axes.images[0]
            assert np.array_equal(image.get_array(), maps.layers(kind)[layer][head])
            assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    first = maps_of(figure)[0]
    rows = [text.get_text() for text in first.get_yticklabels()]
    columns = [text.get_text() for text in first.get_xticklabels()]
    assert len(rows) == len(maps.labels(maps.query_side(kind)))
    assert len(columns) == len(maps.labels(maps.key_side(kind)))
    for shown, token in zip(rows, maps.labels(maps.query_side(kind)), strict=True):
        assert token.startswith(shown.removesuffix("…"))
    for shown, token in zip(columns, maps.labels(maps.key_side(kind)), strict=True):
        assert token.startswith(shown.removesuffix("…"))


def test_axes_are_not_swapped() -> None:
    """One bright cell: its row label is the token written, its column label the one looked at."""
    maps = make_record(["s0", "s1", "s2", "s3", "s4", "s5"], ["t0", "t1", "t2"])
    weights = np.zeros((2, 4, 7))
    weights[:, :, 0] = 1
    weights[1, 2] = np.eye(7)[5]
    figure = grid.head(with_weights(maps, "cross", 1, weights), "cross", 1, 1)
    (axes,) = maps_of(figure)
    image = axes.images[0].get_array()
    row, column = np.argwhere((image == 1) & (np.arange(7) > 0))[0]
    assert axes.get_yticklabels()[row].get_text() == maps.tgt_out[2] == "t2"
    assert axes.get_xticklabels()[column].get_text() == maps.src[5] == "s5"
    assert axes.get_yticks()[row] == row
    assert axes.yaxis_inverted()  # row 0 on top
    assert len(axes.get_yticklabels()) == 4
    assert len(axes.get_xticklabels()) == 7
    heading = title_of(figure)
    assert "Cross-attention, layer 1 of 3, head 1" in heading
    assert "query ↓ / key →" in heading
    assert "rows: target" in heading
    assert "columns: source" in heading


def test_a_decoder_picture_has_no_source_token() -> None:
    maps = make_record(["s0", "s1"], ["t0", "t1", "t2"])
    words = {text.get_text() for text in texts_of(grid.layer(maps, "dec", 0))}
    assert not words & {"s0", "s1", "</s>"}
    assert {"<s>", "t0", "t2"} <= words


@pytest.mark.parametrize(
    ("labels", "kind", "expected"),
    [
        ("auto", "dec", ["<s>", "t0", "t1"]),
        ("auto", "cross", ["t0", "t1", "</s>"]),
        ("in", "cross", ["<s>", "t0", "t1"]),
        ("out", "dec", ["t0", "t1", "</s>"]),
        ("both", "cross", ["<s> → t0", "t0 → t1", "t1 → </s>"]),
        ("both", "enc", ["s0", "</s>"]),
        ("index", "cross", ["0", "1", "2"]),
    ],
)
def test_row_labels(labels, kind, expected) -> None:
    maps = make_record(["s0"], ["t0", "t1"])
    axes = maps_of(grid.layer(maps, kind, 0, Look(labels=labels)))[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == expected


def test_rows_of_words_have_one_name_only() -> None:
    with pytest.raises(UserError, match="labels=in needs pieces"):
        grid.layer(to_words(make_record()), "cross", 0, Look(labels="in"))


def test_control_tokens_shown_muted_dropped() -> None:
    """The end of sentence takes most of the mass: hidden or not, the picture says so."""
    maps = make_record(["a", "b", "c"], ["x"])
    weights = np.array([[[0.04, 0.03, 0.03, 0.90]] * 2] * 2)
    maps = with_weights(maps, "cross", 0, weights)
    shown, muted, dropped = (
        grid.head(maps, "cross", 0, 0, Look(special=choice)) for choice in ("show", "mute", "drop")
    )
    image = maps_of(shown)[0].images[0].get_array()
    assert image.shape == (2, 4)
    assert np.allclose(image.sum(-1), 1)
    assert "hidden" not in title_of(shown)

    image = maps_of(muted)[0].images[0].get_array()
    assert image.shape == (2, 4)
    assert image.mask.tolist() == [[False, False, False, True]] * 2
    assert "hidden mass mean 0.90 max 0.90" in title_of(muted)

    image = maps_of(dropped)[0].images[0].get_array()
    assert np.array_equal(image, weights[0][:, :3])  # not shared out among the others
    columns = [text.get_text() for text in maps_of(dropped)[0].get_xticklabels()]
    assert columns == ["a", "b", "c"]
    assert "hidden mass mean 0.90 max 0.90" in title_of(dropped)
    with pytest.raises(UserError, match="control tokens only"):
        grid.head(make_record([], ["x"]), "cross", 0, 0, Look(special="drop"))


def test_control_tokens_are_grey_italics() -> None:
    axes = maps_of(grid.layer(make_record(), "cross", 0))[0]
    styles = [(t.get_text(), t.get_style(), t.get_color()) for t in axes.get_yticklabels()]
    assert [style for _, style, _ in styles] == ["normal"] * 4 + ["italic"]
    assert styles[-1][2] != styles[0][2]


def test_overview_has_a_place_for_every_head_even_after_pruning() -> None:
    maps = without_heads(make_record(), "enc", 1, [3])
    encoder, decoder = grid.overview(maps, "enc"), grid.overview(maps, "dec")
    assert len(maps_of(encoder)) == 5
    assert len(maps_of(decoder)) == 6
    assert "2 layers with 5 heads" in title_of(encoder)
    assert "3 layers × 2 heads" in title_of(decoder)
    labels = [axes.get_label() for axes in maps_of(encoder)]
    assert labels == [*(f"layer 0 head {i}" for i in range(4)), "layer 1 head 3"]
    above, below = maps_of(encoder)[3:]
    assert above.get_position().x0 == pytest.approx(below.get_position().x0)
    assert_tidy(encoder)


def test_overview_thumbnails_are_the_record_on_one_scale() -> None:
    maps = long_record(30, heads=2)
    figure = grid.overview(maps, "cross")
    weights = [head for layer in maps.cross for head in layer]
    for axes, matrix in zip(maps_of(figure), weights, strict=True):
        assert np.array_equal(axes.images[0].get_array(), matrix)
        assert (axes.images[0].norm.vmin, axes.images[0].norm.vmax) == (0, 1)


def test_a_mean_says_that_it_is_one() -> None:
    maps = make_record()
    figure = grid.average(maps, "enc", 1)
    mean, spread = (axes.images[0].get_array() for axes in maps_of(figure))
    assert np.allclose(mean, sum(maps.enc[1]) / 4)
    assert np.allclose(spread, np.sqrt(sum((head - mean) ** 2 for head in maps.enc[1]) / 4))
    assert "mean of 4 heads" in title_of(figure)


@pytest.mark.parametrize(
    ("tokens", "scale", "name"),
    [
        (20, "auto", "linear"),
        (21, "auto", "square-root"),
        (5, "sqrt", "square-root"),
        (40, "linear", "linear"),
    ],
)
def test_the_colour_scale_is_named(tokens, scale, name) -> None:
    figure = grid.layer(long_record(tokens), "enc", 0, Look(scale=scale))
    assert f"{name} colour scale" in title_of(figure)
    norm = maps_of(figure)[0].images[0].norm
    assert float(norm(0.25)) == pytest.approx(0.5 if name == "square-root" else 0.25)


def test_provenance_is_printed() -> None:
    words = title_of(grid.layer(make_record(), "enc", 0))
    for fact in ("run demo", "checkpoint step 100", "beam 5", "pieces", "counted from 0"):
        assert fact in words
    assert "target given" in title_of(
        grid.layer(replace(make_record(), meta={"how": "forced"}), "enc", 0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FontWarning)  # some machines have no font for it
        merged = grid.overview(to_words(make_record(src=["彼", "女"])), "cross")
    assert "words" in title_of(merged)
    assert "Note: the source does not space its words: pieces are shown." in title_of(merged)


def test_captions_are_the_summaries() -> None:
    maps = make_record()
    summaries = summarise(maps, "enc", 0)
    words = title_of(grid.layer(maps, "enc", 0, summaries=summaries))
    for summary in summaries.values():
        assert f"entropy {summary.entropy:.2f}" in words


def test_cells_of_short_maps_carry_numbers() -> None:
    maps = make_record(["a"], ["x"])
    weights = np.array([[[0.254, 0.746], [1.0, 0.0]]] * 2)
    figure = grid.head(with_weights(maps, "cross", 0, weights), "cross", 0, 1)
    assert [text.get_text() for text in maps_of(figure)[0].texts] == [".25", ".75", "1"]
    assert maps_of(grid.head(long_record(13), "enc", 0, 0))[0].texts[:] == []


def test_numbers_contrast_with_their_cells() -> None:
    for value in np.linspace(0, 1, 101):
        light = luminance(colours()(value)[:3])
        assert max((light + 0.05) / 0.05, 1.05 / (light + 0.05)) >= 4.5
        black = (light + 0.05) / 0.05 >= 1.05 / (light + 0.05)
        assert black == (light > 0.179) or abs(light - 0.179) < 0.002


@pytest.mark.parametrize(
    "draw",
    [
        lambda maps: grid.layer(maps, "enc", 5),
        lambda maps: grid.head(maps, "dec", 0, 9),
        lambda maps: grid.average(maps, "cross", -1),
    ],
)
def test_unknown_layers_and_heads_list_the_valid_ones(draw) -> None:
    with pytest.raises(AttentionError, match=r"the record holds 0, 1"):
        draw(make_record())


def test_what_is_not_captured_cannot_be_drawn() -> None:
    with pytest.raises(UserError, match="no encoder self-attention"):
        grid.overview(make_record().select(kinds=["dec"]), "enc")
    with pytest.raises(UserError, match="AttentionMaps record, not a tuple"):
        grid.layer(((np.zeros((1, 2, 1, 1)),),), "dec", 0)  # type: ignore[arg-type]


def test_hostile_and_awkward_tokens_are_drawn_as_they_are() -> None:
    markup = ["</script><img src=x onerror=alert(1)>", "<s>", "&lt;", "$$", "$x_1$", "_", '"']
    unseen = ["\\", "\u200b", "\u2028", "", "x" * 40, "\ud800", "e\u0301", "\x1b[31m", "%s{}"]
    tokens = [*markup, *unseen, "שלום", "مرحبا", "the", "the"]
    text = {"source": "$x_1$ </s> \u202e", "target": "\\"}
    maps = replace(make_record(tokens, tokens), text=text)
    for figure in (grid.layer(maps, "cross", 0), grid.overview(maps, "cross")):
        assert_tidy(figure)
        for extension in ("png", "svg", "pdf"):
            assert len(render(figure, extension)) > 1000
    columns = maps_of(grid.layer(maps, "cross", 0))[0].get_xticklabels()
    shown = [text.get_text() for text in columns]
    assert shown[1:9] == ["<s>", "&lt;", "$$", "$x_1$", "_", '"', "\\", "⟨U+200B⟩"]
    assert shown[9:11] == ["⟨U+2028⟩", "⟨empty⟩"]
    assert shown[18:20] == ["the", "the"]
    assert columns[1].get_style() == "normal"  # looks like a control token but is text
    assert columns[-1].get_style() == "italic"


def test_pictures_leave_no_trace() -> None:
    before = dict(matplotlib.rcParams)
    render(grid.layer(make_record(), "enc", 0), "pdf")
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.rcParams["pdf.fonttype"] == 3


def test_a_users_settings_do_not_change_pictures() -> None:
    plain = render(grid.layer(make_record(), "enc", 0), "svg")
    with matplotlib.rc_context(
        {"font.size": 30, "text.color": "red", "axes.grid": True, "savefig.bbox": "tight"}
    ):
        assert render(grid.layer(make_record(), "enc", 0), "svg") == plain


def test_importing_pictures_imports_neither_torch_nor_pyplot() -> None:
    code = (
        "import sys, viz, viz.grid, viz.cli, viz.gallery;"
        "sys.exit('torch' in sys.modules or 'matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_layer_whose_heads_are_all_gone() -> None:
    """It keeps its row in the overview; alone it cannot be drawn."""
    maps = without_heads(make_record(), "dec", 1, [])
    figure = grid.overview(maps, "dec")
    drawn = {axes.get_label() for axes in figure.axes}
    assert {f"layer {n} head {h}" for n in (0, 2) for h in (0, 1)} <= drawn
    assert not [name for name in drawn if name.startswith("layer 1")]
    texts = [text.get_text() for text in figure.texts]
    assert "layer 1" in texts
    assert texts.count("–") == 2
    assert "Decoder self-attention, 3 layers with 4 heads" in texts
    assert_tidy(figure)
    for draw in (grid.layer, grid.average):
        with pytest.raises(UserError, match="Decoder self-attention layer 1 has no head here"):
            draw(maps, "dec", 1)


def test_a_kind_whose_heads_are_all_gone() -> None:
    maps = make_record()
    for layer in range(3):
        maps = without_heads(maps, "cross", layer, [])
    with pytest.raises(UserError, match="The record holds no cross-attention"):
        grid.overview(maps, "cross")

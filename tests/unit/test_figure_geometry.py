"""Every figure, at every length, with every kind of label: nothing overlaps, nothing is swapped."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from attention_samples import make_record
from figure_geometry import assert_tidy, drawn_texts, maps_of
from head_tables import make_distances, make_table

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.heads import summarise
from seq2seq.analysis.quantities import norm_record, rollout_record
from seq2seq.analysis.rollout_shares import RolloutShares
from seq2seq.analysis.route import Route, Step
from seq2seq.errors import UserError
from viz import beyond, grid, likeness, summary
from viz.alignment import alignment
from viz.bright import bright
from viz.diff import diff
from viz.labels import FontWarning
from viz.lines import lines
from viz.rollout_bars import rollout_bars
from viz.route import route
from viz.steps import steps
from viz.style import Look, render
from viz.theme import darken

TOKENS = (5, 10, 20, 40, 60)
SHAPE = {"enc": (2, 4), "dec": (2, 4), "cross": (2, 4)}
PLAIN = ["▁The", "▁developer", "▁deployed", "▁the", "▁appli", "cation", "▁because", "▁it", ".", "I"]
HOSTILE = [
    *("▁Donaudampfschifffahrtsgesellschaft", "▁" + "W" * 30, "שלום", "مرحبا", "彼女", "조건", "कि"),
    *("</script><img src=x onerror=alert(1)>", "<s>", "$x_1$", "$$", "\\", "", "\u200b", "\u2028"),
    *("e\u0301" * 20, "▁", "_" * 14, "\ud800", "▁iiiiiiiiiiiiii", "🙂", "gjpqy", "ÄÖÜ"),
]


def record(tokens, words=PLAIN, seed=0):
    """A record of a source of `tokens` tokens and a target of nearly as many, with norms."""
    source = [words[i % len(words)] for i in range(tokens - 1)]
    target = [words[(3 * i + 1) % len(words)] for i in range(max(1, tokens - 3))]
    maps = make_record(source, target, shape=SHAPE, seed=seed)
    lengths = np.random.default_rng(seed).uniform(0.5, 4, size=tokens).astype(np.float32)
    norms = {
        kind: [layer * lengths[: layer.shape[-1]] for layer in maps.layers(kind)] for kind in SHAPE
    }
    options = [[piece, -0.3 - i] for i, piece in enumerate(words[:5])]
    meta = {**maps.meta, "alternatives": [options] * len(maps.tgt_out)}
    text = {"source": " ".join(source), "target": " ".join(target)}
    return replace(maps, norms=norms, meta=meta, text=text)


def weights_and_numbers(maps, look):
    return grid.layer(maps, "cross", 1, look, summarise(maps, "cross", 1))


def words_linked(maps, look):
    one = maps.select(["cross"], [0], [0])
    links = {(0, 0), (1, min(1, len(maps.tgt_out) - 1))}
    return alignment(one, links, look=look, name="cross.0.0")


def of_route(maps, _look):
    steps_ = [
        Step(HeadId("enc", 0, 1), 0.5, 0.4, 1, maps.enc[0][1][1].tolist()),
        Step(HeadId("dec", 1, 0), 0.1, 0.0, 1, maps.dec[1][0][1].tolist()),
        Step(HeadId("cross", 1, 3), -0.2, 1.0, 1, maps.cross[1][3][1].tolist()),
    ]
    return route(Route(maps.src, maps.tgt_in, maps.src[0], maps.src[1], steps_, ["run demo"]))


OF_SENTENCES = {
    "overview": lambda maps, look: grid.overview(maps, "dec", look),
    "layer": weights_and_numbers,
    "head": lambda maps, look: grid.head(maps, "enc", 0, 2, look),
    "average": lambda maps, look: grid.average(maps, "dec", 0, look),
    "lines": lambda maps, look: lines(maps, "cross", 1, [0, 1, 3], look),
    "one line": lambda maps, look: lines(maps, "dec", 0, [2], look),
    "steps": lambda maps, look: steps(maps, "cross", 1, [0, 2], look),
    "steps of one": lambda maps, look: steps(maps, "dec", 0, [3], look),
    "diff": lambda maps, look: diff(maps, other(maps), "enc", 1, [0, 3], look),
    "diff of one": lambda maps, look: diff(maps, other(maps), "cross", 0, [1], look),
    "norms": lambda maps, look: beyond.weight_vs_norm(maps, "dec", 1, [0, 1], look),
    "layer of norms": lambda maps, look: grid.layer(norm_record(maps), "cross", 0, look),
    "lines of norms": lambda maps, look: lines(norm_record(maps), "enc", 0, [0, 1], look),
    "rollout": lambda maps, look: beyond.rollout(rollout_record(maps), "cross", look),
    "alignment": words_linked,
    "route": of_route,
}
LIMITS = {"lines": 30, "one line": 30, "lines of norms": 30, "route": 20}  # tokens of the source
WITHOUT_KEYS = ("route",)  # figures that do not hide control tokens


def of_shares(layers):
    shares = RolloutShares()
    shares.add(make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (layers, 2))))
    return rollout_bars(shares.shares(), ["run demo · checkpoint step 7"])


OF_HEADS = {
    "rollout of layers": of_shares,
    "layers": lambda heads: summary.layers(make_table(2, heads)),
    "grid": lambda heads: summary.stat_grid(make_table(2, heads), "bleu_change"),
    "bright": lambda heads: bright(make_table(2, heads), "importance"),
    "map": lambda heads: likeness.head_map(make_distances(2, heads)),
    "similarity": lambda heads: likeness.similarity(make_distances(2, heads)["dec"]),
}


def other(maps):
    return replace(record(len(maps.src), seed=1), src=maps.src, tgt_in=maps.tgt_in,
                   tgt_out=maps.tgt_out, text=maps.text, meta=maps.meta)  # fmt: skip


def drawn(name, maps, look=None):
    """The figure, without its messages on fonts that this machine lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FontWarning)
        return OF_SENTENCES[name](maps, look or Look())


def heading(figure):
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [*((tokens, PLAIN) for tokens in TOKENS), (10, HOSTILE), (30, HOSTILE)],
    ids=[*map(str, TOKENS), "10 hostile", "30 hostile"],
)
@pytest.mark.parametrize("name", OF_SENTENCES)
def test_nothing_overlaps_at_any_length(name, tokens, words):
    maps = record(tokens, words)
    if tokens > LIMITS.get(name, tokens):
        with pytest.raises(UserError, match="too many"):
            drawn(name, maps)
        return
    before = dict(matplotlib.rcParams)
    assert_tidy(drawn(name, maps))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("heads", [1, 4, 8])
@pytest.mark.parametrize("name", OF_HEADS)
def test_nothing_overlaps_with_any_number_of_heads(name, heads):
    before = dict(matplotlib.rcParams)
    assert_tidy(OF_HEADS[name](heads))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("look", [{"special": "mute", "labels": "both"}, {"labels": "index"}])
@pytest.mark.parametrize("name", OF_SENTENCES)
def test_nothing_overlaps_whatever_is_chosen(name, look):
    assert_tidy(drawn(name, record(6), Look(**look)))


@pytest.mark.parametrize("name", [name for name in OF_SENTENCES if name not in WITHOUT_KEYS])
@pytest.mark.parametrize("special", ["mute", "drop"])
def test_what_is_hidden_is_stated(name, special):
    assert "hidden" not in heading(drawn(name, record(6)))
    assert " mean 0." in heading(drawn(name, record(6), Look(special=special))).split("hidden")[1]


def other_slices(maps):
    b = other(maps)
    return [array for head in (0, 3) for array in (maps.enc[1][head], b.enc[1][head],
            b.enc[1][head] - maps.enc[1][head])]  # fmt: skip


SLICES = {
    "overview": ("dec", lambda maps: [head for layer in maps.dec for head in layer]),
    "layer": ("cross", lambda maps: list(maps.cross[1])),
    "head": ("enc", lambda maps: [maps.enc[0][2]]),
    "average": ("dec", lambda maps: [maps.dec[0].mean(0), maps.dec[0].std(0)]),
    "layer of norms": ("cross", lambda maps: list(maps.norms["cross"][0])),
    "diff": ("enc", other_slices),
    "alignment": ("cross", lambda maps: [maps.cross[0][0]]),
}


@pytest.mark.parametrize("tokens", [9, 25])
@pytest.mark.parametrize("name", SLICES)
def test_images_are_the_records_and_ticks_its_labels(name, tokens):
    maps = record(tokens)
    kind, expected = SLICES[name]
    shown = maps_of(drawn(name, maps))
    arrays = expected(maps)
    assert len(shown) == len(arrays)
    for axes, array in zip(shown, arrays, strict=True):
        (image,) = axes.images
        assert np.array_equal(image.get_array(), array)
        assert tuple(image.get_extent()) == (-0.5, array.shape[1] - 0.5, array.shape[0] - 0.5, -0.5)
    if name != "overview":
        ticks = [text.get_text() for text in shown[0].get_yticklabels()]
        assert ticks == maps.labels(maps.query_side(kind))
        ticks = [text.get_text() for text in shown[0].get_xticklabels()]
        assert ticks == maps.labels(maps.key_side(kind))
        assert [float(y) for y in shown[0].get_yticks()] == list(range(len(arrays[0])))


@pytest.mark.parametrize("name", ["lines", "steps", "diff", "norms", "rollout"])
def test_equal_pictures_have_equal_bytes(name):
    first, again = (render(drawn(name, record(3)), "svg") for _ in range(2))
    assert first == again


@pytest.mark.parametrize("name", ["layer", "lines", "steps", "diff of one", "alignment", "route"])
def test_dark_paper_leaves_no_dark_letter(name):
    """All letters but those on coloured cells can be read on it, and nothing moves."""
    maps = record(4)
    plain, dark = (
        drawn(name, maps, Look(special="mute")),
        darken(drawn(name, maps, Look(special="mute"))),
    )
    assert dark.get_size_inches().tolist() == plain.get_size_inches().tolist()
    for before, after in zip(drawn_texts(plain), drawn_texts(dark), strict=True):
        colour = matplotlib.colors.to_rgb(before.get_color())
        on_cell = before.axes is not None and before in before.axes.texts
        if not (on_cell and before.get_color() in ("black", "white")):
            assert sum(matplotlib.colors.to_rgb(after.get_color())) > 1.7 > sum(colour)
    paper = sum(matplotlib.colors.to_rgb(dark.get_facecolor()))
    assert paper < 0.4
    assert render(darken(dark), "svg") == render(dark, "svg")


def test_bars_of_rollout_are_as_long_as_shares():
    figure = of_shares(2)
    shares = RolloutShares()
    shares.add(make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (2, 2))))
    for kind in ("enc", "dec", "cross"):
        (axes,) = (axes for axes in figure.axes if axes.get_label() == f"rollout {kind}")
        values = [share for layer in range(2) for share in shares.shares()[kind, layer].values()]
        assert [bar.get_width() for bar in axes.patches] == pytest.approx(values)
        written = [text.get_text() for text in axes.texts]
        assert written == [f"{value:.0%}" for value in values if value >= 0.1]
    with pytest.raises(UserError, match="no share of rollout"):
        rollout_bars({})


@pytest.mark.parametrize("name", ["lines", "steps", "diff of one", "rollout"])
def test_hostile_tokens_are_drawn_and_given_in_full(name):
    figure = drawn(name, record(len(HOSTILE) + 1, HOSTILE))
    svg = render(figure, "svg").decode("utf-8")
    titles = {
        title.text for title in ElementTree.fromstring(svg).iter() if title.tag.endswith("title")
    }
    assert "▁Donaudampfschifffahrtsgesellschaft" in titles
    assert any(title and title.startswith("</script><img") for title in titles)
    groups = re.findall(r'<g id="([^"]+)"', svg)
    assert len(groups) == len(set(groups))
    assert len(render(figure, "pdf" if name == "lines" else "png")) > 1000

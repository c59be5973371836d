"""Weights beside norms and rollout: the maps drawn are the numbers they claim to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record
from figure_geometry import maps_of

from seq2seq.analysis.quantities import rollout_record
from seq2seq.analysis.rollout import decoder_rollout, rollout
from seq2seq.analysis.words import to_words
from seq2seq.errors import UserError
from viz import beyond
from viz.style import Look

KINDS = ("enc", "dec", "cross")


def record(**options):
    maps = make_record(**options)
    lengths = np.arange(1.0, 1 + max(len(maps.src), len(maps.tgt_in)))
    norms = {k: [w * lengths[: w.shape[-1]] for w in maps.layers(k)] for k in KINDS}
    return replace(maps, norms=norms)


def arrays(figure):
    return [axes.images[0].get_array() for axes in maps_of(figure)]


def text_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_norms_shares_and_rollout_stand_side_by_side(kind):
    maps = record()
    shown = arrays(beyond.weight_vs_norm(maps, kind, 1, [1]))
    alpha, norm = maps.layers(kind)[1][1], maps.norms[kind][1][1]
    reached = {
        "enc": rollout(maps)[1],
        "dec": decoder_rollout(maps)[1].target,
        "cross": decoder_rollout(maps)[1].source,
    }
    assert len(shown) == 4
    assert np.array_equal(shown[0], alpha)
    assert np.array_equal(shown[1], norm)
    assert np.allclose(shown[2], norm / norm.sum(-1, keepdims=True) - alpha, atol=1e-6)
    assert np.array_equal(shown[3], reached[kind])


def test_several_heads_are_rows_and_rollout_is_drawn_once():
    figure = beyond.weight_vs_norm(record(), "enc", 1)
    assert len(maps_of(figure)) == 4 * 3 + 1
    assert text_of(figure).count("rollout to layer 1") == 1
    assert "head 3: norm share − α" in text_of(figure)


def test_norms_have_a_scale_of_their_own_that_ends_at_the_largest():
    maps = record()
    images = [axes.images[0] for axes in maps_of(beyond.weight_vs_norm(maps, "cross", 0))]
    assert images[0].norm.vmax == 1
    assert images[1].norm.vmax == images[5].norm.vmax == maps.norms["cross"][0].max()
    assert images[2].norm.vmin == -images[2].norm.vmax
    bars = [axes for axes in beyond.weight_vs_norm(maps, "cross", 0).axes if not axes.images]
    assert len(bars) == 3


def test_words_of_norms_are_sums_over_their_pieces():
    maps = record()
    shown = arrays(beyond.weight_vs_norm(maps, "enc", 0, [0], words=True))
    words = to_words(maps)
    assert words.src == ["it", "application", "</s>"]
    assert np.array_equal(shown[1], words.norms["enc"][0][0])
    assert np.array_equal(shown[3], to_words(rollout_record(maps)).enc[0][0])


def test_a_row_without_norm_has_no_share():
    """Heads that are switched off add nothing; 0 / 0 must not become a number."""
    maps = record()
    none = {kind: [0 * layer for layer in maps.layers(kind)] for kind in KINDS}
    shown = arrays(beyond.weight_vs_norm(replace(maps, norms=none), "enc", 0, [0]))
    assert np.isfinite(np.array(shown)).all()
    assert np.array_equal(shown[2], -maps.enc[0][0])


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_is_drawn_layer_by_layer(kind):
    maps = make_record()
    rolled = rollout_record(maps)
    figure = beyond.rollout(rolled, kind)
    shown = arrays(figure)
    assert len(shown) == len(maps.layers(kind))
    for drawn, expected in zip(shown, rolled.layers(kind), strict=True):
        assert np.array_equal(drawn, expected[0])
    assert "after layer 1" in text_of(figure)
    assert "square-root colour scale of rollout" in text_of(figure)
    assert "Abnar and Zuidema 2020" in text_of(figure)
    linear = text_of(beyond.rollout(rolled, kind, Look(scale="linear")))
    assert "linear colour scale of rollout" in linear


def test_what_is_missing_is_told():
    with pytest.raises(UserError, match="holds no norms"):
        beyond.weight_vs_norm(make_record(), "enc", 0)
    with pytest.raises(UserError, match="1 to 4 heads at once, not 8"):
        beyond.weight_vs_norm(record(shape=dict.fromkeys(KINDS, (1, 8))), "enc", 0)
    with pytest.raises(UserError, match="Rollout needs all layers"):
        beyond.weight_vs_norm(record().select(layers=[1]), "enc", 1)
    with pytest.raises(UserError, match="needs a record of it"):
        beyond.rollout(make_record(), "enc")
    with pytest.raises(UserError, match="nothing to draw"):
        beyond.rollout(rollout_record(make_record()).select(kinds=["enc"]), "dec")

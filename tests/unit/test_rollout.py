"""Rollout through both stacks, by hand-derived values, and the records that hold it."""

from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights, without_heads

from seq2seq.analysis.quantities import norm_record, quantity, rollout_record
from seq2seq.analysis.rollout import decoder_rollout, rollout
from seq2seq.analysis.words import to_words
from seq2seq.errors import UserError

A, C = 0.6697615493266569, 0.3302384506733431  # the lesson's weights


def encoder(*layers):
    shape = {"enc": (len(layers), 1), "dec": (0, 0), "cross": (0, 0)}
    maps = make_record(["a"] * (len(layers[0]) - 1), shape=shape)
    for number, weights in enumerate(layers):
        maps = with_weights(maps, "enc", number, np.array([weights]))
    return maps


LESSON = [[A, C], [C, A]]


def test_rollout_of_the_lesson():
    once, twice = rollout(encoder(LESSON, LESSON))
    assert once[0] == pytest.approx([0.8348807747, 0.1651192253], abs=1e-10)
    assert twice[0] == pytest.approx([0.7242902665, 0.2757097335], abs=1e-10)


def test_rollout_multiplies_later_layers_from_the_left():
    first = [[0, 1, 0], [0, 1, 0], [0, 0, 1]]  # after layer 1, position 0 holds token 1
    second = [[1, 0, 0], [0, 1, 0], [1, 0, 0]]  # position 2 reads position 0
    assert rollout(encoder(first, second), residual=0)[1].tolist()[2] == [0, 1, 0]
    assert np.array_equal(rollout(encoder(first, second), residual=1)[1], np.eye(3))


@pytest.mark.parametrize("kind", ["enc", "dec"])
def test_rollout_is_a_distribution_and_keeps_the_causal_mask(kind):
    found = rollout(make_record(), kind)
    for reached in found:
        assert reached.sum(-1) == pytest.approx(1, abs=1e-6)
        if kind == "dec":
            assert np.abs(np.triu(reached, 1)).max() == 0
    mean = make_record().layers(kind)[0].mean(0)
    assert found[0] == pytest.approx(0.5 * mean + 0.5 * np.eye(len(mean)), abs=1e-6)


def test_a_layer_without_heads_passes_everything_on():
    maps = without_heads(make_record(), "enc", 0, [])
    assert np.array_equal(rollout(maps)[0], np.eye(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "cross"}, "Rollout follows self-attention"),
        ({"residual": 1.5}, "must be 0 to 1"),
        ({"maps": make_record().select(layers=[1])}, "needs all layers"),
        ({"maps": make_record().select(kinds=["cross"])}, "needs all layers"),
    ],
)
def test_what_rollout_cannot_do(change, message):
    with pytest.raises(UserError, match=message):
        rollout(**{"maps": make_record(), **change})


def tiny_decoder():
    """One layer each of one head; source a </s>, target x </s>."""
    maps = make_record(["a"], ["x"], shape={"enc": (1, 1), "dec": (1, 1), "cross": (1, 1)})
    maps = with_weights(maps, "enc", 0, np.array([[[0, 1.0], [0, 1]]]))
    maps = with_weights(maps, "dec", 0, np.array([[[1.0, 0], [1, 0]]]))
    return with_weights(maps, "cross", 0, np.array([[[1.0, 0], [0.5, 0.5]]]))


def test_rollout_of_a_decoder_by_hand():
    """E = [[.5 .5], [0 1]]; after self-attention D = [[1 0], [.5 .5]]; then half of both."""
    (found,) = decoder_rollout(tiny_decoder())
    assert found.target.tolist() == [[0.5, 0], [0.25, 0.25]]
    # ½ · [1 0] E = [.25 .25]; ½ · [.5 .5] E = [.125 .375]
    assert found.source.tolist() == [[0.25, 0.25], [0.125, 0.375]]


def as_one_graph(maps, residual):
    """The same through one matrix for each sub-layer, over source and target positions at once."""
    s, t = len(maps.src), len(maps.tgt_in)
    state = np.eye(s + t)
    after = []
    for weights in maps.enc:
        step = np.eye(s + t)
        step[:s, :s] = residual * np.eye(s) + (1 - residual) * weights.mean(0)
        state = step @ state
    for own, cross in zip(maps.dec, maps.cross, strict=True):
        step = np.eye(s + t)
        step[s:, s:] = residual * np.eye(t) + (1 - residual) * own.mean(0)
        state = step @ state
        step = np.eye(s + t)
        step[s:, s:] = residual * np.eye(t)
        step[s:, :s] = (1 - residual) * cross.mean(0)
        state = step @ state
        after.append(state[s:])
    return after


@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
def test_rollout_of_a_decoder_is_that_of_one_graph(residual):
    maps = make_record()
    found, expected = decoder_rollout(maps, residual), as_one_graph(maps, residual)
    assert len(found) == len(maps.dec) == 3
    for layer, (reached, graph) in enumerate(zip(found, expected, strict=True)):
        both = np.concatenate((reached.source, reached.target), axis=1)
        assert both == pytest.approx(graph, abs=1e-6)
        assert both.sum(-1) == pytest.approx(1, abs=1e-6)
        assert np.abs(np.triu(reached.target, 1)).max() == 0
        assert reached.target.sum(-1) == pytest.approx(residual ** (layer + 1), abs=1e-6)


def test_pruned_attentions_of_a_decoder_pass_everything_on():
    maps = without_heads(without_heads(make_record(), "cross", 1, []), "dec", 1, [])
    first, second, _ = decoder_rollout(maps)
    assert np.array_equal(first.source, second.source)
    assert np.array_equal(first.target, second.target)


def test_a_record_of_rollout_holds_all_three_kinds():
    maps = make_record()
    rolled = rollout_record(maps)
    assert quantity(maps) == "weight"
    assert quantity(rolled) == "rollout"
    assert np.array_equal(rolled.head("enc", 1, 0), rollout(maps)[1])
    assert np.array_equal(rolled.head("cross", 2, 0), decoder_rollout(maps)[2].source)
    assert np.array_equal(rolled.head("dec", 0, 0), decoder_rollout(maps)[0].target)
    assert rolled.layer_ids == maps.layer_ids
    words = to_words(rolled)  # "application" is two pieces
    assert words.enc[0].shape == (1, 3, 3)
    assert words.enc[0].sum(-1) == pytest.approx(1)
    with pytest.raises(UserError, match="needs pieces"):
        rollout_record(to_words(maps))


def test_a_record_of_norms_holds_norms():
    maps = make_record()
    with pytest.raises(UserError, match="holds no norms"):
        norm_record(maps)
    norms = {kind: [2 * layer for layer in maps.layers(kind)] for kind in ("enc", "dec", "cross")}
    found = norm_record(replace(maps, norms=norms))
    assert quantity(found) == "norm"
    assert np.array_equal(found.head("cross", 1, 1), 2 * maps.cross[1][1])

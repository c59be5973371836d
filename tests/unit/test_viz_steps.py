"""Decoding steps: what stands in a row is what the record says of that step."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights
from matplotlib.collections import PatchCollection

from seq2seq.analysis.words import to_words
from seq2seq.errors import UserError
from viz.heatmap import digits
from viz.steps import TOP, steps
from viz.style import Look

WEIGHTS = np.array(
    [
        [[0.1, 0.2, 0.6, 0.1], [0.97, 0.02, 0.007, 0.003], [0.25, 0.25, 0.25, 0.25]],
        [[0.0, 0.0, 0.0, 1.0]] * 3,
    ]
)


def record():
    maps = make_record(
        ["a", "b", "a"], ["x", "y"], shape=dict.fromkeys(("enc", "dec", "cross"), (1, 2))
    )
    logs = np.log(np.array([0.9, 0.25, 0.004]))
    options = [[["x", -0.1], ["z", -2.3]], [["w", math.log(0.5)], ["y", -1.4]], [["</s>", -5.5]]]
    maps = replace(maps, logprob=logs, meta={**maps.meta, "alternatives": options})
    return with_weights(maps, "cross", 0, WEIGHTS)


def rows_of(figure):
    """What is written in each row of the table, from left to right."""
    (axes,) = (axes for axes in figure.axes if axes.get_label() == "steps")
    rows = {}
    for text in axes.texts:
        if text.get_text():
            x, y = text.get_position()
            rows.setdefault(round(y, 3), []).append((x, text.get_text()))
    return [[text for _, text in sorted(rows[y])] for y in sorted(rows)]


def text_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


def test_a_row_is_a_step_with_its_heaviest_keys():
    figure = steps(record(), "cross", 0)
    assert rows_of(figure) == [
        ["0", "x", ".90", "z  .10", "a #2", ".60", "b", ".20", "a #0", ".10", "</s>", "1"],
        ["1", "y", ".25", "w  .50", "a #0", ".97", "b", ".02", "a #2", ".01", "</s>", "1"],
        # equal weights in order of place
        ["2", "</s>", "0", "a #0", ".25", "b", ".25", "a #2", ".25", "</s>", "1"],
    ]  # fmt: skip
    words = text_of(figure)
    assert "Cross-attention, layer 0 of 1: what every step of decoding read" in words
    assert "#n where one comes again" in words
    assert "others: mean 0.12 max 0.25" in words  # (.1 + .003 + .25) / 3
    assert "others: mean 0.00 max 0.00" in words
    assert f"the {TOP} keys with the highest weight" in words


def test_cells_have_the_colours_of_their_weights():
    (axes,) = (a for a in steps(record(), "cross", 0).axes if a.get_label() == "steps")
    first, second = (c for c in axes.collections if isinstance(c, PatchCollection))
    assert len(first.get_paths()) == 9
    assert len(second.get_paths()) == 3
    light = first.get_facecolor()[:, :3].sum(1)
    assert light[:3].tolist() == sorted(light[:3], reverse=True)
    assert np.array_equal(first.get_facecolor()[6], first.get_facecolor()[8])


def test_a_single_head_shows_more_keys():
    maps = make_record(list("abcdefg"), ["x"], shape=dict.fromkeys(("enc", "dec", "cross"), (1, 2)))
    weights = np.sort(maps.cross[0][1][0])[::-1]
    shown = [text for text in rows_of(steps(maps, "cross", 0, [1]))[0] if text.startswith(".")]
    assert shown[-5:] == [digits(float(w)) for w in weights[:5]]


def test_the_decoder_reads_what_it_wrote():
    """Row t may see t + 1 keys, the first of them <s>."""
    found = rows_of(steps(record(), "dec", 0, [0]))
    assert "<s>" in found[0]
    assert not {"x", "y"} & set(found[0][2:])
    assert [row[1] for row in found] == ["x", "y", "</s>"]  # always what is written


def test_without_probabilities_there_is_no_such_column():
    maps = replace(record(), logprob=None, meta={})
    assert rows_of(steps(maps, "cross", 0))[0][:4] == ["0", "x", "a #2", ".60"]
    assert "probability" not in text_of(steps(maps, "cross", 0))


def test_hidden_tokens():
    muted = steps(record(), "cross", 0, look=Look(special="mute"))
    dropped = steps(record(), "cross", 0, look=Look(special="drop"))
    assert "hidden mass mean 0.56 max 1.00" in text_of(muted)  # (.1 + .003 + .25 + 3) / 6
    assert rows_of(muted)[0][-2:] == ["</s>", "1"]
    assert rows_of(dropped)[0][-2:] == ["a #0", ".10"]  # head 1 has nothing left
    assert "hidden mass mean 0.56 max 1.00" in text_of(dropped)


def test_words():
    maps = to_words(make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (1, 2))))
    found = rows_of(steps(maps, "cross", 0))
    assert [row[1] for row in found] == ["die", "Anwendung", "war", "</s>"]
    assert {text for row in found for text in row} & {"application", "it"}
    with pytest.raises(UserError, match="need pieces"):
        steps(maps, "dec", 0)


def test_what_has_no_steps_is_refused():
    with pytest.raises(UserError, match="Steps are those of the decoder"):
        steps(record(), "enc", 0)
    eight = make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (1, 8)))
    with pytest.raises(UserError, match="1 to 4 heads at once, not 8"):
        steps(eight, "cross", 0)
    assert steps(eight, "cross", 0, [1, 3, 5, 7])

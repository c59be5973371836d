"""Interchange intervention against what theory says, on models whose circuit is known."""

import csv
import io
from dataclasses import replace

import pytest
import torch
from model_samples import random_ids, tiny_model

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.importance import answer_gradients
from seq2seq.analysis.interchange import Contrast, Interchange, contrast, padded
from seq2seq.analysis.intervals import wilson
from seq2seq.analysis.intervene import all_heads, attentions, on_heads, switched_off
from seq2seq.analysis.route import find_steps
from seq2seq.analysis.tables import HeadTable
from seq2seq.analysis.trace import (
    EFFECT,
    FLIPS,
    smallest_set,
    strongest,
    trace_heads,
    trace_pairs,
    trace_places,
)
from seq2seq.analysis.verdict import carriers, part, verdict
from seq2seq.analysis.verdict import route as route_in_words
from seq2seq.config import BOS, EOS
from seq2seq.errors import UserError

PLANTED = HeadId("cross", 0, 1)


def make_contrasts(model, lengths=(5, 8), target_length=3):
    """Random sources that differ in one id; tokens so chosen that the model tells them apart."""
    found = []
    for number, length in enumerate(lengths):
        source = [*random_ids(1, length, 11, seed=number)[0].tolist(), EOS]
        other = list(source)
        other[2] = 4 + (source[2] - 4 + 3) % 7
        target_in = [BOS, *random_ids(1, target_length, 13, seed=50 + number)[0].tolist()]
        with torch.no_grad():
            a, b = (
                model(torch.tensor([ids]), torch.tensor([target_in]))[0, -1].log_softmax(-1)
                for ids in (source, other)
            )
        moved = a - b
        found.append(Contrast(source, other, target_in, int(moved.argmax()), int(moved.argmin())))
    return found


def silence(model, *spared):
    """Make every head but some put nothing into W_O: its block is 0."""
    with torch.no_grad():
        for head in all_heads(model):
            if head not in spared:
                attention = attentions(model)[head.place]
                block = slice(head.head * attention.d_v, (head.head + 1) * attention.d_v)
                attention.w_o.weight[:, block] = 0


@pytest.fixture
def runs():
    model = tiny_model()
    return Interchange(model, make_contrasts(model))


def test_swapping_nothing_moves_nothing(runs):
    found = runs.effect([])
    assert (found.effect, found.flips, found.count) == (0, 0, 2)
    assert runs.effect([PLANTED], at=[[], []]).effect == 0


def test_all_cross_heads_carry_everything(runs):
    """The decoder sees the source through cross-attention and nothing else."""
    cross = [head for head in all_heads(runs.model) if head.kind == "cross"]
    assert runs.effect(cross).effect == pytest.approx(1, abs=1e-9)
    assert runs.effect(cross[1:]).effect != pytest.approx(1, abs=1e-3)
    assert torch.allclose(runs.swapped(cross).token, runs.goal.token, atol=1e-12)


@pytest.mark.parametrize("kinds", [("enc",), ("enc", "dec", "cross")])
def test_all_heads_and_the_residual_inputs_carry_everything(kinds):
    model = tiny_model()
    only = make_contrasts(model, lengths=(6,))
    heads = [head for head in all_heads(model) if head.kind in kinds]
    runs = Interchange(model, only)
    embedded = model.source_embedding(torch.tensor([only[0].other]))
    if kinds == ("enc",):  # heads alone leave the changed word itself in the residual stream
        assert runs.effect(heads).effect != pytest.approx(1, abs=1e-3)
    handle = model.source_embedding.register_forward_hook(lambda *_: embedded)
    assert runs.effect(heads).effect == pytest.approx(1, abs=1e-9)
    handle.remove()


@pytest.mark.parametrize("name", ["enc.0.1", "dec.1.2", "cross.0.3"])
def test_a_head_that_w_o_ignores_has_no_effect(name):
    model, head = tiny_model(), HeadId.parse(name)
    before = Interchange(model, make_contrasts(model)).effect([head]).effect
    silence(model, *(other for other in all_heads(model) if other != head))
    after = Interchange(model, make_contrasts(model)).effect([head]).effect
    assert abs(before) > 1e-6
    assert after == pytest.approx(0, abs=1e-12)


def test_the_one_head_of_a_planted_circuit_has_effect_1_and_all_others_0():
    model = tiny_model()
    silence(model, PLANTED)
    runs = Interchange(model, make_contrasts(model))
    table = trace_heads(runs)
    for head, effect in table.values("effect").items():
        assert effect == pytest.approx(1 if head == PLANTED else 0, abs=1e-9), head
    assert smallest_set(runs, table) == [PLANTED]
    assert carriers(table) == [PLANTED]


def test_effects_are_those_of_a_run_by_hand(runs):
    """One head at one position, swapped by hooks written here."""
    pair, head = runs.contrasts[0], HeadId("enc", 1, 0)
    attention = attentions(runs.model)[head.place]
    source, other = torch.tensor([pair.source]), torch.tensor([pair.other])
    target_in, kept = torch.tensor([pair.target_in]), []

    def swap(_module, _inputs, output):
        output = output.clone()
        output[:, 0, 2] = kept[0][:, 0, 2]
        return output

    with torch.no_grad():
        reader = attention.heads.register_forward_hook(lambda _m, _i, output: kept.append(output))
        runs.model(other, target_in)
        reader.remove()
        writer = attention.heads.register_forward_hook(swap)
        logs = runs.model(source, target_in)[0, -1].log_softmax(-1)
        writer.remove()
    found = runs.swapped([head], at=[[2], []])
    assert found.token[0] == pytest.approx(float(logs[pair.token]), abs=1e-12)
    assert found.other_token[0] == pytest.approx(float(logs[pair.other_token]), abs=1e-12)
    assert found.token[1] == pytest.approx(float(runs.before.token[1]), abs=1e-12)


def test_contrasts_of_different_lengths_do_not_disturb_each_other(runs):
    head = HeadId("enc", 0, 0)
    alone = [Interchange(runs.model, [pair]).swapped([head]).delta for pair in runs.contrasts]
    assert torch.allclose(torch.cat(alone), runs.swapped([head]).delta, atol=1e-12)


def test_every_position_is_all_positions(runs):
    for head in (HeadId("enc", 1, 1), HeadId("dec", 1, 0)):
        read = [p.source if head.kind == "enc" else p.target_in for p in runs.contrasts]
        assert runs.effect([head], [range(len(ids)) for ids in read]) == runs.effect([head])


def test_without_a_head_is_the_model_with_it_switched_off(runs):
    heads = [HeadId("enc", 0, 0), HeadId("cross", 1, 1)]
    pair = runs.contrasts[1]
    with torch.no_grad(), switched_off(runs.model, heads):
        logits = runs.model(torch.tensor([pair.source]), torch.tensor([pair.target_in]))
    expected = logits[0, -1].log_softmax(-1)[pair.token]
    assert runs.without(heads).token[1] == pytest.approx(float(expected), abs=1e-12)


def test_turned_round_the_runs_change_places(runs):
    turned = Interchange(runs.model, [pair.turned for pair in runs.contrasts])
    assert torch.allclose(turned.before.token, runs.goal.other_token, atol=1e-12)
    assert torch.allclose(turned.goal.delta, -runs.before.delta, atol=1e-12)


def test_the_model_is_left_as_it_was(runs):
    runs.model.train()
    trace_heads(runs)
    assert all(module.training for module in runs.model.modules())
    assert not any(module._forward_hooks for module in runs.model.modules())


def test_sources_of_different_lengths_leave_encoder_heads_out():
    model = tiny_model()
    pair = make_contrasts(model, lengths=(5,))[0]
    longer = Contrast(pair.source, [4, *pair.other], pair.target_in, pair.token, pair.other_token)
    runs = Interchange(model, [longer])
    with pytest.raises(UserError, match="as many pieces"):
        runs.effect([HeadId("enc", 0, 0)])
    cross = [head for head in all_heads(model) if head.kind == "cross"]
    assert runs.swapped(cross).delta == pytest.approx(runs.goal.delta, abs=1e-9)


def test_the_answer_is_the_first_piece_that_differs():
    found = contrast([5, 6, EOS], [5, 7, EOS], [4, 8, 9, EOS], [4, 8, EOS])
    assert found == Contrast([5, 6, EOS], [5, 7, EOS], [BOS, 4, 8], 9, EOS)


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (([5, EOS], [5, EOS]), ([4, EOS], [6, EOS]), "are the same"),
        (([5, EOS], [6, EOS]), ([4, EOS], [4, EOS]), "same translation"),
    ],
)
def test_what_does_not_differ_is_refused(sources, targets, message):
    with pytest.raises(UserError, match=message):
        contrast(*sources, *targets)


def test_a_model_that_answers_alike_is_refused():
    model = tiny_model()
    silence(model)
    with pytest.raises(UserError, match="does not tell the two sentences apart"):
        Interchange(model, make_contrasts(tiny_model())).effect([PLANTED])
    with pytest.raises(UserError, match="no pair"):
        Interchange(model, [])


def test_too_long_for_the_position_table():
    model = tiny_model(positions="learned", max_positions=6)
    long = Contrast([5] * 6 + [EOS], [6] * 6 + [EOS], [BOS], 4, 5)
    with pytest.raises(UserError, match="7 tokens, but the model's position table ends at 6"):
        Interchange(model, [long])


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [  # Brown, Cai and DasGupta 2001, formula (4), evaluated by hand
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson(hits, count, low, high):
    assert wilson(hits, count) == pytest.approx((low, high), abs=1e-4)


def test_intervals_hold_the_effect_and_need_more_than_one_pair():
    model = tiny_model()
    runs = Interchange(model, make_contrasts(model, lengths=(4, 5, 6, 7, 8, 9)))
    for row in trace_heads(runs).rows.values():
        assert row["effect_low"] - 1e-9 <= row["effect"] <= row["effect_high"] + 1e-9
        assert row["beyond_low"] - 1e-9 <= row["beyond_others"] <= row["beyond_high"] + 1e-9
    together = trace_heads(runs, groups=[0] * 6)
    assert {row["effect_low"] for row in together.rows.values()} == {None}
    assert {row["flips_low"] for row in together.rows.values()} == {None}


def test_other_heads_are_the_mean_of_all_but_this(runs):
    table = trace_heads(runs)
    changes = table.values("token_change")
    for head, row in table.rows.items():
        others = [value for name, value in changes.items() if name != head]
        assert row["others_change"] == pytest.approx(sum(others) / len(others))
        assert row["beyond_others"] == pytest.approx(changes[head] - row["others_change"])
        lost = runs.without([head]).token - runs.before.token
        assert changes[head] == pytest.approx(float(lost.mean()), abs=1e-9)


@pytest.mark.parametrize("name", ["enc.0.1", "dec.1.2", "cross.0.3"])
def test_the_gradient_is_the_slope_of_the_answer_in_the_head(runs, name):
    head, step = HeadId.parse(name), 1e-5

    def odds(pair, factor):
        def scale(outputs):
            outputs = outputs.clone()
            outputs[:, head.head] *= factor
            return outputs

        with torch.no_grad(), on_heads(runs.model, {head.place: scale}):
            logits = runs.model(torch.tensor([pair.source]), torch.tensor([pair.target_in]))[0, -1]
        return float(logits[pair.token] - logits[pair.other_token])

    found = answer_gradients(runs)[head]
    for number, pair in enumerate(runs.contrasts):
        slope = (odds(pair, 1 + step) - odds(pair, 1 - step)) / (2 * step)
        assert found[number] == pytest.approx(abs(slope), abs=1e-6)
    assert trace_heads(runs).values("gradient")[head] == pytest.approx(float(found.mean()))


def test_a_head_that_w_o_ignores_has_no_gradient_and_costs_nothing():
    model = tiny_model()
    silence(model, PLANTED)
    table = trace_heads(Interchange(model, make_contrasts(model)))
    for head in table.heads:
        for name in ("gradient", "token_change"):
            if head != PLANTED:
                assert table.rows[head][name] == pytest.approx(0, abs=1e-12)
    assert table.rows[PLANTED]["gradient"] > 1e-4


def test_the_smallest_set_is_what_greedy_addition_finds(runs):
    table = trace_heads(runs)
    chosen = smallest_set(runs, table, goal=0.99, most=3, among=99)
    effects = table.values("effect")
    assert chosen[0] == max(effects, key=effects.get)
    for size in range(1, len(chosen)):
        added = {
            h: runs.effect([*chosen[:size], h]).effect for h in effects if h not in chosen[:size]
        }
        assert added[chosen[size]] == max(added.values())


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, None),
        ({"effect": 0.6, "flips": 0.9, "flips_low": 0.8}, "decides"),
        ({"effect": 0.6, "flips": 0.6, "flips_low": 0.4}, "carries"),
        ({"effect": 0.6, "flips": 1.0, "flips_low": None}, "decides"),
        ({"effect": 0.3, "flips": 0.1}, "carries"),
        ({"effect": 0.07, "flips": 0.0}, ""),
        ({"effect": 0.01, "right_pairs": 0.5, "right_low": 0.3}, "bright but idle"),
        ({"effect": 0.01, "right_pairs": 0.3, "right_low": 0.2}, "idle"),
        ({"effect": -0.01, "right": 0.7, "right_low": 0.2}, "bright but idle"),
        ({"effect": 0.01, "right": 0.4}, "idle"),
        ({"effect": 0.01}, "idle"),
    ],
)
def test_the_part_that_a_head_plays(row, expected):
    assert part(row) == expected


def test_pairs_are_sorted_and_say_what_they_add(runs):
    heads = [HeadId("cross", 0, 0), HeadId("cross", 1, 1), HeadId("dec", 0, 0)]
    listing = trace_pairs(runs, trace_heads(runs), heads)
    effects = [row[2] for row in listing.rows]
    assert len(effects) == 3
    assert effects == sorted(effects, reverse=True)
    for a, b, effect, _, more in listing.rows:
        both = [HeadId.parse(a), HeadId.parse(b)]
        assert effect == runs.effect(both).effect
        alone = sum(runs.effect([head]).effect for head in both)
        assert more == pytest.approx(effect - alone)


def test_places_and_the_route_agree_on_where_a_head_works():
    model = tiny_model()
    silence(model, PLANTED)
    runs = Interchange(model, make_contrasts(model, lengths=(5,)))
    table = trace_heads(runs)
    at = {str(place): [[place]] for place in range(4)}
    listing = trace_places(runs, [PLANTED], {"source": {}, "target": at})
    assert [row[2] for row in listing.rows] == pytest.approx([0, 0, 0, 1], abs=1e-9)
    (step,) = find_steps(runs, table, [PLANTED])
    assert step.query == 3
    assert sum(step.weights) == pytest.approx(1)
    assert list(csv.reader(io.StringIO(listing.to_csv())))[1:][-1][:2] == ["cross.0.1", "3"]


def test_the_verdict_names_the_planted_head():
    model = tiny_model()
    silence(model, PLANTED)
    runs = Interchange(model, make_contrasts(model))
    table = trace_heads(runs)
    sentence = verdict(table, runs, [PLANTED], "it")
    assert "cross.0.1 (cross-attention)" in sentence
    assert "1.00 of the way" in sentence
    lines = route_in_words(table)
    assert "No head of encoder self-attention carries 0.1 or more of it." in lines


def test_an_answer_that_was_wrong_from_the_start_is_not_said_to_stay_right():
    model = tiny_model()
    silence(model, PLANTED)
    (pair,) = make_contrasts(model, lengths=(5,))
    with torch.no_grad():
        logits = model(torch.tensor([pair.source]), torch.tensor([pair.target_in]))[0, -1]
    likeliest = int(logits.argmax())
    assert likeliest != pair.token
    runs = Interchange(model, [replace(pair, other_token=likeliest)])
    sentence = verdict(trace_heads(runs), runs, [], "it")
    assert "turns nothing, as the answer is the other one from the start" in sentence
    assert "without it the log p of its own answer changes by" in sentence
    assert "stays right" not in sentence


@pytest.mark.parametrize(
    ("effect", "low", "start"),
    [
        (0.8, 0.6, "One head by itself decides it most of the time: cross.0.1"),
        (0.8, 0.4, "No single head decides it: the strongest is cross.0.1"),
        (0.3, 0.6, "No single head decides it: the strongest is cross.0.1"),
        (0.05, 0.0, "No single head decides it: none moves the answer by 0.1"),
    ],
)
def test_one_head_is_said_to_decide_only_if_it_does(runs, effect, low, start):
    rows = {PLANTED: {"effect": effect, "flips": low, "flips_low": low}}
    sentence = verdict(HeadTable([EFFECT, FLIPS], rows), runs, [], "it")
    assert sentence.startswith(start)


def test_several_heads_that_each_decide_are_all_named(runs):
    """What one writes another may pass on: the strongest is not the only one."""
    rows = {
        head: {"effect": effect, "flips": 0.9, "flips_low": 0.8}
        for head, effect in ((PLANTED, 0.7), (HeadId("enc", 0, 1), 0.8), (HeadId("dec", 0, 0), 0.3))
    }
    sentence = verdict(HeadTable([EFFECT, FLIPS], rows), runs, [], "it")
    assert sentence.startswith(
        "Each of 2 heads by itself decides it most of the time: enc.0.1 (encoder self-attention), "
        "cross.0.1 (cross-attention); the strongest is enc.0.1: swapping it alone moves"
    )


def test_a_bright_head_without_effect_is_exposed():
    bright = {"effect": 0.01, "right_pairs": 0.9, "right_low": 0.8}
    rows = {PLANTED: bright, HeadId("enc", 0, 0): {**bright, "effect": 0.5}}
    columns = [EFFECT, *(type(EFFECT)(name) for name in ("right_pairs", "right_low"))]
    lines = route_in_words(HeadTable(columns, rows))
    assert lines[-1].startswith("Looks deceive: cross.0.1")
    assert strongest(HeadTable(columns, rows), 1) == [HeadId("enc", 0, 0)]


def test_padding():
    assert padded([[4], [5, 6]], 3, torch.device("cpu")).tolist() == [[4, 0, 0], [5, 6, 0]]

"""Positions: values of the formula, the growing table, the learned one and its limit."""

import math

import pytest
import torch
from model_samples import assert_same

from seq2seq.errors import UserError
from seq2seq.model.positional import LearnedPositions, SinusoidalPositions, sinusoids


@pytest.mark.parametrize("width", [2, 16, 512])
@pytest.mark.parametrize("position", [0, 1, 7, 999])
def test_sinusoids_are_those_of_the_paper(position, width):
    row = sinusoids(1000, width)[position]
    for i in range(width // 2):
        angle = position / 10000 ** (2 * i / width)
        assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-7)
        assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


def test_known_values():
    assert sinusoids(1, 4).tolist() == [[0, 1, 0, 1]]
    wanted = [0.8414709848, 0.5403023059, math.sin(0.01), math.cos(0.01)]
    assert sinusoids(2, 4)[1].tolist() == pytest.approx(wanted, abs=1e-7)


def test_a_shift_is_a_rotation_of_each_pair():
    # "for any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)"
    table, shift = sinusoids(50, 8).double(), 5
    pairs = table.view(50, 4, 2)
    for i in range(4):
        angle = shift / 10000 ** (2 * i / 8)
        turn = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
        assert_same(pairs[:-shift, i] @ turn.double(), pairs[shift:, i], 1e-6)


def test_an_odd_width_drops_the_last_cosine():
    even, odd = sinusoids(9, 6), sinusoids(9, 5)
    assert odd.shape == (9, 5)
    assert torch.equal(odd[:, 0], even[:, 0])
    assert odd[3, 4].item() == pytest.approx(math.sin(3 / 10000 ** (4 / 5)), abs=1e-7)


def test_positions_are_added_from_the_start_given():
    module = SinusoidalPositions(8)
    x = torch.randn(2, 3, 8)
    assert_same(module(x) - x, sinusoids(3, 8).expand(2, 3, 8), 1e-6)
    assert_same(module(x, start=4) - x, sinusoids(7, 8)[4:].expand(2, 3, 8), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_growing_changes_no_earlier_position(dtype):
    # or a translation would depend on whether a long sentence came before
    module = SinusoidalPositions(16, initial=8).to(dtype)
    before = module(torch.zeros(8, 16, dtype=dtype))
    grown = module(torch.zeros(40, 16, dtype=dtype))
    assert torch.equal(grown[:8], before)
    assert torch.equal(grown, SinusoidalPositions(16, initial=64).to(dtype)(grown * 0))


def test_there_is_no_limit():
    assert SinusoidalPositions(4, initial=2)(torch.zeros(1, 5000, 4)).shape == (1, 5000, 4)
    assert SinusoidalPositions.limit is None


def test_a_table_grown_for_inference_serves_training():
    module = SinusoidalPositions(4, initial=2)
    with torch.inference_mode():
        module(torch.zeros(1, 9, 4))
    x = torch.zeros(1, 9, 4, requires_grad=True)
    module(x).square().sum().backward()
    assert_same(x.grad[0], 2 * sinusoids(9, 4), 1e-6)


def test_another_request_may_grow_the_table_meanwhile():
    class Contended(SinusoidalPositions):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "table" and len(value) > 20:  # another thread, with a shorter sentence
                super().__setattr__(name, value[:20])

    module = Contended(4, initial=2)
    assert_same(module(torch.zeros(50, 4)), sinusoids(50, 4), 1e-6)


def test_the_table_is_not_part_of_a_checkpoint():
    assert SinusoidalPositions(4).state_dict() == {}


def test_learned_positions_are_rows_of_the_table():
    module = LearnedPositions(4, 6)
    torch.nn.init.normal_(module.table)
    x = torch.randn(2, 3, 4)
    assert_same(module(x, start=2), x + module.table[2:5], 1e-6)
    assert module(torch.zeros(6, 4)).shape == (6, 4)
    module(x).sum().backward()
    assert module.table.grad[:, 0].tolist() == [2, 2, 2, 0, 0, 0]


@pytest.mark.parametrize(("length", "start"), [(65, 0), (1, 64), (2000, 0)])
def test_beyond_the_learned_table_is_an_error_in_words(length, start):
    module = LearnedPositions(4, 64)
    with pytest.raises(UserError, match=f"{length + start} positions .* 64 learned") as caught:
        module(torch.zeros(1, length, 4), start)
    assert "model.max_positions" in str(caught.value)

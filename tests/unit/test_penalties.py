import pytest
import torch

from seq2seq.decoding.penalties import length_penalty


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [(1, 0.6, 1.0), (7, 1.0, 2.0), (19, 0.5, 2.0), (12, 0.0, 1.0), (4, 2.0, 2.25)],
)
def test_values_of_equation_14(length: int, alpha: float, expected: float) -> None:
    assert length_penalty(length, alpha) == pytest.approx(expected, abs=1e-12)


def test_a_tensor_of_lengths() -> None:
    lengths = torch.tensor([1.0, 7.0, 13.0])
    assert length_penalty(lengths, 1.0).tolist() == pytest.approx([1.0, 2.0, 3.0])

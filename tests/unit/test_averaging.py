"""Averages of weights, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from seq2seq.config import ModelConfig
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import WEIGHTS, load_weights
from seq2seq.training.averaging import MovingAverage, average_checkpoints
from seq2seq.training.checkpoint import save_model


def model(seed: int = 0, d_ff: int = 8) -> Transformer:
    torch.manual_seed(seed)
    config = ModelConfig(
        d_model=8, d_ff=d_ff, encoder_layers=1, decoder_layers=1, encoder_heads=2, decoder_heads=2
    )
    config.source_vocab = config.target_vocab = 11
    return Transformer(config)


def saved(folder: Path, transformer: Transformer) -> Path:
    folder.mkdir()
    save_model(transformer, folder / WEIGHTS)
    return folder


def test_the_mean_of_checkpoints(tmp_path: Path) -> None:
    folders = [saved(tmp_path / f"step-{seed}", model(seed)) for seed in range(3)]
    mean = average_checkpoints(folders)
    files = [safetensors.torch.load_file(folder / WEIGHTS) for folder in folders]
    assert mean.keys() == files[0].keys()
    for name, weight in mean.items():
        expected = np.mean([file[name].double().numpy() for file in files], axis=0)
        assert weight.dtype == torch.float32
        assert np.array_equal(weight.numpy(), expected.astype(np.float32)), name


def test_the_mean_is_exact_where_float32_would_not_be(tmp_path: Path) -> None:
    """2^24 + 1 is the first whole number that float32 cannot hold."""
    for name, value in (("a", 2.0**24), ("b", 1.0), ("c", 1.0), ("d", -(2.0**24))):
        (tmp_path / name).mkdir()
        safetensors.torch.save_file({"w": torch.tensor([value])}, tmp_path / name / WEIGHTS)
    assert average_checkpoints([tmp_path / n for n in "abcd"])["w"].tolist() == [0.5]


def test_the_mean_loads_into_a_model_with_tied_weights(tmp_path: Path) -> None:
    folder = saved(tmp_path / "step-1", model(1))
    safetensors.torch.save_file(average_checkpoints([folder]), tmp_path / "mean.safetensors")
    loaded = model(2)
    load_weights(loaded, tmp_path / "mean.safetensors")
    for one, other in zip(loaded.parameters(), model(1).parameters(), strict=True):
        assert torch.equal(one, other)


def test_different_models_and_none_at_all(tmp_path: Path) -> None:
    folders = [saved(tmp_path / "step-1", model()), saved(tmp_path / "step-2", model(d_ff=16))]
    with pytest.raises(UserError, match=r"step-2 and .*step-1 hold different models"):
        average_checkpoints(folders)
    with pytest.raises(UserError, match="no checkpoint to average"):
        average_checkpoints([])


def test_the_moving_average_is_its_formula() -> None:
    """shadow ← d · shadow + (1 - d) · weights, with d = min(decay, (1 + n) / (10 + n))."""
    transformer = model()
    average = MovingAverage(transformer, decay=0.5)
    expected = [p.detach().double().numpy() for p in transformer.parameters()]
    for update in range(1, 15):
        with torch.no_grad():
            for p in transformer.parameters():
                p.add_(torch.randn_like(p))
        average.update(update)
        decay = min(0.5, (1 + update) / (10 + update))
        weights = [p.detach().double().numpy() for p in transformer.parameters()]
        expected = [decay * e + (1 - decay) * w for e, w in zip(expected, weights, strict=True)]
    assert (1 + 1) / (10 + 1) < 0.5 < (1 + 14) / (10 + 14)  # both cases have been seen
    for shadow, value in zip(average.shadow, expected, strict=True):
        assert np.allclose(shadow.numpy(), value, rtol=0, atol=1e-5)


def test_swapping_twice_restores_every_bit() -> None:
    transformer = model()
    average = MovingAverage(transformer, 0.9)
    with torch.no_grad():
        for p in transformer.parameters():
            p.mul_(3.0)
    weights = [p.detach().clone() for p in transformer.parameters()]
    shadows = [s.clone() for s in average.shadow]
    average.swap()
    assert all(map(torch.equal, transformer.parameters(), shadows))
    assert transformer.output.weight is transformer.target_embedding.table.weight
    average.swap()
    assert all(map(torch.equal, transformer.parameters(), weights))
    assert all(map(torch.equal, average.shadow, shadows))


def test_restoring_puts_both_in_their_place() -> None:
    """A checkpoint holds the average as the weights, and the weights beside it."""
    transformer = model(1)
    present = [p.detach().clone() for p in transformer.parameters()]
    raw = [p.detach() + 1 for p in transformer.parameters()]
    average = MovingAverage(transformer, 0.9)
    for shadow in average.shadow:
        shadow.zero_()
    average.restore(raw)
    assert all(map(torch.equal, average.shadow, present))
    assert all(map(torch.equal, transformer.parameters(), raw))

"""The batch that fits the memory: found by doubling, tried with whole updates."""

from __future__ import annotations

import pytest
import torch

from seq2seq.config import PAD, ModelConfig, RunConfig
from seq2seq.training import memory
from seq2seq.training.memory import largest_that_fits, made_up_batch, memory_budget


@pytest.mark.parametrize(
    ("room", "limit", "found"),
    [(0, 10**6, 4096), (8192, 10**6, 8192), (8193, 10**6, 8192), (10**9, 20_000, 16384)],
)
def test_it_doubles_until_it_does_not_fit(room: int, limit: int, found: int) -> None:
    tried = []

    def fits(tokens: int) -> bool:
        tried.append(tokens)
        return tokens <= room

    assert largest_that_fits(fits, limit) == found
    assert tried == sorted(set(tried))
    assert max(tried) <= limit


def test_a_made_up_batch_has_the_size_and_padding() -> None:
    batch = made_up_batch(100, 9, vocabulary=50)
    assert batch.source.shape == batch.target_in.shape == batch.target_out.shape == (11, 9)
    assert batch.tokens == int((batch.target_out != PAD).sum()) == 10 * 9 + 5
    assert made_up_batch(5, 9, vocabulary=4).source.shape == (1, 9)


def test_the_budget_is_what_was_seen_to_fit_with_room_to_spare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device on which more than 20,000 positions fail, played on a CPU with real updates."""
    config = RunConfig(
        model=ModelConfig(
            d_model=8, d_ff=8, encoder_heads=1, decoder_heads=1, encoder_layers=1, decoder_layers=1,
            source_vocab=9, target_vocab=9,
        )
    )  # fmt: skip
    seen = []

    def attempt(config: RunConfig, tokens: int, longest: int, device: torch.device) -> None:
        seen.append(tokens)
        if tokens > 20_000:
            raise torch.OutOfMemoryError
        real(config, tokens // 64, longest, device)

    real = memory._try_update
    monkeypatch.setattr(memory, "_try_update", attempt)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.random, "fork_rng", lambda _: torch.enable_grad())
    cpu = torch.device("cpu")
    config.precision = config.precision.__class__("fp32")
    assert memory_budget(config, 30, 10**6, cpu) == int(0.8 * 16384)
    assert seen == [8192, 16384, 32768]
    assert memory_budget(config, 30, 1000, cpu) >= 1000

"""How large a batch the memory of a GPU holds, found by trying (`train.max_tokens=auto`)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

from seq2seq.config import BOS, PAD, RunConfig
from seq2seq.data.batching import Batch
from seq2seq.device import autocast
from seq2seq.model.transformer import Transformer
from seq2seq.training.loss import summed_loss
from seq2seq.training.optim import build_optimizer

START = 4096  # positions tried first
SPARE = 0.8  # of what was seen to fit: memory gets fragmented, and pairs differ in shape


def largest_that_fits(fits: Callable[[int], bool], limit: int, start: int = START) -> int:
    """The largest of start, 2 · start, 4 · start, … ≤ limit that fits; `start` in any case.

    >>> largest_that_fits(lambda tokens: tokens <= 20_000, limit=1_000_000)
    16384
    """
    tokens = start
    while 2 * tokens <= limit and fits(2 * tokens):
        tokens *= 2
    return tokens


def memory_budget(config: RunConfig, longest: int, limit: int, device: torch.device) -> int:
    """Positions of a batch, each side, whose update fits the device's memory.

    Updates on made-up pairs, twice as large each time, until one does not fit. All are as long as
    the longest pair, whose attention maps are largest.

    Args:
        config: of the run, with vocabulary sizes and precision filled in.
        longest: model length of the longest side of a training pair.
        limit: most that is useful.
        device: a GPU.
    """
    found = largest_that_fits(lambda tokens: _fits(config, tokens, longest, device), limit)
    torch.cuda.empty_cache()
    return max(int(found * SPARE), min(limit, START))


def _fits(config: RunConfig, tokens: int, longest: int, device: torch.device) -> bool:
    try:
        _try_update(config, tokens, longest, device)
    except torch.OutOfMemoryError:
        return False
    return True


def _try_update(config: RunConfig, tokens: int, longest: int, device: torch.device) -> None:
    """One update like those of training, on pairs of the greatest length, with Adam's moments."""
    with torch.random.fork_rng([device]):
        model = Transformer(copy.deepcopy(config.model)).to(device)
        optimizer = build_optimizer(model, config.optim)
        batch = made_up_batch(tokens, longest, config.model.target_vocab).to(device)
        with autocast(device, config.precision):
            logits = model(batch.source, batch.target_in)
        loss, _ = summed_loss(logits, batch.target_out, config.optim.label_smoothing)
        torch.autograd.backward(loss / batch.tokens)
        optimizer.step()
        torch.cuda.synchronize(device)


def made_up_batch(tokens: int, longest: int, vocabulary: int) -> Batch:
    """A batch of `tokens` positions in rows of `longest`, the last one shorter by its padding."""
    rows = max(1, tokens // longest)
    ids = torch.full((rows, longest), min(BOS + 2, vocabulary - 1))
    ids[-1, longest // 2 + 1 :] = PAD  # so that masks are made, too
    return Batch(ids, ids.clone(), ids.clone(), tokens=int((ids != PAD).sum()))

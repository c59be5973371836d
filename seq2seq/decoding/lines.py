"""Lines of text on their way into the model: pieces, cut to what fits, grouped into batches."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from seq2seq.data.lines import is_blank
from seq2seq.device import memory_advice
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]  # lines done, lines in all


def encode_lines(
    encode: Callable[[list[str]], list[list[int]]], texts: Sequence[str]
) -> list[list[int]]:
    """Piece ids of each text; none where it is blank, whatever blank characters it holds.

    Raises:
        UserError: `texts` is one string, whose characters would be taken for lines.
    """
    if isinstance(texts, str):
        raise UserError(
            f"{texts[:40]!r} is one line where a list of lines is needed: put it in []."
        )
    return encode(["" if is_blank(text) else text for text in texts])


def cut_lines(ids: list[list[int]], most: int, side: str, first_line: int) -> set[int]:
    """Shorten, in place, what has more than `most` pieces, and warn of each such line.

    Args:
        ids: piece ids of every line.
        most: number of pieces that may stay.
        side: source or target, for the warning.
        first_line: number of the first of these lines.

    Returns:
        Indexes of the shortened lines.
    """
    cut = [i for i, pieces in enumerate(ids) if len(pieces) > most]
    for i in cut:
        logger.warning(
            "Line %d: of the %d pieces of the %s only the first %d are used; "
            "split it into sentences.",
            first_line + i,
            len(ids[i]),
            side,
            most,
        )
        del ids[i][most:]
    return set(cut)


def plan_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group sentences of like length, longest first, so that little is padding.

    Longest first, so that what does not fit into memory fails at once and not at the end.

    Args:
        lengths: of each sentence, at least 1.
        budget: most positions of a batch, padding included; a longer sentence stands alone.

    Returns:
        Indexes into `lengths`; each is in exactly one batch.

    >>> plan_batches([2, 5, 2, 1], budget=6)
    [[1], [0, 2, 3]]
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batches[-1][0]] if batches else 0
        if batches and longest * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


@contextlib.contextmanager
def inference(model: nn.Module) -> Iterator[torch.device]:
    """Neither gradients nor dropout inside; afterwards the model is as before.

    Yields:
        The model's device.
    """
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(), memory_advice("lower decode.batch_tokens or decode.beam"):
            yield next(model.parameters()).device
    finally:
        model.train(training)


def report(progress: Progress | None, done: int, total: int) -> None:
    """Tell a caller that wants to know."""
    if progress is not None:
        progress(done, total)

"""Watching a model learn: who may look at it, and when.

What is looked at is no matter of training: the caller gives a watcher (for attention, that of
`seq2seq.analysis.track`), and the trainer lets it see the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.model.transformer import Transformer

Pair = tuple[str, str]


class Watcher(Protocol):
    """Looks at a model while it learns, and leaves the model and all random states as they were."""

    @property
    def notes(self) -> list[str]:
        """What people should know before training starts, a line each."""

    def __call__(self, model: Transformer, update: int) -> str:
        """Look at the model as it is after `update`; returns a line for people, or nothing.

        May be called twice for one update, when a run is resumed there.
        """

    def rewind(self, update: int) -> None:
        """Forget what was seen after `update`: those updates will be done again."""


Watch = Callable[[Tokenizer, Sequence[Pair]], Watcher]
"""Makes a watcher of a run's tokenizer and dev pairs."""


def is_early(update: int, validate_every: int) -> bool:
    """Whether to look between validations: 0, 1, 2, 4, 8 … updates, before the first validation.

    Heads find their roles early, and the early changes are the fast ones.

    >>> [update for update in range(100) if is_early(update, 20)]
    [0, 1, 2, 4, 8, 16]
    """
    return update < validate_every and update & (update - 1) == 0

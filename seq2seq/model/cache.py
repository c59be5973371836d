"""What a decoder remembers between steps: earlier keys and values, and the encoded source.

Kept here and passed as arguments, never on the modules, so that one model can serve several
requests at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.model.attention import KeyValue


class LayerCache:
    """Self-attention keys and values of one layer, for every beam and earlier position.

    The buffers [B·K, H, capacity, width] are allocated ahead and read as slices; they double when
    full, so that a generous length limit costs nothing until it is used.
    """

    def __init__(self, capacity: int = 16) -> None:
        self.capacity = capacity
        self.length = 0
        self.buffers: KeyValue | None = None

    def append(self, newest: KeyValue) -> KeyValue:
        """Add one position, [B·K, H, 1, width]; returns all so far, [B·K, H, length, width]."""
        if self.buffers is None:
            self.buffers = KeyValue(*(self._room(x, self.capacity) for x in newest))
        elif self.length == self.capacity:
            self.capacity *= 2
            old = self.buffers
            self.buffers = KeyValue(*(self._room(x, self.capacity) for x in newest))
            for new, filled in zip(self.buffers, old, strict=True):
                new[:, :, : self.length] = filled
        self.length += 1
        for buffer, x in zip(self.buffers, newest, strict=True):
            buffer[:, :, self.length - 1] = x[:, :, 0]
        return KeyValue(*(buffer[:, :, : self.length] for buffer in self.buffers))

    def select(self, rows: Tensor) -> None:
        """Keep these of the B·K rows, in this order; a row may be taken several times."""
        if self.buffers is not None:
            # Whole rows, unused capacity included: one copy of contiguous memory.
            self.buffers = KeyValue(*(buffer.index_select(0, rows) for buffer in self.buffers))

    @staticmethod
    def _room(like: Tensor, capacity: int) -> Tensor:
        return like.new_empty(*like.shape[:2], capacity, like.shape[3])


@dataclass
class Memory:
    """The encoded source as the decoder reads it."""

    layers: list[KeyValue]  # for each decoder layer, [B, H, S, width]
    mask: Tensor | None  # [B, 1, 1, S]; True = a word, not padding

    def select(self, sentences: Tensor) -> None:
        """Keep these sentences."""
        self.layers = [KeyValue(key[sentences], value[sentences]) for key, value in self.layers]
        self.mask = None if self.mask is None else self.mask[sentences]


@dataclass
class DecoderState:
    """Everything `Transformer.step` needs besides the newest tokens.

    Rows are sentences × beams. Reordering beams touches the self-attention caches only: the source
    is stored once a sentence, whatever the number of beams.
    """

    memory: Memory
    caches: list[LayerCache]  # one a decoder layer
    length: int = 0  # positions already cached

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep these sentences, and in each take these beams.

        Args:
            sentences: [B'] increasing indexes into the current B sentences.
            beams: [B', K'] indexes into the current K beams of each kept sentence.
        """
        caches = [cache for cache in self.caches if cache.buffers is not None]
        current = self._sentences()
        all_stay = len(sentences) == current
        if not all_stay:
            self.memory.select(sentences)
        if not caches or current == 0:
            return
        buffers = caches[0].buffers
        assert buffers is not None
        width = len(buffers.key) // current  # K
        rows = (sentences[:, None] * width + beams).flatten()
        if all_stay and torch.equal(rows, torch.arange(len(buffers.key), device=rows.device)):
            return
        for cache in caches:
            cache.select(rows)

    def _sentences(self) -> int:
        return len(self.memory.layers[0].key)

"""Which training pairs are left out, and why; each reason is counted and reported.

Development and test pairs are never filtered.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from seq2seq.config import DataConfig
from seq2seq.data.lines import is_blank


class PairFilter:
    """Decides pair by pair and counts.

    Args:
        config: `max_length`, `max_ratio`, `drop_identical`.
    """

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self.counts: Counter[str] = Counter()

    def keeps_text(self, source: str, target: str) -> bool:
        """Whether to keep a pair by its text: neither side blank, and not identical if so set."""
        if is_blank(source) or is_blank(target):
            self.counts["empty"] += 1
            return False
        if self.config.drop_identical and source.strip() == target.strip():
            self.counts["identical"] += 1
            return False
        return True

    def keeps_lengths(self, source: int, target: int) -> bool:
        """Whether to keep a pair by its lengths in pieces: not too long, nor too unequal."""
        if source == 0 or target == 0:
            self.counts["empty"] += 1
            return False
        if max(source, target) > self.config.max_length:
            self.counts["too long"] += 1
            return False
        ratio = max(source, target) / min(source, target)
        # Unequal lengths say nothing about pairs as short as "Hi." = "Guten Tag zusammen."
        if 0 < self.config.max_ratio < ratio and max(source, target) > 10:
            self.counts["length ratio"] += 1
            return False
        return True


def pair_hash(source: str, target: str) -> int:
    """64 bits that tell pairs apart, the same in every process."""
    digest = hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")

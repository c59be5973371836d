"""How sure a number is: Wilson's interval of a share, and the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from seq2seq.attention_maps import Array

Z = 1.959963984540054  # of a 95 % interval
TRIALS, SEED = 1000, 12345


def wilson(hits: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's score method; (0, 1) for none observed."""
    if not count:
        return 0.0, 1.0
    share = hits / count
    middle = share + Z**2 / (2 * count)
    half = Z * sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


class Bootstrap:
    """95 % percentile intervals (Efron 1979) of means and of ratios of sums.

    Args:
        groups: the group of each value. Groups are drawn, not values: what belongs together, such
            as a pair of sentences in both directions, is in a sample together or not at all.
        trials: samples.
        seed: of the samples, which are the same for every interval.
    """

    def __init__(self, groups: Sequence[int], trials: int = TRIALS, seed: int = SEED) -> None:
        names, members = np.unique(np.asarray(groups), return_inverse=True)
        self.count = len(names)
        draws = np.random.default_rng(seed).multinomial(
            self.count, np.full(self.count, 1 / self.count), size=trials
        )
        self._weights = draws[:, members].astype(np.float64)  # [trials, values]

    def interval(self, values: Array, over: Array | None = None) -> tuple[float, float] | None:
        """Of Σ values / Σ over; `over` None: of the mean. None for a single group."""
        if self.count < 2:
            return None
        over = np.ones(len(values)) if over is None else over
        found = (self._weights @ values) / (self._weights @ over)
        low, high = np.quantile(found, [0.025, 0.975])
        return float(low), float(high)

"""Length penalty: why a longer translation is not a worse one."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

Length = TypeVar("Length", float, Tensor)


def length_penalty(length: Length, alpha: float) -> Length:
    """((5 + |y|) / 6)^α, by which a log-probability is divided (Wu et al. 2016, equation 14).

    A log-probability falls with every token, so that plain comparison favours short sentences.
    |y| counts the end-of-sentence token, so the shortest output has length 1 and penalty 1.

    Args:
        length: |y|; a number, or a tensor of any shape.
        alpha: 0 compares plain log-probabilities, 1 comes near to their mean over tokens.

    >>> length_penalty(1, 0.6), length_penalty(13, 1.0)
    (1.0, 3.0)
    """
    penalty: Length = ((length + 5.0) / 6.0) ** alpha
    return penalty

"""Two records laid over each other: B − A of the same tokens, or of words in the same places."""

from __future__ import annotations

import numpy as np

from seq2seq.analysis.words import SIDE_NAMES, to_words
from seq2seq.attention_maps import KIND_NAMES, Array, AttentionMaps
from seq2seq.errors import UnfitError

SAME = 0.5  # least share of words that are the same in place, for two sentences to be comparable


def overlay(a: AttentionMaps, b: AttentionMaps, kind: str) -> tuple[AttentionMaps, AttentionMaps]:
    """Bring two records to where their maps of a kind can be subtracted.

    Records with the same tokens stay as they are. Others are compared by words, place by place: the
    two need equally many, and at least `SAME` of them equal.

    Args:
        a: one record.
        b: the other: another sentence, or the same one in another model.
        kind: "enc", "dec" or "cross".

    Raises:
        UnfitError: they cannot be laid over each other; says why.
        AttentionError: no such kind.
    """
    a.layers(kind)  # raises for an unknown kind
    sides = list(dict.fromkeys((a.query_side(kind), a.key_side(kind))))
    if a.level == b.level and all(a.labels(side) == b.labels(side) for side in sides):
        return a, b
    a, b = to_words(a), to_words(b)
    for side in sides:
        _check(a.labels(side), b.labels(side), f"{SIDE_NAMES[side]} words", KIND_NAMES[kind])
    return a, b


def _check(a: list[str], b: list[str], words: str, what: str) -> None:
    problem = ""
    same = sum(one == other for one, other in zip(a, b, strict=False))
    if len(a) != len(b):
        problem = f"A has {len(a)} {words}, B has {len(b)}"
    elif same < SAME * len(a):
        problem = f"only {same} of {len(a)} {words} are the same in place"
    if problem:
        raise UnfitError(
            f"A and B cannot be laid over each other in {what}: {problem} (counting <s> and </s>); "
            "compare sentences that differ word for word."
        )


def moved(a: Array, b: Array) -> Array:
    """The share of each row's mass that lies elsewhere in B, ½ Σ |B − A|: 0 is the same row."""
    return 0.5 * np.abs(b - a).sum(-1)

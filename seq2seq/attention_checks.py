"""What an attention record must fulfil, checked on its arrays; every error names the place.

Letters: H heads, Q queries, K keys, Dk the width of a head's queries and keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.errors import UserError

Array = NDArray[Any]

COARSE = 1e-3  # a tolerance above this comes from numbers of 16 bits
COARSE_SCORES = 0.1  # and lets weights differ so much from the softmax of scores


class AttentionError(UserError):
    """A record that contradicts itself, or a layer or head that it does not hold."""


class Layer(NamedTuple):
    """What a check knows of a layer: its name and the numbers of its heads for messages."""

    name: str
    heads: list[int]
    causal: bool  # no query sees a later key


def check_flags(side: str, special: Array, count: int) -> None:
    """One mark for each label.

    Raises:
        AttentionError: more or fewer.
    """
    if special.shape != (count,):
        raise AttentionError(
            f"The mask of special tokens of {side} has shape {special.shape}, but there are "
            f"{count} labels."
        )


def check_logprob(logprob: Array | None, count: int) -> None:
    """One log-probability for each token written, if there are any.

    Raises:
        AttentionError: more or fewer.
    """
    if logprob is not None and logprob.shape != (count,):
        raise AttentionError(
            f"logprob has shape {logprob.shape}, but there are {count} tgt_out labels."
        )


def check_identities(name: str, layers: int, others: list[int]) -> None:
    """As many layer ids, lists of head ids, and layers of norms and scores as layers of weights.

    Raises:
        AttentionError: more or fewer.
    """
    if any(count != layers for count in others):
        ids, heads, *more = others
        also = f", and {more[0]} of norms or scores" if more else ""
        raise AttentionError(
            f"{name}: {layers} layers of weights, but {ids} layer ids and {heads} lists of head "
            f"ids{also}."
        )


def check_shape(
    layer: Layer, weights: Array, rows: tuple[str, int], columns: tuple[str, int]
) -> None:
    """Weights are [H, Q, K] for these sides, (name, number of labels).

    Raises:
        AttentionError: they are not.
    """
    expected = (len(layer.heads), rows[1], columns[1])
    if weights.shape != expected:
        raise AttentionError(
            f"{layer.name}: the weights have shape {weights.shape}, but {expected[0]} heads, "
            f"{expected[1]} {rows[0]} labels and {expected[2]} {columns[0]} labels need {expected}."
            " A record holds one sentence, never a batch."
        )


def check_weights(layer: Layer, weights: Array, atol: float) -> None:
    """Weights [H, Q, K] are finite, in [0, 1], sum to 1 in each row, and see nothing later.

    Raises:
        AttentionError: they do not; names head, row and column.
    """
    _fail_where(~np.isfinite(weights), layer, weights, "is not a number")
    _fail_where((weights < 0) | (weights > 1 + 1e-6), layer, weights, "is outside [0, 1]")
    sums = weights.sum(-1, keepdims=True, dtype=np.float64)
    _fail_where(np.abs(sums - 1) > atol, layer, sums, "is the row's sum, which must be 1")
    if layer.causal:
        _fail_where(np.triu(weights, 1) != 0, layer, weights, "sees a later key")


def check_norms(layer: Layer, weights: Array, norms: Array, atol: float, level: str) -> None:
    """Norms ‖α_ij f(x_j)‖ = α_ij ‖f(x_j)‖ are the weights times one length for each key.

    Words add up the norms of pieces, so that there only sign and zeros can be checked.

    Raises:
        AttentionError: they do not; names head, row and column.
    """
    _same_shape(layer, "norms", norms.shape, weights.shape)
    _fail_where(~np.isfinite(norms) | (norms < 0), layer, norms, "is no norm")
    _fail_where((weights == 0) & (norms != 0), layer, norms, "is the norm of what has no weight")
    if level == "piece":
        off = np.abs(norms - weights * lengths(weights, norms)[:, None])
        allowed = atol * max(1.0, float(norms.max(initial=0.0)))
        _fail_where(off > allowed, layer, norms, "is not the weight times the length of its key")


def lengths(weights: Array, norms: Array) -> Array:
    """‖f(x_j)‖ of every key, [H, K], from weights and norms [H, Q, K]; 0 where nothing looks."""
    top = weights.argmax(1)[:, None]  # the row that shows a key's length best
    weight, norm = (np.take_along_axis(x, top, 1)[:, 0] for x in (weights, norms))
    return np.divide(norm, weight, out=np.zeros_like(norm), where=weight > 0)


def check_scores(layer: Layer, weights: Array, scores: Array, atol: float) -> None:
    """The softmax of the scores [H, Q, K] is the weights.

    Raises:
        AttentionError: it is not; names head, row and column.
    """
    _same_shape(layer, "scores", scores.shape, weights.shape)
    _fail_where(~np.isfinite(scores), layer, scores, "is no score")
    if layer.causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    expected = powers / powers.sum(-1, keepdims=True)
    allowed = COARSE_SCORES if atol > COARSE else max(atol, 1e-5)
    off = np.abs(expected - weights) > allowed
    _fail_where(off, layer, weights, "is not the softmax of the scores")


def _same_shape(layer: Layer, what: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if found != wanted:
        raise AttentionError(f"{layer.name}: {what} have shape {found}, but the weights {wanted}.")


def _fail_where(bad: Array, layer: Layer, values: Array, what: str) -> None:
    if bad.any():
        head, row, column = (int(i) for i in np.argwhere(bad)[0])
        place = f"row {row}" if values.shape[-1] == 1 else f"row {row} column {column}"
        value = values[head, row, column]
        raise AttentionError(f"{layer.name} head {layer.heads[head]} {place}: {value:.6g} {what}.")

"""Records that hold another number than the weight in each cell, for the same pictures.

What the number is stands in `meta["quantity"]`; without it, it is the weight α.
"""

from __future__ import annotations

import dataclasses

from seq2seq.analysis.rollout import decoder_rollout, rollout
from seq2seq.attention_maps import Array, AttentionMaps
from seq2seq.errors import UserError

WEIGHT, NORM, ROLLOUT = "weight", "norm", "rollout"
NAMES = {WEIGHT: "weight", NORM: "‖α f(x)‖", ROLLOUT: "rollout"}


def quantity(maps: AttentionMaps) -> str:
    """What the numbers of a record are: WEIGHT, NORM or ROLLOUT."""
    return str(maps.meta.get("quantity", WEIGHT))


def norm_record(maps: AttentionMaps) -> AttentionMaps:
    """The same record with ‖α f(x)‖, the length of what each key adds, in place of each weight.

    Raises:
        UserError: the record was captured without norms.
    """
    if maps.norms is None:
        raise UserError("The record holds no norms: capture it with norms=True.")
    return _with(maps, maps.norms, NORM)


def rollout_record(maps: AttentionMaps) -> AttentionMaps:
    """A record with one map for each layer, under head number 0: what reached each position.

    `enc` is the encoder's rollout. `dec` and `cross` are those of the decoder (`decoder_rollout`):
    how much of each target token read, and of each source token, a position holds after the layer;
    the two together sum to 1.

    Args:
        maps: a record of pieces with all layers; words come after (`to_words`).

    Raises:
        UserError: a layer is missing, or a record of words, whose rows are no positions.
    """
    if maps.level != "piece":
        raise UserError("Rollout needs pieces: a word is several positions.")
    decoder = decoder_rollout(maps)
    found = {
        "enc": [reached[None] for reached in rollout(maps)],
        "dec": [reached.target[None] for reached in decoder],
        "cross": [reached.source[None] for reached in decoder],
    }
    one = {kind: [[0] for _ in layers] for kind, layers in found.items()}
    return dataclasses.replace(_with(maps, found, ROLLOUT), head_ids=one)


def _with(maps: AttentionMaps, found: dict[str, list[Array]], name: str) -> AttentionMaps:
    return dataclasses.replace(
        maps,
        enc=found["enc"],
        dec=found["dec"],
        cross=found["cross"],
        norms=None,
        qk=None,
        meta={**maps.meta, "quantity": name},
    )

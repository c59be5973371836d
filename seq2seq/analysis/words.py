"""Words from pieces: the same record with whole words on both axes.

What a word receives is the sum over its pieces as keys; what a word gives is the mean over its
pieces as queries. Rows still sum to 1, so that word maps read like piece maps.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from seq2seq.attention_maps import KINDS, SIDES, Array, AttentionMaps

MARK = "▁"  # how SentencePiece writes the space before a word
SIDE_NAMES = {"src": "source", "tgt_in": "target", "tgt_out": "target"}
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a piece of byte fallback
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def to_words(maps: AttentionMaps) -> AttentionMaps:
    """Merge pieces into words; control tokens stay by themselves.

    The rows of `dec` are grouped by the words read (`tgt_in`), those of `cross` by the words
    written (`tgt_out`). A side in a script that does not space its words keeps its pieces, and
    `meta["notices"]` says so. A record of words is returned as it is.

    Norms are merged like weights: those of a word's pieces add up to at least the norm of what the
    word adds, since vectors may point apart. Queries and keys are not kept: no one score gives a
    word's weight.
    """
    if maps.level == "word":
        return maps
    starts: dict[str, list[int]] = {}
    changes: dict[str, Any] = {}
    norms: dict[str, list[Array]] = {}
    notices = list(maps.meta.get("notices", []))
    for side in SIDES:
        pieces, special = maps.labels(side), maps.special[side]
        if is_unspaced([p for p, control in zip(pieces, special, strict=True) if not control]):
            notices.append(f"the {SIDE_NAMES[side]} does not space its words: pieces are shown")
            starts[side] = list(range(len(pieces) + 1))
        else:
            starts[side] = word_starts(pieces, special)
            changes[side] = [spell(pieces[a:b]) for a, b in pairwise(starts[side])]
    for kind in KINDS:
        rows, columns = starts[maps.query_side(kind)], starts[maps.key_side(kind)]
        changes[kind] = [merge(weights, rows, columns) for weights in maps.layers(kind)]
        if maps.norms is not None:
            norms[kind] = [merge(layer, rows, columns) for layer in maps.norms[kind]]
    if maps.logprob is not None:
        changes["logprob"] = np.add.reduceat(maps.logprob, starts["tgt_out"][:-1])
    return dataclasses.replace(
        maps,
        **changes,
        norms=None if maps.norms is None else norms,
        qk=None,  # queries and keys belong to pieces
        special={side: maps.special[side][starts[side][:-1]] for side in SIDES},
        meta={**maps.meta, "level": "word", "notices": list(dict.fromkeys(notices))},
    )


def word_starts(pieces: Sequence[str], special: Sequence[bool] | Array) -> list[int]:
    """Where words begin, and the number of pieces as an end: word w is pieces[starts[w]:…[w+1]].

    A piece with "▁" begins a word; "▁" alone belongs to the word after it (at the end of the
    sentence, to the one before). Control tokens are never merged.
    """
    starts = []
    for i, piece in enumerate(pieces):
        after_control = i == 0 or special[i] or special[i - 1]
        opened = not after_control and pieces[i - 1] == MARK
        closing = piece == MARK and (i + 1 == len(pieces) or special[i + 1])
        if after_control or (piece.startswith(MARK) and not opened and not closing):
            starts.append(i)
    return [*starts, len(pieces)]


def merge(weights: Array, rows: list[int], columns: list[int]) -> Array:
    """[H, queries, keys] by pieces → by words: the sum over key pieces, mean over query pieces."""
    summed = np.add.reduceat(weights, columns[:-1], axis=2)
    counts = np.diff(rows).astype(weights.dtype)
    return np.add.reduceat(summed, rows[:-1], axis=1) / counts[:, None]


def spell(pieces: Sequence[str]) -> str:
    """The word that pieces spell: without "▁", and bytes of byte fallback as their characters."""
    parts = []
    for is_bytes, run in groupby(pieces, lambda piece: bool(_BYTE.fullmatch(piece))):
        text = "".join(run)
        if is_bytes:
            text = bytes.fromhex("".join(_BYTE.findall(text))).decode("utf-8", "replace")
        parts.append(text)
    return "".join(parts).replace(MARK, "")


def is_unspaced(pieces: Sequence[str]) -> bool:
    """Whether most letters are of scripts that do not put spaces between words."""
    letters = [c for c in "".join(pieces) if c.isalpha()]
    unspaced = sum(unicodedata.name(c, "").startswith(_UNSPACED) for c in letters)
    return 2 * unspaced > len(letters)

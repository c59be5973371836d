"""What a page knows of a sentence: labels, words and provenance as JSON, weights as 16-bit numbers.

A weight a becomes round(65535 · a): off by at most 7.7e-6, and exactly 0 stays exactly 0. Eight
bits would be too coarse (the sum of a row of 60 would be off by up to 0.03). Norms take one number
for each key, for ‖α f(x)‖ = α ‖f(x)‖; scores come from queries and keys.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from seq2seq.analysis.words import is_unspaced, spell, word_starts
from seq2seq.attention_checks import lengths
from seq2seq.attention_maps import KINDS, SIDES, AttentionMaps
from seq2seq.errors import UserError
from viz.labels import visible
from viz.sheet import FACT, provenance
from viz.view import require_record

FULL, SIGNED = 65535, 32767
PLAIN_MB = 2.0  # weights beyond this are deflated
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}


@dataclass(frozen=True)
class Entry:
    """A sentence, ready for a page."""

    facts: dict[str, Any]  # JSON-ready
    raw: bytes  # little-endian uint16, by kind, layer, head, query, key; then lengths and vectors

    @cached_property
    def packed(self) -> bytes:
        """The weights, deflated (zlib)."""
        return zlib.compress(self.raw, 6)

    @property
    def size(self) -> int:
        """Bytes that it takes of a page at most."""
        return len(text_of(self.facts)) + 4 * (len(self.packed) + 30) // 3


def fits_plain(entries: Sequence[Entry]) -> bool:
    """Whether the weights are few enough to stay as they are, which opens fastest."""
    return sum(len(one.raw) for one in entries) * 4 / 3 <= PLAIN_MB * 1e6


def entry(maps: AttentionMaps) -> Entry:
    """Make a record ready.

    Raises:
        UserError: it is no record, or breaks an invariant.
    """
    require_record(maps)
    maps.check()
    if not any(heads for kind in KINDS for heads in maps.head_ids[kind]):
        raise UserError("The record holds no head, so a page of it would be empty.")
    arrays = [w for kind in KINDS for w in maps.layers(kind)]
    parts = [np.rint(np.minimum(w, 1.0) * FULL).astype("<u2").tobytes() for w in arrays]
    norms, sizes = _norms(maps)
    qk, vectors = _query_key(maps)
    return Entry({**_facts(maps), **norms, **qk}, b"".join([*parts, *sizes, *vectors]))


def _norms(maps: AttentionMaps) -> tuple[dict[str, float], list[bytes]]:
    """The largest ‖f(x)‖, and those of all keys as shares of it: with the weights they give norms.

    Norms of words are sums over pieces, which no one length of a word gives back: left out.
    """
    if maps.norms is None or maps.level != "piece":
        return {}, []
    found = [
        lengths(weights, norms)
        for kind in KINDS
        for weights, norms in zip(maps.layers(kind), maps.norms[kind], strict=True)
    ]
    most = max((float(x.max()) for x in found if x.size), default=0.0) or 1.0
    return {"norms": most}, [np.rint(x / most * FULL).astype("<u2").tobytes() for x in found]


def _query_key(maps: AttentionMaps) -> tuple[dict[str, Any], list[bytes]]:
    """Queries, then keys, of every head as 16-bit numbers; the units are their largest elements."""
    if maps.qk is None or maps.level != "piece":
        return {}, []
    layers = [one for kind in KINDS for one in maps.qk[kind]]
    facts: dict[str, Any] = {
        "width": {kind: [one.query.shape[-1] for one in maps.qk[kind]] for kind in KINDS}
    }
    parts = []
    for name in ("query", "key"):
        vectors = [getattr(one, name) for one in layers]
        most = max((float(np.abs(x).max()) for x in vectors if x.size), default=0.0) or 1.0
        facts[name] = most
        parts += [np.rint(x / most * SIGNED).astype("<i2").tobytes() for x in vectors]
    return {"qk": facts}, parts


def text_of(data: object) -> str:
    """JSON that may stand in a page: ASCII, and nothing in it can open or close a tag.

    Raises:
        ValueError: a number is NaN or infinite, which browsers cannot read.
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _facts(maps: AttentionMaps) -> dict[str, Any]:
    tokens = {side: maps.labels(side) for side in SIDES}
    words = {} if maps.level == "word" else {side: _words(maps, side) for side in SIDES}
    spelt = [label for side in words.values() for label in side["labels"]]
    texts = {label for labels in tokens.values() for label in labels} | set(spelt)
    texts |= {piece for step in maps.meta.get("alternatives", []) for piece, _ in step}
    facts = provenance(maps)
    depth = maps.meta.get("depth", {})
    return {
        "name": _name(maps),
        "text": {side: maps.text.get(side, "") for side in ("source", "target")},
        "level": maps.level,
        "layers": maps.layer_ids,
        "heads": maps.head_ids,
        "depth": {kind: depth.get(kind, len(maps.layer_ids[kind])) for kind in KINDS},
        "tokens": tokens,
        "special": {side: np.flatnonzero(maps.special[side]).tolist() for side in SIDES},
        "words": words,
        # Only what reads otherwise than it is spelt, such as characters that have no shape.
        "shown": {text: visible(text) for text in sorted(texts) if visible(text) != text},
        "logprob": _numbers(maps),
        "alternatives": maps.meta.get("alternatives", []) if maps.level == "piece" else [],
        "hash": maps.meta.get("weights_hash"),
        "provenance": facts[0],
        "notes": facts[1:],
    }


def _name(maps: AttentionMaps) -> str:
    """Which model made it, for telling checkpoints apart."""
    meta = maps.meta
    facts = [str(meta["run"])] if "run" in meta else []
    facts += [f"step {meta['step']}"] if "step" in meta else []
    facts += [f"without {meta['without_heads']}"] if meta.get("without_heads") else []
    return FACT.join(facts)


def _words(maps: AttentionMaps, side: str) -> dict[str, Any]:
    """Where the words of a side begin, and how they are spelt; of unspaced text, the pieces."""
    pieces, special = maps.labels(side), maps.special[side]
    if is_unspaced([p for p, control in zip(pieces, special, strict=True) if not control]):
        return {"starts": list(range(len(pieces) + 1)), "labels": pieces, "unspaced": True}
    starts = word_starts(pieces, special)
    return {"starts": starts, "labels": [spell(pieces[a:b]) for a, b in pairwise(starts)]}


def _numbers(maps: AttentionMaps) -> list[float | None]:
    if maps.logprob is None:
        return []
    return [round(float(x), 4) if np.isfinite(x) else None for x in maps.logprob]

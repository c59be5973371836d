"""AttentionMaps: every attention weight of one sentence pair, with the labels to read them by.

NumPy only: the record is made once (seq2seq.analysis.capture), saved, and then read by pictures and
statistics that need no model. Letters: S source positions, T target positions, H heads.

Orientation is fixed: rows are queries, columns are keys. Row t of `dec` and `cross` belongs to the
query made from `tgt_in[t]` while the model predicts `tgt_out[t]`.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq import attention_checks as checks
from seq2seq.attention_checks import Array as Array
from seq2seq.attention_checks import AttentionError as AttentionError
from seq2seq.attention_file import from_header, gathered, named, to_header
from seq2seq.attention_file import read_arrays as read_arrays
from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole

KINDS = ("enc", "dec", "cross")
KIND_NAMES = {
    "enc": "encoder self-attention",
    "dec": "decoder self-attention",
    "cross": "cross-attention",
}
SIDES = ("src", "tgt_in", "tgt_out")


@dataclass(frozen=True, eq=False)
class QueryKey:
    """What the weights of a layer were computed from; Dk is the width of a head."""

    query: Array  # [H, queries, Dk]
    key: Array  # [H, keys, Dk]

    @property
    def scores(self) -> Array:
        """q·k / √Dk, [H, queries, keys]: before the mask and the softmax (paper, equation 1)."""
        query, key = (x.astype(np.float64) for x in (self.query, self.key))
        return query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1])

    def terms(self, index: int, query: int, key: int) -> Array:
        """What each dimension adds to a score, [Dk]: q_d k_d / √Dk.

        Args:
            index: the head's place in the layer.
            query: row.
            key: column.
        """
        product = self.query[index, query].astype(np.float64) * self.key[index, key]
        return product / np.sqrt(len(product))


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention weights of one sentence pair, softmax outputs before dropout.

    A kind that was not captured has no layers. Pieces of a finished translation give
    `tgt_in = <s> y1 … yn` and `tgt_out = y1 … yn </s>`; a hypothesis cut at the length limit lacks
    the last position. At word level the two may differ in length (see seq2seq.analysis.words).
    """

    enc: list[Array]  # one [H, S, S] for each encoder layer held
    dec: list[Array]  # one [H, T, T] for each decoder layer held
    cross: list[Array]  # one [H, T, S] for each decoder layer held
    layer_ids: dict[str, list[int]]  # kind → the layer's number in the model, from 0
    head_ids: dict[str, list[list[int]]]  # kind → for each layer held, the heads' numbers
    src: list[str]  # S labels, the last one "</s>"
    tgt_in: list[str]  # T labels, the first one "<s>"
    tgt_out: list[str]  # T labels
    special: dict[str, NDArray[np.bool_]]  # side → which of its labels are control tokens
    text: dict[str, str]  # "source", "target": as the user would write them
    logprob: Array | None = None  # [T] log-probability of tgt_out, in nats
    # kind → for each layer held; None: not captured
    norms: dict[str, list[Array]] | None = None  # ‖α f(x)‖ (Kobayashi et al. 2020), as weights
    qk: dict[str, list[QueryKey]] | None = None
    meta: dict[str, Any] = dataclasses.field(default_factory=dict)  # provenance, JSON-ready

    @property
    def level(self) -> str:
        """What a label is: "piece" or "word"."""
        return str(self.meta.get("level", "piece"))

    def layers(self, kind: str) -> list[Array]:
        """All layers held of a kind, each [H, queries, keys].

        Raises:
            AttentionError: no such kind.
        """
        if kind not in KINDS:
            raise AttentionError(f"There is no attention kind {kind!r}: take {', '.join(KINDS)}.")
        return list(getattr(self, kind))

    def layer(self, kind: str, layer: int) -> tuple[Array, list[int]]:
        """The weights [H, queries, keys] of the model's layer `layer`, and its heads' numbers.

        Raises:
            AttentionError: the record holds no such layer; the message lists those it does.
        """
        layers, ids = self.layers(kind), self.layer_ids[kind]
        if layer not in ids:
            raise AttentionError(_absent(f"{KIND_NAMES[kind]} layer", [layer], ids))
        place = ids.index(layer)
        return layers[place], self.head_ids[kind][place]

    def head(self, kind: str, layer: int, head: int) -> Array:
        """The weights [queries, keys] of one head, by its number in the model.

        Raises:
            AttentionError: the record holds no such layer or head; the message lists those it does.
        """
        weights, ids = self.layer(kind, layer)
        if head not in ids:
            where = f" in {KIND_NAMES[kind]} layer {layer}"
            raise AttentionError(_absent("head", [head], ids, where))
        return weights[ids.index(head)]

    def query_side(self, kind: str) -> str:
        """Which labels the rows have by default: src, tgt_in (dec) or tgt_out (cross)."""
        return {"enc": "src", "dec": "tgt_in", "cross": "tgt_out"}[kind]

    def key_side(self, kind: str) -> str:
        """Which labels the columns have: tgt_in for dec, src for enc and cross."""
        return "tgt_in" if kind == "dec" else "src"

    def labels(self, side: str) -> list[str]:
        """The labels of a side: "src", "tgt_in" or "tgt_out"."""
        return list(getattr(self, side))

    def select(
        self,
        kinds: Collection[str] | None = None,
        layers: Collection[int] | None = None,
        heads: Collection[int] | None = None,
    ) -> AttentionMaps:
        """A record that keeps only these kinds, layers and heads, under their numbers.

        With several kinds, a layer (or head) must exist in at least one of them.

        Raises:
            AttentionError: a kind, layer or head is in none of them; the message lists valid ones.
        """
        kept = set(KINDS if kinds is None else kinds)
        if not kept <= set(KINDS):
            raise AttentionError(_absent("attention kind", sorted(kept - set(KINDS)), KINDS))
        held = {kind: self.layer_ids[kind] if kind in kept else [] for kind in KINDS}
        _require(layers, [i for kind in KINDS for i in held[kind]], "layer")
        chosen = {k: [i for i in held[k] if layers is None or i in layers] for k in KINDS}
        known = [h for k in KINDS for i in chosen[k] for h in self.layer(k, i)[1]]
        _require(heads, known, "head")
        arrays: dict[str, Any] = {kind: [] for kind in KINDS}
        head_ids: dict[str, list[list[int]]] = {kind: [] for kind in KINDS}
        norms: dict[str, list[Array]] = {kind: [] for kind in KINDS}
        qk: dict[str, list[QueryKey]] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            for index in chosen[kind]:
                place = self.layer_ids[kind].index(index)
                ids = self.head_ids[kind][place]
                rows = [r for r, head in enumerate(ids) if heads is None or head in heads]
                arrays[kind].append(_take(self.layers(kind)[place], rows))
                head_ids[kind].append([ids[r] for r in rows])
                if self.norms is not None:
                    norms[kind].append(_take(self.norms[kind][place], rows))
                if self.qk is not None:
                    both = self.qk[kind][place]
                    qk[kind].append(QueryKey(_take(both.query, rows), _take(both.key, rows)))
        arrays["norms"] = None if self.norms is None else norms
        arrays["qk"] = None if self.qk is None else qk
        return dataclasses.replace(self, **arrays, layer_ids=chosen, head_ids=head_ids)

    def check(self, atol: float | None = None) -> None:
        """Hold the record to its invariants.

        Labels, identities and shapes agree; weights are finite and in [0, 1]; each row sums to 1;
        no decoder query sees a later key (exactly 0). Norms are weights times one length for each
        key, and the softmax of the scores is the weights.

        Args:
            atol: tolerance of row sums; default what capture noted for the model's precision, 1e-5.

        Raises:
            AttentionError: names the kind, layer, head and row.
        """
        atol = float(self.meta.get("tolerance", 1e-5)) if atol is None else atol
        for side in SIDES:
            checks.check_flags(side, self.special[side], len(self.labels(side)))
        checks.check_logprob(self.logprob, len(self.tgt_out))
        for kind in KINDS:
            rows, columns = self.query_side(kind), self.key_side(kind)
            layers = self.layers(kind)
            held = [self.layer_ids, self.head_ids, *(x for x in (self.norms, self.qk) if x)]
            checks.check_identities(KIND_NAMES[kind], len(layers), [len(one[kind]) for one in held])
            for place, weights in enumerate(layers):
                name = f"{KIND_NAMES[kind]} layer {self.layer_ids[kind][place]}"
                layer = checks.Layer(name, self.head_ids[kind][place], causal=kind == "dec")
                sides = {side: len(self.labels(side)) for side in (rows, columns)}
                checks.check_shape(layer, weights, (rows, sides[rows]), (columns, sides[columns]))
                checks.check_weights(layer, weights, atol)
                if self.norms is not None:
                    checks.check_norms(layer, weights, self.norms[kind][place], atol, self.level)
                if self.qk is not None:
                    checks.check_scores(layer, weights, self.qk[kind][place].scores, atol)

    def to_arrays(self) -> dict[str, Array]:
        """All of the record as named arrays; `from_arrays` reads them back."""
        header = {
            "layer_ids": self.layer_ids,
            "head_ids": self.head_ids,
            **{side: self.labels(side) for side in SIDES},
            "text": self.text,
            "meta": self.meta,
        }
        arrays = {"header": to_header(header)}
        arrays |= {f"special_{side}": self.special[side] for side in SIDES}
        arrays |= named({kind: self.layers(kind) for kind in KINDS})
        if self.logprob is not None:
            arrays["logprob"] = self.logprob
        if self.norms is not None:
            arrays |= named(self.norms, "norms_")
        if self.qk is not None:
            arrays |= named(
                {kind: [one.query for one in self.qk[kind]] for kind in KINDS}, "query_"
            )
            arrays |= named({kind: [one.key for one in self.qk[kind]] for kind in KINDS}, "key_")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], name: str | Path) -> AttentionMaps:
        """The record that `to_arrays` took apart, checked; `name` of the file is for messages.

        Raises:
            UserError: no such record, of another format version, or it breaks an invariant.
        """
        header = from_header(arrays, name)
        try:
            ids = header["layer_ids"]
            header |= gathered(ids, arrays)
            header["special"] = {side: arrays[f"special_{side}"] for side in SIDES}
            if any(one.startswith("norms_") for one in arrays):
                header["norms"] = gathered(ids, arrays, "norms_")
            if any(one.startswith("query_") for one in arrays):
                query, key = (gathered(ids, arrays, prefix) for prefix in ("query_", "key_"))
                header["qk"] = {kind: list(map(QueryKey, query[kind], key[kind])) for kind in KINDS}
            maps = cls(**header, logprob=arrays.get("logprob"))
        except (KeyError, TypeError) as error:
            raise UserError(f"{name} is an incomplete attention record ({error}).") from None
        maps.check()
        return maps

    def to_bytes(self) -> bytes:
        """The content of a compressed .npz file without pickle; equal records give equal bytes."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.to_arrays())  # type: ignore[arg-type]
        return buffer.getvalue()

    def save(self, path: str | Path) -> None:
        """Write a .npz file, all of it or nothing; UserError if that cannot be done."""
        write_whole(self.to_bytes(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> AttentionMaps:
        """Read what `save` wrote and check it.

        Raises:
            UserError: the file is missing, is not such a record, or breaks an invariant.
        """
        return cls.from_arrays(read_arrays(path), path)


def _take(array: Array, rows: list[int]) -> Array:
    return array if len(rows) == len(array) else array[rows]


def _absent(what: str, asked: Collection[Any], valid: Collection[Any], where: str = "") -> str:
    wanted, held = ", ".join(map(str, asked)), ", ".join(map(str, valid)) or "none"
    return f"There is no {what} {wanted}{where}: the record holds {held}."


def _require(asked: Collection[int] | None, valid: list[int], what: str) -> None:
    unknown = sorted(set(asked or ()) - set(valid))
    if unknown:
        raise AttentionError(_absent(what, unknown, sorted(set(valid))))

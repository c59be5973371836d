"""AttentionMaps: every attention weight of one sentence pair, with the labels to read them by.

NumPy only: the record is made once (seq2seq.analysis.capture), saved, and then read by pictures and
statistics that need no model. Letters: S source positions, T target positions, H heads.

Orientation is fixed: rows are queries, columns are keys. Row t of `dec` and `cross` belongs to the
query made from `tgt_in[t]` while the model predicts `tgt_out[t]`.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole

FORMAT_VERSION = 1  # of the .npz file; raised when an older reader would misread a newer file
KINDS = ("enc", "dec", "cross")
KIND_NAMES = {
    "enc": "encoder self-attention",
    "dec": "decoder self-attention",
    "cross": "cross-attention",
}
SIDES = ("src", "tgt_in", "tgt_out")

Array = NDArray[Any]


class AttentionError(UserError):
    """A record that contradicts itself, or a layer or head that it does not hold."""


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
        for kind in KINDS:
            for index in chosen[kind]:
                weights, ids = self.layer(kind, index)
                rows = [r for r, head in enumerate(ids) if heads is None or head in heads]
                arrays[kind].append(weights if len(rows) == len(ids) else weights[rows])
                head_ids[kind].append([ids[r] for r in rows])
        return dataclasses.replace(self, **arrays, layer_ids=chosen, head_ids=head_ids)

    def check(self, atol: float | None = None) -> None:
        """Hold the record to its invariants.

        Labels, identities and shapes agree; weights are finite and in [0, 1]; each row sums to 1;
        no decoder query sees a later key (exactly 0).

        Args:
            atol: tolerance of row sums; default what capture noted for the model's precision, 1e-5.

        Raises:
            AttentionError: names the kind, layer, head and row.
        """
        atol = float(self.meta.get("tolerance", 1e-5)) if atol is None else atol
        for side in SIDES:
            if self.special[side].shape != (len(self.labels(side)),):
                raise AttentionError(
                    f"The mask of special tokens of {side} has shape {self.special[side].shape}, "
                    f"but there are {len(self.labels(side))} labels."
                )
        if self.logprob is not None and self.logprob.shape != (len(self.tgt_out),):
            raise AttentionError(
                f"logprob has shape {self.logprob.shape}, but there are {len(self.tgt_out)} "
                "tgt_out labels."
            )
        for kind in KINDS:
            self._check_identities(kind)
            for place, weights in enumerate(self.layers(kind)):
                name = f"{KIND_NAMES[kind]} layer {self.layer_ids[kind][place]}"
                heads = self.head_ids[kind][place]
                self._check_shape(kind, name, weights, len(heads))
                _check_weights(name, heads, weights, atol)
                if kind == "dec":
                    _fail_where(np.triu(weights, 1) != 0, name, heads, weights, "sees a later key")

    def _check_identities(self, kind: str) -> None:
        held, layers, heads = (len(x[kind]) for x in (vars(self), self.layer_ids, self.head_ids))
        if not held == layers == heads:
            raise AttentionError(
                f"{KIND_NAMES[kind]}: {held} layers of weights, but {layers} layer ids and "
                f"{heads} lists of head ids."
            )

    def _check_shape(self, kind: str, name: str, weights: Array, heads: int) -> None:
        rows, columns = self.query_side(kind), self.key_side(kind)
        expected = (heads, len(self.labels(rows)), len(self.labels(columns)))
        if weights.shape != expected:
            raise AttentionError(
                f"{name}: the weights have shape {weights.shape}, but {heads} heads, "
                f"{expected[1]} {rows} labels and {expected[2]} {columns} labels need {expected}. "
                "A record holds one sentence, never a batch."
            )

    def to_arrays(self) -> dict[str, Array]:
        """All of the record as named arrays; `from_arrays` reads them back."""
        header = {
            "format_version": FORMAT_VERSION,
            "layer_ids": self.layer_ids,
            "head_ids": self.head_ids,
            **{side: self.labels(side) for side in SIDES},
            "text": self.text,
            "meta": self.meta,
        }
        arrays: dict[str, Array] = {
            "header": np.frombuffer(json.dumps(header).encode("ascii"), dtype=np.uint8),
            **{f"special_{side}": self.special[side] for side in SIDES},
            **{f"{k}_{i}": w for k in KINDS for i, w in enumerate(self.layers(k))},
        }
        if self.logprob is not None:
            arrays["logprob"] = self.logprob
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], name: str | Path) -> AttentionMaps:
        """The record that `to_arrays` took apart, checked; `name` of the file is for messages.

        Raises:
            UserError: no such record, of another format version, or it breaks an invariant.
        """
        try:
            header = json.loads(arrays["header"].tobytes())
            version = header.pop("format_version", None)
        except (KeyError, ValueError, AttributeError):
            raise UserError(f"{name} is not an attention record written by this program.") from None
        if version != FORMAT_VERSION:
            ours = f"this program reads version {FORMAT_VERSION}: capture the sentence anew"
            raise UserError(f"{name} has format version {version}; {ours}.")
        try:
            ids = header["layer_ids"]
            header |= {k: [arrays[f"{k}_{i}"] for i in range(len(ids[k]))] for k in KINDS}
            header["special"] = {side: arrays[f"special_{side}"] for side in SIDES}
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


def read_arrays(path: str | Path) -> dict[str, Array]:
    """All arrays of a .npz file, without unpickling anything.

    Raises:
        UserError: the file is missing, or no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except Exception:  # zip and NumPy each have their own
        raise UserError(f"{path} is not an attention record written by this program.") from None


def _absent(what: str, asked: Collection[Any], valid: Collection[Any], where: str = "") -> str:
    wanted, held = ", ".join(map(str, asked)), ", ".join(map(str, valid)) or "none"
    return f"There is no {what} {wanted}{where}: the record holds {held}."


def _require(asked: Collection[int] | None, valid: list[int], what: str) -> None:
    unknown = sorted(set(asked or ()) - set(valid))
    if unknown:
        raise AttentionError(_absent(what, unknown, sorted(set(valid))))


def _check_weights(name: str, heads: list[int], weights: Array, atol: float) -> None:
    _fail_where(~np.isfinite(weights), name, heads, weights, "is not a number")
    _fail_where((weights < 0) | (weights > 1 + 1e-6), name, heads, weights, "is outside [0, 1]")
    sums = weights.sum(-1, keepdims=True, dtype=np.float64)
    _fail_where(np.abs(sums - 1) > atol, name, heads, sums, "is the row's sum, which must be 1")


def _fail_where(bad: Array, name: str, heads: list[int], values: Array, what: str) -> None:
    if bad.any():
        head, row, column = (int(i) for i in np.argwhere(bad)[0])
        place = f"row {row}" if values.shape[-1] == 1 else f"row {row} column {column}"
        value = values[head, row, column]
        raise AttentionError(f"{name} head {heads[head]} {place}: {value:.6g} {what}.")

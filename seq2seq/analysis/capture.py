"""Capture: from a model and sentences to one AttentionMaps record each.

The maps come from a second, teacher-forced pass over the final translation. By causality row t of
that pass equals what cached decoding computed at step t, so that search need not carry weights; and
the pass takes the explicit attention path, whose weights are the softmax outputs before dropout.

Letters: B sentences, S source positions, T target positions, H heads.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.analysis.flow import contribution
from seq2seq.analysis.observe import Seen, observed, undisturbed
from seq2seq.analysis.pairs import Pair, PieceTokenizer, Translate, read_pairs
from seq2seq.attention_maps import KIND_NAMES, KINDS, Array, AttentionError, AttentionMaps, QueryKey
from seq2seq.config import BOS, EOS, PAD
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.version import __version__

BATCH = 8  # sentences in one pass; keeps 6 layers × 8 heads × 3 kinds of 150 tokens near 100 MB
ALTERNATIVES = 5  # most probable pieces noted for each step of decoding
COARSE_TOLERANCE = 1e-2  # row sums of weights that were computed in 16 bits


def capture(  # noqa: PLR0913 — what to record, each with its own name
    model: Transformer,
    tokenizer: PieceTokenizer,
    sources: str | Sequence[str],
    targets: str | Sequence[str] | None = None,
    *,
    translate: Translate | None = None,
    kinds: Collection[str] | None = None,
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
    norms: bool = False,
    qk: bool = False,
) -> list[AttentionMaps]:
    """The attention of every head for each sentence, as a list; for many, see `capture_each`.

    Args:
        model: a Transformer; it, the random state and the gradient mode are left as they were.
        tokenizer: makes pieces of text.
        sources: one source sentence or several.
        targets: their translations, as many; None: the model's own, by `translate`.
        translate: such as `Translator.translate`.
        kinds: of "enc", "dec", "cross"; None: all.
        layers: numbers of the layers to keep; None: all.
        heads: numbers of the heads to keep; None: all.
        norms: also record ‖α f(x)‖ of every weight.
        qk: also record the queries and keys that the weights come from.

    Raises:
        UserError: as `capture_each`, and for a kind, layer or head that the model lacks.
    """
    sources = [sources] if isinstance(sources, str) else sources
    targets = [targets] if isinstance(targets, str) else targets
    records = capture_each(
        model, tokenizer, sources, targets, translate=translate, norms=norms, qk=qk
    )
    return [maps.select(kinds, layers, heads) for maps in records]


def capture_each(  # noqa: PLR0913 — what to record, each with its own name
    model: Transformer,
    tokenizer: PieceTokenizer,
    sources: Iterable[str],
    targets: Iterable[str] | None = None,
    *,
    translate: Translate | None = None,
    max_tokens: int | None = None,
    meta: dict[str, Any] | None = None,
    batch: int = BATCH,
    norms: bool = False,
    qk: bool = False,
) -> Iterator[AttentionMaps]:
    """Yield the record of one sentence after the other; memory does not grow with their number.

    Args:
        model: a Transformer; it, the random state and the gradient mode are left as they were.
        tokenizer: makes pieces of text.
        sources: source sentences, read as they are needed.
        targets: their translations, as many; None: the model's own, by `translate`.
        translate: such as `Translator.translate`.
        max_tokens: refuse longer sentences, on either side.
        meta: provenance that the records carry on, such as run and step.
        batch: sentences in one pass of the model.
        norms: also record ‖α f(x)‖ of every weight.
        qk: also record the queries and keys that the weights come from.

    Raises:
        UserError: more or fewer targets than sources, neither targets nor `translate`, or a
            sentence that is too long.
    """
    if targets is None and translate is None:
        raise UserError("Attention needs a target sentence for each source, or a way to translate.")
    pairs = read_pairs(tokenizer, sources, targets, translate, batch)
    number = 0
    while chunk := list(islice(pairs, batch)):
        for pair in chunk:
            number += 1
            _check_length(model, pair, number, max_tokens)
        seen = _forced_pass(model, tokenizer, chunk, norms=norms, qk=qk)
        for maps in _records(tokenizer, chunk, seen, meta or {}):
            maps.check()
            yield maps


def _check_length(model: Transformer, pair: Pair, number: int, max_tokens: int | None) -> None:
    longest = max(len(pair.source), len(pair.target))
    where = f"Sentence {number} ({pair.text['source'][:40]!r} …) has {longest} tokens"
    limit = getattr(model, "position_limit", None)
    if limit is not None and longest > limit:
        raise UserError(f"{where}, but the model's position table ends at {limit}: split it.")
    if max_tokens is not None and longest > max_tokens:
        raise UserError(
            f"{where}, too many for legible maps: split it into shorter sentences, or raise the "
            f"limit of {max_tokens} (--max-tokens)."
        )


@dataclass(frozen=True)
class _Pass:
    """What a pass over a batch showed; `arrays` hold a batch for each layer of a kind."""

    weights: dict[str, list[Array]]  # [B, H, queries, keys]
    norms: dict[str, list[Array]] | None  # the same
    query: dict[str, list[Array]] | None  # [B, H, queries, Dk]
    key: dict[str, list[Array]] | None  # [B, H, keys, Dk]
    head_ids: dict[str, list[list[int]]]  # the numbers of the H heads of each layer
    logprob: Array  # [B, T]
    alternatives: list[list[Any]]
    precision: str


def _forced_pass(
    model: Transformer, tokenizer: PieceTokenizer, pairs: list[Pair], *, norms: bool, qk: bool
) -> _Pass:
    device = next(model.parameters()).device
    source = _padded([pair.source for pair in pairs], device)  # [B, S]
    target_in = _padded([pair.target_in for pair in pairs], device)  # [B, T]
    target_out = _padded([pair.target for pair in pairs], device)  # [B, T]
    with undisturbed(model), observed(model) as seen:
        logits = model.attention_weights(source, target_in).logits
        logs = logits.log_softmax(-1)  # [B, T, V]
        best = logs.topk(min(ALTERNATIVES, logs.size(-1)))

        head_ids: dict[str, list[list[int]]] = {kind: [] for kind in KINDS}
        for (kind, _), one in seen.items():
            head_ids[kind].append(list(one.attention.head_ids))

        def of_all(part: Callable[[Seen], Tensor]) -> dict[str, list[Array]]:
            found: dict[str, list[Array]] = {kind: [] for kind in KINDS}
            for (kind, _), one in seen.items():
                found[kind].append(_to_numpy(part(one)))
            return found

        return _Pass(
            weights=of_all(lambda one: one.weights),
            norms=of_all(lambda one: contribution(one).by_head()) if norms else None,
            query=of_all(lambda one: one.query) if qk else None,
            key=of_all(lambda one: one.kv.key) if qk else None,
            head_ids=head_ids,
            logprob=_to_numpy(logs.gather(-1, target_out[..., None]).squeeze(-1)),
            alternatives=_alternatives(tokenizer, best.indices, best.values),
            precision=str(logits.dtype).removeprefix("torch."),
        )


def _records(
    tokenizer: PieceTokenizer, pairs: list[Pair], found: _Pass, meta: dict[str, Any]
) -> Iterator[AttentionMaps]:
    """One record after the other from a pass, with where it comes from."""
    coarse = found.precision in ("bfloat16", "float16")
    facts = {
        **meta,
        "level": "piece",
        "precision": found.precision,
        "tolerance": COARSE_TOLERANCE if coarse else 1e-5,
        "depth": {kind: len(found.weights[kind]) for kind in KINDS},
        "versions": {
            "seq2seq": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    for row, pair in enumerate(pairs):
        steps = found.alternatives[row][: len(pair.target)]
        yield _record(tokenizer, pair, found, row, {**facts, "alternatives": steps})


def _alternatives(tokenizer: PieceTokenizer, ids: Tensor, logs: Tensor) -> list[list[Any]]:
    """For each sentence and step, [piece, log-probability] of the most probable pieces."""
    names = tokenizer.target_pieces(ids.flatten().tolist())
    values = [round(value, 4) for value in logs.flatten().tolist()]
    width = ids.size(-1)
    flat = [[name, value] for name, value in zip(names, values, strict=True)]
    steps = [flat[i : i + width] for i in range(0, len(flat), width)]
    length = ids.size(1)
    return [steps[i : i + length] for i in range(0, len(steps), length)]


def _record(
    tokenizer: PieceTokenizer, pair: Pair, found: _Pass, row: int, meta: dict[str, Any]
) -> AttentionMaps:
    """Row `row` of a batch, cropped of its padding."""
    s, t = len(pair.source), len(pair.target)
    sizes = {"enc": (s, s), "dec": (t, t), "cross": (t, s)}
    weights = {
        kind: [_crop(layer[row], *sizes[kind], KIND_NAMES[kind]) for layer in found.weights[kind]]
        for kind in KINDS
    }

    norms = qk = None
    if found.norms is not None:
        norms = {
            kind: [layer[row, :, :queries, :keys].copy() for layer in found.norms[kind]]
            for kind, (queries, keys) in sizes.items()
        }
    if found.query is not None and found.key is not None:
        qk = {
            kind: [
                QueryKey(query[row, :, :queries].copy(), key[row, :, :keys].copy())
                for query, key in zip(found.query[kind], found.key[kind], strict=True)
            ]
            for kind, (queries, keys) in sizes.items()
        }
    return AttentionMaps(
        enc=weights["enc"],
        dec=weights["dec"],
        cross=weights["cross"],
        layer_ids={kind: list(range(len(weights[kind]))) for kind in KINDS},
        head_ids=found.head_ids,
        src=tokenizer.source_pieces(pair.source),
        tgt_in=tokenizer.target_pieces(pair.target_in),
        tgt_out=tokenizer.target_pieces(pair.target),
        # By id, not by spelling: a user's text may hold a piece that looks like "</s>".
        special={
            "src": np.isin(pair.source, (BOS, EOS)),
            "tgt_in": np.isin(pair.target_in, (BOS, EOS)),
            "tgt_out": np.isin(pair.target, (BOS, EOS)),
        },
        text=pair.text,
        logprob=found.logprob[row, :t].copy(),
        norms=norms,
        qk=qk,
        meta={**meta, "how": pair.how},
    )


def _crop(weights: Array, rows: int, columns: int, name: str) -> Array:
    """Cut padding off [H, queries, keys]; keys that are padding must carry nothing."""
    if np.any(weights[:, :rows, columns:] != 0):
        raise AttentionError(
            f"{name}: the model attends to padding, so its maps would not sum to 1."
        )
    return weights[:, :rows, :columns].copy()


def _padded(sequences: list[list[int]], device: torch.device) -> Tensor:
    width = max(map(len, sequences))
    rows = [ids + [PAD] * (width - len(ids)) for ids in sequences]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def _to_numpy(tensor: Tensor) -> Array:
    """The model's own precision, but at least float32, which is what NumPy can hold."""
    if tensor.dtype is not torch.float64:
        tensor = tensor.float()
    return tensor.detach().cpu().numpy()

"""Capture: from a model and sentences to one AttentionMaps record each.

The maps come from a second, teacher-forced pass over the final translation. By causality row t of
that pass equals what cached decoding computed at step t, so that search need not carry weights; and
the pass takes the explicit attention path, whose weights are the softmax outputs before dropout.

Letters: B sentences, S source positions, T target positions, H heads.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq.analysis.pairs import Pair, PieceTokenizer, Translate, read_pairs
from seq2seq.attention_maps import KIND_NAMES, KINDS, Array, AttentionError, AttentionMaps
from seq2seq.config import BOS, EOS, PAD
from seq2seq.errors import UserError
from seq2seq.version import __version__

BATCH = 8  # sentences in one pass; keeps 6 layers × 8 heads × 3 kinds of 150 tokens near 100 MB
ALTERNATIVES = 5  # most probable pieces noted for each step of decoding
COARSE_TOLERANCE = 1e-2  # row sums of weights that were computed in 16 bits


def capture(
    model: nn.Module,
    tokenizer: PieceTokenizer,
    sources: str | Sequence[str],
    targets: str | Sequence[str] | None = None,
    *,
    translate: Translate | None = None,
    kinds: Collection[str] | None = None,
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
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

    Raises:
        UserError: as `capture_each`, and for a kind, layer or head that the model lacks.
    """
    sources = [sources] if isinstance(sources, str) else sources
    targets = [targets] if isinstance(targets, str) else targets
    records = capture_each(model, tokenizer, sources, targets, translate=translate)
    return [maps.select(kinds, layers, heads) for maps in records]


def capture_each(
    model: nn.Module,
    tokenizer: PieceTokenizer,
    sources: Iterable[str],
    targets: Iterable[str] | None = None,
    *,
    translate: Translate | None = None,
    max_tokens: int | None = None,
    meta: dict[str, Any] | None = None,
    batch: int = BATCH,
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
        for maps in _forced_pass(model, tokenizer, chunk, meta or {}):
            maps.check()
            yield maps


def _check_length(model: nn.Module, pair: Pair, number: int, max_tokens: int | None) -> None:
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


def _forced_pass(
    model: nn.Module, tokenizer: PieceTokenizer, pairs: list[Pair], meta: dict[str, Any]
) -> list[AttentionMaps]:
    device = next(model.parameters()).device
    source = _padded([pair.source for pair in pairs], device)  # [B, S]
    target_in = _padded([pair.target_in for pair in pairs], device)  # [B, T]
    target_out = _padded([pair.target for pair in pairs], device)  # [B, T]
    with undisturbed(model):
        found = model.attention_weights(source, target_in)  # type: ignore[operator]
        logs = found.logits.log_softmax(-1)  # [B, T, V]
        logprob = logs.gather(-1, target_out[..., None]).squeeze(-1)
        best = logs.topk(min(ALTERNATIVES, logs.size(-1)))
        dtype = str(found.logits.dtype).removeprefix("torch.")
    batches = {
        "enc": [_to_numpy(w) for w in found.encoder],
        "dec": [_to_numpy(w) for w in found.decoder],
        "cross": [_to_numpy(w) for w in found.cross],
    }
    facts = {
        **meta,
        "level": "piece",
        "precision": dtype,
        "tolerance": COARSE_TOLERANCE if dtype in ("bfloat16", "float16") else 1e-5,
        "depth": {kind: len(batches[kind]) for kind in KINDS},
        "versions": {
            "seq2seq": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    logprobs = _to_numpy(logprob)
    others = _alternatives(tokenizer, best.indices, best.values)
    return [
        _record(
            tokenizer,
            pair,
            batches,
            row,
            logprobs[row],
            {**facts, "alternatives": others[row][: len(pair.target)]},
        )
        for row, pair in enumerate(pairs)
    ]


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
    tokenizer: PieceTokenizer,
    pair: Pair,
    batches: dict[str, list[Array]],
    row: int,
    logprob: Array,
    meta: dict[str, Any],
) -> AttentionMaps:
    """Row `row` of a batch, cropped of its padding."""
    s, t = len(pair.source), len(pair.target)
    sizes = {"enc": (s, s), "dec": (t, t), "cross": (t, s)}
    arrays = {
        kind: [_crop(weights[row], *sizes[kind], KIND_NAMES[kind]) for weights in batches[kind]]
        for kind in KINDS
    }
    return AttentionMaps(
        **arrays,
        layer_ids={kind: list(range(len(arrays[kind]))) for kind in KINDS},
        head_ids={kind: [list(range(len(w))) for w in arrays[kind]] for kind in KINDS},
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
        logprob=logprob[:t].copy(),
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


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Look at a model and leave no trace: eval mode, no gradients, afterwards all as before.

    Each submodule's own training flag comes back, also after an exception, and random states are
    neither used nor moved.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training

"""How much the loss listens to each head: gradient importance (Michel et al. 2019).

I_h = mean over sentences of |∂L/∂ξ_h|, where ξ_h = 1 multiplies the head's output before W_O and L
is the sentence's mean negative log-likelihood of a target token. The absolute value is taken
sentence by sentence, so that heads which help here and harm there do not cancel out.

This is a slope at the model as it is. It is neither the loss without the head (ablation) nor what
the head's content decides (interchange).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq.analysis.contrast import padded
from seq2seq.analysis.interchange import Interchange
from seq2seq.analysis.intervene import (
    HeadFunction,
    HeadId,
    Place,
    attentions,
    head_numbers,
    on_heads,
)
from seq2seq.analysis.observe import undisturbed
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.config import PAD
from seq2seq.data.batching import Batch, make_batch
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.decoding.lines import Progress, encode_lines, plan_batches, report
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

CHUNK = 512  # pairs that are sorted by length together
BATCH_TOKENS = 2048  # positions of a side in one backward pass
ANSWERS = 64  # contrasts in one backward pass

COLUMNS = (
    Column("importance", "nats/token", "mean |∂ loss / ∂ gate| (Michel et al. 2019)", 4),
    Column("importance_share", "of layer", "importance / √(Σ importance² of the layer's heads)", 2),
)


def gate_gradients(model: Transformer, batch: Batch) -> dict[Place, Tensor]:
    """∂L/∂ξ of every head for every sentence of a batch: [B, H] for each attention.

    L is the mean negative log-likelihood of the sentence's target tokens, end of sentence included.
    The model, its gradients and the random state stay as they were.
    """
    gates = _gates(model, len(batch.source))
    functions = {place: _times(gate) for place, gate in gates.items()}
    with undisturbed(model), torch.enable_grad(), on_heads(model, functions):
        # Sentences do not see each other, so that one backward pass gives each its own gradient.
        loss = sentence_losses(model, batch).sum()
        gradients = torch.autograd.grad(loss, list(gates.values()), materialize_grads=True)
    return {place: g.flatten(1) for place, g in zip(gates, gradients, strict=True)}


def answer_gradients(runs: Interchange) -> dict[HeadId, Tensor]:
    """|∂Δ/∂ξ| of every head for every contrast [N], Δ the log-odds of the answer in run A, in nats.

    How steeply the very answer that is traced hangs on each head's size: a slope at the model as it
    is, which need not agree with what swapping the head does.
    """
    model = runs.model
    first = next(model.parameters())
    parts: dict[Place, list[Tensor]] = {place: [] for place in attentions(model)}
    for start in range(0, len(runs.contrasts), ANSWERS):
        chunk = runs.contrasts[start : start + ANSWERS]
        source = padded([c.source for c in chunk], max(len(c.source) for c in chunk), first.device)
        length = max(len(c.target_in) for c in chunk)
        target_in = padded([c.target_in for c in chunk], length, first.device)
        rows = torch.arange(len(chunk), device=first.device)
        last, a, b = torch.tensor(
            [[len(c.target_in) - 1, c.token, c.other_token] for c in chunk], device=first.device
        ).T
        gates = _gates(model, len(chunk))
        functions = {place: _times(gate) for place, gate in gates.items()}
        with undisturbed(model), torch.enable_grad(), on_heads(model, functions):
            logits = model(source, target_in)[rows, last]  # [N, V]
            odds = (logits[rows, a] - logits[rows, b]).sum()
            found = torch.autograd.grad(odds, list(gates.values()), materialize_grads=True)
        for place, gradient in zip(gates, found, strict=True):
            parts[place].append(gradient.flatten(1).abs().cpu().double())
    return {
        HeadId(kind, layer, head): torch.cat(parts[kind, layer])[:, index]
        for (kind, layer), attention in attentions(model).items()
        for index, head in enumerate(head_numbers(attention))
    }


def sentence_losses(model: Transformer, batch: Batch) -> Tensor:
    """Mean negative log-likelihood of each sentence's target tokens, [B], in nats."""
    logits = model(batch.source, batch.target_in)  # [B, T, V]
    logits = logits if logits.dtype is torch.float64 else logits.float()
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )
    return losses.sum(1) / (batch.target_out != PAD).sum(1)


def forced_batches(
    tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]], batch_tokens: int = BATCH_TOKENS
) -> Iterator[Batch]:
    """Batches of given translations, in no particular order; pairs are read as they are needed.

    Args:
        tokenizer: the model's.
        pairs: sentences and their translations.
        batch_tokens: positions of a side in one batch.
    """
    stream = iter(pairs)
    while chunk := list(islice(stream, CHUNK)):
        sources = encode_lines(tokenizer.encode_source, [source for source, _ in chunk])
        targets = encode_lines(tokenizer.encode_target, [target for _, target in chunk])
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
        for members in plan_batches(lengths, batch_tokens):
            yield make_batch([sources[i] for i in members], [targets[i] for i in members])


def importance(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: Iterable[tuple[str, str]],
    *,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> HeadTable:
    """Gradient importance of every head over sentence pairs.

    Args:
        model: a Transformer; left as it was.
        tokenizer: the model's.
        pairs: sentences and their translations, read as needed; memory does not grow with them.
        batch_tokens: positions of a side in one pass.
        progress: told how many pairs are done.

    Raises:
        UserError: there are no pairs.
    """
    device = next(model.parameters()).device
    sums = {place: np.zeros(a.n_heads) for place, a in attentions(model).items()}
    done = 0
    for batch in forced_batches(tokenizer, pairs, batch_tokens):
        for place, gradient in gate_gradients(model, batch.to(device)).items():
            sums[place] += gradient.cpu().double().abs().sum(0).numpy()
        done += len(batch.source)
        report(progress, done, done)
    if not done:
        raise UserError("Head importance needs at least one sentence pair.")
    rows: dict[HeadId, dict[str, Value]] = {}
    for (kind, layer), attention in attentions(model).items():
        means = sums[kind, layer] / done
        norm = float(np.sqrt((means**2).sum()))
        for head, mean in zip(head_numbers(attention), means.tolist(), strict=True):
            share = mean / norm if norm else 0.0
            rows[HeadId(kind, layer, head)] = {"importance": mean, "importance_share": share}
    return HeadTable(COLUMNS, rows)


def _gates(model: Transformer, count: int) -> dict[Place, Tensor]:
    """A gate of 1 for every head and sentence: [count, H, 1, 1] for each attention."""
    first = next(model.parameters())
    return {
        place: first.new_ones(count, attention.n_heads, 1, 1).requires_grad_()
        for place, attention in attentions(model).items()
    }


def _times(gate: Tensor) -> HeadFunction:
    return lambda outputs: outputs * gate

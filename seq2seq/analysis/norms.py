"""How much each head adds to its position, and how much of that comes from control tokens.

A head adds Σ_j α_ij f(x_j) to query i, with f(x) = (x W_V + b_V) W_O[h]. Kobayashi et al. 2020:
heads may put much weight on markers whose vectors are short, which adds little; the norm
‖α_ij f(x_j)‖ sees that, the weight does not.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from seq2seq.analysis.flow import contributions
from seq2seq.analysis.head_id import HeadId, Place
from seq2seq.analysis.importance import BATCH_TOKENS, forced_batches
from seq2seq.analysis.intervene import attentions, head_numbers
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.config import BOS, EOS, PAD
from seq2seq.data.batching import Batch
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

COLUMNS = (
    Column(
        "added", "norm", "mean over rows of Σ ‖α f(x)‖, what it adds (Kobayashi et al. 2020)", 2
    ),
    Column("added_special", "of it", "share of that which comes from <s> and </s>", 2),
)


def contribution_sizes(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: Iterable[tuple[str, str]],
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> HeadTable:
    """Sizes of what every head adds, over the rows of words of sentence pairs.

    Args:
        model: a Transformer; left as it was.
        tokenizer: the model's.
        pairs: sentences and their translations, read as needed; memory does not grow with them.
        batch_tokens: positions of a side in one pass.

    Raises:
        UserError: there are no words.
    """
    device = next(model.parameters()).device
    sums: dict[Place, Tensor] = {
        place: torch.zeros(2, a.n_heads, dtype=torch.float64)
        for place, a in attentions(model).items()
    }
    rows = dict.fromkeys(sums, 0)
    for cpu_batch in forced_batches(tokenizer, pairs, batch_tokens):
        batch = cpu_batch.to(device)
        masks = _masks(batch)
        for place, found in contributions(model, batch.source, batch.target_in).items():
            queries, markers = masks[place[0]]
            sizes = found.by_head()  # [B, H, Tq, Tk]
            per_row = torch.stack([sizes.sum(-1), (sizes * markers[:, None, None, :]).sum(-1)])
            kept = per_row * queries[:, None, :]  # [2, B, H, Tq]
            sums[place] += kept.cpu().sum((1, 3), dtype=torch.float64)  # MPS has no float64
            rows[place] += int(queries.sum())
    if not any(rows.values()):
        raise UserError("There are no words to measure what heads add to.")
    table: dict[HeadId, dict[str, Value]] = {}
    for (kind, layer), attention in attentions(model).items():
        total, special = sums[kind, layer].tolist()
        for index, head in enumerate(head_numbers(attention)):
            share = special[index] / total[index] if total[index] else 0.0
            added = total[index] / max(rows[kind, layer], 1)
            table[HeadId(kind, layer, head)] = {"added": added, "added_special": share}
    return HeadTable(COLUMNS, table)


def _masks(batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
    """For each kind, which queries are words [B, Tq], and which keys are control tokens [B, Tk]."""

    def control(ids: Tensor) -> Tensor:
        return (ids == BOS) | (ids == EOS)

    def words(ids: Tensor) -> Tensor:
        return ~control(ids) & (ids != PAD)

    source, read, written = batch.source, batch.target_in, batch.target_out
    return {
        "enc": (words(source), control(source)),
        "dec": (words(read), control(read)),
        "cross": (words(written), control(source)),
    }

"""How likely a model holds given translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.config import EOS
from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.decoding.lines import (
    Progress,
    cut_lines,
    encode_lines,
    inference,
    plan_batches,
    report,
)
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

MAX_LOGITS = 1 << 24  # held at once, as all positions of a batch are (64 MiB)


@dataclass(frozen=True)
class PairScore:
    """How likely the model holds a given translation.

    Attributes:
        source: as given.
        target: as given.
        score: natural log-probability of the target, end of sentence included; no length penalty.
        tokens: pieces of the target and, last, `</s>`.
        token_scores: natural log-probability of each of `tokens`.
        cut: a side was longer than allowed, and its end was left out.
    """

    source: str
    target: str
    score: float
    tokens: list[str]
    token_scores: list[float]
    cut: bool


def score_pairs(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    most: tuple[int, int],
    batch_tokens: int,
    progress: Progress | None = None,
) -> list[PairScore]:
    """Log-probability of each target given its source, in their order.

    A blank side is nothing but an end of sentence.

    Args:
        model: in whatever mode; it is scored without dropout.
        tokenizer: the model's.
        sources: one sentence each.
        targets: their translations.
        most: pieces of a source and of a target; longer ones are cut with a warning.
        batch_tokens: positions of a side in one batch.
        progress: told how many pairs are done.

    Raises:
        UserError: not as many targets as sources.
    """
    if len(sources) != len(targets):
        raise UserError(
            f"There are {len(sources)} sources but {len(targets)} targets to score: "
            "line i of one must be a translation of line i of the other."
        )
    source_ids = encode_lines(tokenizer.encode_source, sources)
    target_ids = encode_lines(tokenizer.encode_target, targets)
    cut = cut_lines(source_ids, most[0], "source", first_line=1)
    cut |= cut_lines(target_ids, most[1], "target", first_line=1)
    lengths = [max(len(s), len(t)) + 1 for s, t in zip(source_ids, target_ids, strict=True)]
    scores: list[list[float]] = [[] for _ in sources]
    done = 0
    for members in plan_batches(lengths, min(batch_tokens, MAX_LOGITS // tokenizer.target_vocab)):
        batch = make_batch([source_ids[i] for i in members], [target_ids[i] for i in members])
        with inference(model) as device:
            batch = batch.to(device)
            rows = model.log_probabilities(batch.source, batch.target_in, batch.target_out)
        for i, row in zip(members, rows.tolist(), strict=True):
            scores[i] = row[: len(target_ids[i]) + 1]
        done += len(members)
        report(progress, done, len(sources))
    return [
        PairScore(
            source=sources[i],
            target=targets[i],
            score=sum(scores[i]),
            tokens=tokenizer.target_pieces([*target_ids[i], EOS]),
            token_scores=scores[i],
            cut=i in cut,
        )
        for i in range(len(sources))
    ]

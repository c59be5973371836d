"""What breaks when heads are switched off: the change of loss and of BLEU, with significance.

Michel et al. 2019, section 3: one head off at a time, or all heads of a layer but one. Every
change is tested against the whole model on the same sentences, and, since as many tests as heads
are made, also by Holm's method, which keeps the chance of any false alarm below the level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.intervene import all_heads, switched_off
from seq2seq.analysis.needed import OTHERS_OFF
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.attention_maps import Array
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import compare

LEAST_TRIALS, TRIALS_A_HEAD, SEED = 1000, 50, 12345
EACH, ALL_BUT_ONE = "each", "all-but-one"
MODES = {EACH: "this head off", ALL_BUT_ONE: OTHERS_OFF}

Progress = Callable[[int, int], None]
Pairs = Sequence[tuple[str, str]]


def heads_off(heads: Sequence[HeadId], mode: str) -> dict[HeadId, list[HeadId]]:
    """Which heads are switched off for the row of each head.

    Args:
        heads: all of the model.
        mode: "each": the head itself; "all-but-one": all others of its layer and kind.

    Raises:
        UserError: another mode.
    """
    if mode not in MODES:
        raise UserError(f"Ablation is {' or '.join(MODES)}, not {mode!r}.")
    if mode == EACH:
        return {head: [head] for head in heads}
    return {head: [o for o in heads if o.place == head.place and o != head] for head in heads}


def ablate_loss(
    translator: Translator,
    pairs: Pairs,
    *,
    mode: str = EACH,
    trials: int | None = None,
    seed: int = SEED,
    progress: Progress | None = None,
) -> HeadTable:
    """Change of the loss of given translations, in nats for each target token.

    Args:
        translator: the model and its tokenizer.
        pairs: sentences and their translations.
        mode: of `MODES`.
        trials: random sign changes of the sentences' differences; None: by `enough_trials`.
        seed: of the trials.
        progress: told how many heads are done.

    Raises:
        UserError: no pairs, or an unknown mode.
    """
    sources, targets = _sides(pairs)
    scored = translator.score(sources, targets)
    tokens = sum(len(pair.tokens) for pair in scored)
    whole = np.array([pair.score for pair in scored])
    chosen = heads_off(all_heads(translator.model), mode)
    trials = trials or enough_trials(len(chosen))
    rows: dict[HeadId, dict[str, Value]] = {}
    for done, (head, off) in enumerate(chosen.items(), start=1):
        with switched_off(translator.model, off):
            cut = np.array([pair.score for pair in translator.score(sources, targets)])
        harm = whole - cut  # nats that each sentence loses
        rows[head] = {
            "loss_change": float(harm.sum() / tokens),
            "loss_p": sign_test(harm, trials, seed),
        }
        _tell(progress, done, len(chosen))
    _add_holm(rows, "loss_p", "loss_p_holm")
    columns = (
        Column("loss_change", "nats/token", f"loss with {MODES[mode]} − loss of the model", 4),
        Column("loss_p", "", f"chance of such a change by random signs, {trials} trials", 3),
        Column("loss_p_holm", "", "the same, corrected for testing every head", 3),
    )
    name = f"loss of the whole model: {-whole.sum() / tokens:.4f} nats/token ({tokens} tokens)"
    return HeadTable(columns, rows, [name, f"ablation: {MODES[mode]}"])


def ablate_bleu(
    translator: Translator,
    pairs: Pairs,
    *,
    target_lang: str,
    mode: str = EACH,
    trials: int | None = None,
    seed: int = SEED,
    progress: Progress | None = None,
) -> HeadTable:
    """Change of BLEU, with 95 % interval and p-value by `seq2seq.evaluation.compare`.

    Args:
        translator: the model, its tokenizer and how to search.
        pairs: sentences and reference translations.
        target_lang: decides how BLEU splits words.
        mode: of `MODES`.
        trials: of both significance tests; None: by `enough_trials`.
        seed: of both.
        progress: told how many heads are done.

    Raises:
        UserError: no pairs, or an unknown mode.
    """
    sources, references = _sides(pairs)
    whole = [t.text for t in translator.translate(sources)]
    chosen = heads_off(all_heads(translator.model), mode)
    trials = trials or enough_trials(len(chosen))
    rows: dict[HeadId, dict[str, Value]] = {}
    facts: list[str] = []
    for done, (head, off) in enumerate(chosen.items(), start=1):
        with switched_off(translator.model, off):
            cut = [t.text for t in translator.translate(sources)]
        found = compare(
            whole,
            cut,
            [references],
            target_lang=target_lang,
            resamples=trials,
            seed=seed,
            metrics=["bleu"],
        ).metrics["bleu"]
        rows[head] = {
            "bleu_change": found.delta,
            "bleu_low": found.low,
            "bleu_high": found.high,
            "bleu_p": found.p_value,
        }
        facts = [
            f"BLEU of the whole model: {found.a:.2f}  {found.signature}",
            f"ablation: {MODES[mode]}",
        ]
        _tell(progress, done, len(chosen))
    _add_holm(rows, "bleu_p", "bleu_p_holm")
    columns = (
        Column("bleu_change", "BLEU", f"BLEU with {MODES[mode]} − BLEU of the model", 2),
        Column("bleu_low", "BLEU", "lower end of its 95 % interval (paired bootstrap)", 2),
        Column("bleu_high", "BLEU", "upper end of its 95 % interval", 2),
        Column("bleu_p", "", f"paired approximate randomisation, {trials} trials", 3),
        Column("bleu_p_holm", "", "the same, corrected for testing every head", 3),
    )
    return HeadTable(columns, rows, facts)


def enough_trials(heads: int) -> int:
    """So many that Holm's correction can find something.

    No p is below 1 / (trials + 1), and the smallest of n is multiplied by n: 1000 trials could
    never make one of 144 heads significant.
    """
    return max(LEAST_TRIALS, TRIALS_A_HEAD * heads)


def sign_test(differences: Array, trials: int, seed: int) -> float:
    """Chance that random signs give differences a sum at least as large, by approximation.

    Under the null hypothesis a sentence's difference might as well have the other sign.
    """
    rng = np.random.default_rng(seed)
    observed = abs(float(differences.sum()))
    sums = [differences @ (1 - 2 * rng.integers(2, size=len(differences))) for _ in range(trials)]
    as_large = np.count_nonzero(np.abs(sums) >= observed - 1e-9)
    return (int(as_large) + 1) / (trials + 1)


def holm(p_values: Mapping[HeadId, float]) -> dict[HeadId, float]:
    """P-values corrected for their number by Holm's step-down method (Holm 1979)."""
    ordered = sorted(p_values, key=lambda head: p_values[head])
    adjusted, highest = {}, 0.0
    for place, head in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - place) * p_values[head]))
        adjusted[head] = highest
    return adjusted


def _add_holm(rows: dict[HeadId, dict[str, Value]], name: str, adjusted: str) -> None:
    values = {head: row[name] for head, row in rows.items()}
    for head, value in holm({h: float(v) for h, v in values.items() if v is not None}).items():
        rows[head][adjusted] = value


def _sides(pairs: Pairs) -> tuple[list[str], list[str]]:
    if not pairs:
        raise UserError("Ablation needs at least one sentence pair.")
    return [source for source, _ in pairs], [target for _, target in pairs]


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)

"""Translation quality in numbers that can be published: BLEU, chrF++ and TER, by sacreBLEU.

Detokenised text is scored against the untouched reference. No score comes without its signature
(Post 2018, "A Call for Clarity in Reporting BLEU Scores"), its bootstrap interval (Koehn 2004,
"Statistical Significance Tests for Machine Translation Evaluation") and notes on what looks wrong.
sacreBLEU pairs lines up to the end of the shorter list and takes a flat list of references for
lists of characters, both in silence, so counts and nesting are checked here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2seq.errors import UserError
from seq2seq.scored_text import (
    UNSPACED,
    Choice,
    check_counts,
    choose_tokenizer,
    signs_of_mistakes,
)
from seq2seq.scores import (
    COMPARE_CONFIDENCE,
    METRICS,
    Comparison,
    Difference,
    SavedEvaluation,
    Score,
    Scores,
    save_evaluation,
)

if TYPE_CHECKING:  # sacreBLEU takes a while to import: only who scores pays for it
    from sacrebleu.metrics.base import Metric

__all__ = [
    "METRICS",
    "Comparison",
    "Difference",
    "SavedEvaluation",
    "Score",
    "Scores",
    "check_counts",
    "compare",
    "evaluate",
    "perplexity",
    "save_evaluation",
]

Floats = NDArray[np.float64]


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_lang: str,
    tokenize: str = "auto",
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 12345,
    metrics: Sequence[str] = METRICS,
) -> Scores:
    """Score detokenised hypotheses; equal to the ``sacrebleu`` command on the same files.

    Args:
        hypotheses: one translation for each source line.
        references: the streams: one list of lines for each reference file.
        target_lang: language code, from which BLEU's tokeniser follows (see `choose_tokenizer`).
        tokenize: ``"auto"`` or a tokeniser of sacreBLEU.
        confidence: of the bootstrap intervals, between 0 and 1.
        resamples: bootstrap samples; 0 leaves the intervals out.
        seed: of the samples, which are sacreBLEU's own for the same seed.
        metrics: which of `METRICS`; TER takes most of the time.

    Raises:
        UserError: the counts or the nesting are wrong, nothing is there, or an option is unknown.
    """
    check_counts(hypotheses, references)
    _check_options(metrics, resamples, seed, confidence)
    choice = choose_tokenizer(tokenize, target_lang, references)
    scorers = _scorers(metrics, references, choice)
    stats = {name: _statistics(scorer, hypotheses) for name, scorer in scorers.items()}
    found = {}
    for name, scorer in scorers.items():
        value = _values(scorer, stats[name].sum(0, keepdims=True)).item()
        if resamples:
            low, high = _interval(_bootstrap(scorer, stats[name], resamples, seed), confidence)
            signature = _signature(scorer, {"bs": resamples, "seed": seed})
            found[name] = Score(value, signature, low, high)
        else:
            found[name] = Score(value, _signature(scorer, {}))
    same = sum(h.rstrip() == r.rstrip() for h, r in zip(hypotheses, references[0], strict=True))
    notes = [*choice.notes, *_doubts(stats, choice), *signs_of_mistakes(hypotheses, references)]
    return Scores(
        metrics=found,
        n=len(hypotheses),
        exact_match=same / len(hypotheses),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        tokenizer=choice.tokenizer,
        notes=notes,
    )


def compare(
    system_a: Sequence[str],
    system_b: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_lang: str,
    tokenize: str = "auto",
    resamples: int = 1000,
    seed: int = 12345,
    metrics: Sequence[str] = METRICS,
) -> Comparison:
    """Test whether two systems differ by more than chance on the same sentences.

    ``p_value`` is by approximate randomisation (Riezler and Maxwell 2005): how often a difference
    at least as large appears when each sentence's two translations swap systems by a coin toss.
    Unlike the bootstrap's, it is right for few sentences too, and 1 for identical systems. The 95 %
    interval of the difference is by the paired bootstrap: both systems on the same samples.

    Args:
        system_a: translations by the one system, the baseline.
        system_b: translations by the other.
        references: the streams: one list of lines for each reference file.
        target_lang: language code, from which BLEU's tokeniser follows.
        tokenize: ``"auto"`` or a tokeniser of sacreBLEU.
        resamples: trials of both tests, at least 1; no p is below 1 / (resamples + 1).
        seed: of the trials.
        metrics: which of `METRICS`.

    Raises:
        UserError: as `evaluate`.
    """
    check_counts(system_a, references, names=["system a"])
    check_counts(system_b, references, names=["system b"])
    _check_options(metrics, resamples, seed, COMPARE_CONFIDENCE)
    if resamples < 1:
        raise UserError("A comparison needs resamples of at least 1, but it is 0.")
    choice = choose_tokenizer(tokenize, target_lang, references)
    scorers = _scorers(metrics, references, choice)
    a = {name: _statistics(scorer, system_a) for name, scorer in scorers.items()}
    b = {name: _statistics(scorer, system_b) for name, scorer in scorers.items()}
    notes = [*choice.notes, *dict.fromkeys([*_doubts(a, choice), *_doubts(b, choice)])]
    for system, hypotheses in (("a", system_a), ("b", system_b)):
        notes += [f"system {system}: {n}" for n in signs_of_mistakes(hypotheses, references)]
    return Comparison(
        metrics={
            name: _difference(scorer, a[name], b[name], resamples, seed)
            for name, scorer in scorers.items()
        },
        n=len(system_a),
        resamples=resamples,
        seed=seed,
        tokenizer=choice.tokenizer,
        notes=notes,
    )


def perplexity(log_prob_sum: float, tokens: int) -> float:
    """Give exp(-log_prob_sum / tokens), of the model's own probabilities, not smoothed ones.

    Args:
        log_prob_sum: natural logarithms of the probabilities of all target tokens, summed.
        tokens: how many there are, ends of sentence included.

    Raises:
        UserError: there are no tokens, or the sum cannot be one of log-probabilities.
    """
    if tokens < 1:
        raise UserError(f"Perplexity needs at least one target token, but there are {tokens}.")
    # float32 rounds the log-probability of a sure token to slightly above 0.
    if not log_prob_sum <= 1e-5 * tokens:
        raise UserError(f"Log-probabilities cannot sum to {log_prob_sum}: they are at most 0.")
    try:
        return math.exp(-min(log_prob_sum, 0.0) / tokens)
    except OverflowError:
        return math.inf


def _check_options(metrics: Sequence[str], resamples: int, seed: int, confidence: float) -> None:
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics or isinstance(metrics, str):
        raise UserError(f"metrics must be some of {', '.join(METRICS)}, but it is {metrics!r}.")
    for option, value in (("resamples", resamples), ("seed", seed)):
        if value < 0:
            raise UserError(f"{option} must be 0 or more, but it is {value}.")
    if not 0 < confidence < 1:
        raise UserError(f"confidence must lie between 0 and 1, but it is {confidence}.")


def _scorers(
    metrics: Sequence[str], references: Sequence[Sequence[str]], choice: Choice
) -> dict[str, Metric]:
    from sacrebleu import BLEU, CHRF, TER

    if "bleu" in metrics and choice.tokenizer not in BLEU.TOKENIZERS:
        known = ", ".join(BLEU.TOKENIZERS)
        raise UserError(f"tokenize must be auto or one of {known}, but it is {choice.tokenizer!r}.")
    asian = choice.writing in ("zh", "ja")  # TER then parts Han letters, as its signature says
    make: dict[str, Callable[[], Metric]] = {
        # force: no advice on tokenised text beside our own notes.
        "bleu": lambda: BLEU(tokenize=choice.tokenizer, force=True, references=references),
        "chrf": lambda: CHRF(word_order=2, references=references),
        "ter": lambda: TER(normalized=asian, asian_support=asian, references=references),
    }
    try:
        return {name: make[name]() for name in METRICS if name in metrics}
    except (RuntimeError, ImportError, AssertionError, OSError) as error:
        raise UserError(
            f"The tokeniser {choice.tokenizer} cannot be used here "
            f"({' '.join(str(error).split())}); choose another with tokenize."
        ) from error


# Only the next two functions use methods that sacreBLEU keeps to itself: nothing public gives out
# the sufficient statistics of each sentence, on which its own significance tests work too.


def _statistics(scorer: Metric, hypotheses: Sequence[str]) -> Floats:
    """Counts of each sentence, whose sums determine the score: [n, k]."""
    return np.array(scorer._extract_corpus_statistics(hypotheses, None), dtype=np.float64)


def _values(scorer: Metric, sums: Floats) -> Floats:
    """Corpus score of each row of summed statistics: [r, k] -> [r]."""
    return np.array([scorer._compute_score_from_stats(row).score for row in sums.tolist()])


def _signature(scorer: Metric, trials: Mapping[str, int]) -> str:
    signature = scorer.get_signature()
    for key, value in trials.items():
        signature.update(key, value)
    return str(signature)


def _doubts(stats: Mapping[str, Floats], choice: Choice) -> list[str]:
    notes = []
    if "bleu" in stats and stats["bleu"][:, -1].sum() == 0:  # total of hypothesis 4-grams
        notes.append(
            "no hypothesis has four tokens, which makes BLEU 0 however good they are; "
            "read chrF++ or the exact match"
        )
    if "ter" in stats and choice.writing in ("ja", UNSPACED):
        notes.append("TER takes what stands between two spaces for one word; read BLEU or chrF++")
    return notes


def _bootstrap(scorer: Metric, stats: Floats, resamples: int, seed: int) -> Floats:
    """Scores of corpora drawn with replacement from the sentences: [n, k] -> [resamples].

    The draws follow from the seed and n alone, so that two systems with one seed are paired. How
    often each sentence was drawn, times its counts, is their sum: no [resamples, n, k] array.
    """
    rng = np.random.default_rng(seed)
    size = len(stats)
    drawn = (np.bincount(rng.choice(size, size), minlength=size) for _ in range(resamples))
    return _values(scorer, np.array([times @ stats for times in drawn]))


def _randomised(scorer: Metric, a: Floats, b: Floats, trials: int, seed: int) -> Floats:
    """Differences b - a after each sentence's two translations swapped by a coin toss: [trials]."""
    rng = np.random.default_rng(seed)
    gain = b - a
    moved = np.array([rng.integers(2, size=len(a)) @ gain for _ in range(trials)])
    return _values(scorer, b.sum(0) - moved) - _values(scorer, a.sum(0) + moved)


def _difference(scorer: Metric, a: Floats, b: Floats, trials: int, seed: int) -> Difference:
    value_a, value_b = _values(scorer, np.stack([a.sum(0), b.sum(0)])).tolist()
    deltas = _bootstrap(scorer, b, trials, seed) - _bootstrap(scorer, a, trials, seed)
    low, high = _interval(deltas, COMPARE_CONFIDENCE)
    by_chance = np.abs(_randomised(scorer, a, b, trials, seed))
    # "At least as large", but for rounding: a swap of all or of none gives the difference itself.
    as_large = np.count_nonzero(by_chance >= abs(value_b - value_a) - 1e-9)
    p_value = (as_large + 1) / (trials + 1)
    signature = _signature(scorer, {"bs": trials, "ar": trials, "seed": seed})
    return Difference(value_a, value_b, value_b - value_a, low, high, p_value, signature)


def _interval(values: Floats, confidence: float) -> tuple[float, float]:
    """Percentile interval, cutting equally many values off both ends as sacreBLEU does."""
    cut = int(len(values) * (1 - confidence) / 2 + 1e-9)
    ordered = np.sort(values)
    return float(ordered[cut]), float(ordered[len(values) - 1 - cut])

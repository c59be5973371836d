"""How many heads can go: quality against the share of heads removed, in several orders.

Michel et al. 2019, section 4: heads go step by step, least important first; for comparison the most
important first, or any. On the way they are held at 0, which computes what the model without them
does (`seq2seq.model.pruning.remove` makes that model).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.importance import importance
from seq2seq.analysis.intervene import all_heads, attentions, switched_off
from seq2seq.analysis.tables import HeadTable
from seq2seq.decoding.lines import Progress, report
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import compare
from seq2seq.model.pruning import head_size
from seq2seq.model.transformer import Transformer, parameter_count

IMPORTANCE, REVERSE, RANDOM = "importance", "reverse", "random"
ORDERS = {
    IMPORTANCE: "least important first",
    REVERSE: "most important first",
    RANDOM: "in random order",
}
TRIALS, SEED = 1000, 12345  # of the significance test

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Quality:
    """How good the model is on the sentence pairs without some of its heads.

    Attributes:
        bleu: of its translations.
        p: chance of such a difference from the whole model (paired approximate randomisation).
        loss: of the given translations, in nats for each target token.
        parameters: of the model once the heads are removed.
    """

    bleu: float
    p: float
    loss: float
    parameters: int


@dataclass(frozen=True)
class Removal:
    """One way to remove the heads of a model.

    Attributes:
        order: of `ORDERS`.
        seed: of a random order, else None.
        counts: heads removed at each point, rising from 0 to all.
        heads: all heads, in the order in which they go.
        points: the quality at each point.
    """

    order: str
    seed: int | None
    counts: Sequence[int]
    heads: Sequence[HeadId]
    points: Sequence[Quality]


@dataclass(frozen=True)
class Curve:
    """Quality along several paths that share their points.

    Attributes:
        paths: one for each order and seed.
        signature: of BLEU, by sacreBLEU.
        facts: where the numbers come from, a line each.
    """

    paths: Sequence[Removal]
    signature: str
    facts: Sequence[str] = field(default=())

    @property
    def total(self) -> int:
        """Heads of the model."""
        return len(self.paths[0].heads)

    def of(self, order: str) -> list[Removal]:
        """The paths of an order: one, or one for each seed."""
        return [path for path in self.paths if path.order == order]

    def spread(self, order: str, name: str) -> list[tuple[float, float]]:
        """Mean and standard deviation (n − 1) over the seeds of an order, point by point.

        Args:
            order: of `ORDERS`.
            name: an attribute of `Quality`.
        """
        values = np.array([[getattr(q, name) for q in path.points] for path in self.of(order)])
        spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
        return list(zip(values.mean(0).tolist(), spread.tolist(), strict=True))

    def dispensable(self, level: float = 0.05) -> int:
        """Heads that can go, least important first, before BLEU falls by more than chance."""
        return _dispensable(self.of(IMPORTANCE)[0], level)


def _dispensable(path: Removal, level: float) -> int:
    whole, last = path.points[0].bleu, 0
    for count, found in zip(path.counts, path.points, strict=True):
        if found.bleu < whole and found.p < level:
            break
        last = count
    return last


@dataclass(frozen=True)
class Options:
    """How a curve is made.

    Attributes:
        orders: of `ORDERS`.
        step: share of all heads that go at each point, above 0 and up to 1.
        seeds: how many random orders.
        re_estimate: measure the importance of what is left at every step, not once for all.
        trials: of the significance test.
    """

    orders: Sequence[str] = tuple(ORDERS)
    step: float = 0.1
    seeds: int = 3
    re_estimate: bool = False
    trials: int = TRIALS

    def __post_init__(self) -> None:
        """Check the choices."""
        unknown = [order for order in self.orders if order not in ORDERS]
        if unknown or not self.orders:
            raise UserError(f"{', '.join(unknown) or 'No order'}: heads go by {', '.join(ORDERS)}.")
        if not 0 < self.step <= 1:
            raise UserError(f"The step is {self.step:g}, but must be a share above 0, up to 1.")
        if self.seeds < 1:
            raise UserError(f"There are {self.seeds} random orders, but must be at least 1.")


def curve(
    translator: Translator,
    pairs: Pairs,
    options: Options | None = None,
    *,
    target_lang: str,
    progress: Progress | None = None,
) -> Curve:
    """Remove heads step by step, in several orders, and measure what is left.

    Args:
        translator: the model, its tokenizer and how to search; left as it was.
        pairs: sentences and their translations, for importance and for measuring.
        options: choices other than the usual ones.
        target_lang: decides how BLEU splits words.
        progress: told how many points are measured, and of how many.

    Raises:
        UserError: no pairs, or a model without heads.
    """
    options = options or Options()
    heads = all_heads(translator.model)
    if not pairs:
        raise UserError("A pruning curve needs at least one sentence pair.")
    if not heads:
        raise UserError("The model has no heads left, so there is none to remove.")
    counts = removal_counts(len(heads), options.step)
    measure = _Measure(translator, pairs, target_lang, options.trials)
    plans = list(_plans(translator, pairs, options, counts))
    paths = []
    for done, (order, seed, path) in enumerate(plans):
        points = []
        for place, count in enumerate(counts, start=1):
            points.append(measure(frozenset(path[:count])))
            report(progress, done * len(counts) + place, len(plans) * len(counts))
        paths.append(Removal(order, seed, counts, path, points))
    return Curve(paths, measure.signature)


def removal_counts(total: int, step: float) -> list[int]:
    """Heads removed at each point: none, then every `step` of them, at last all.

    >>> removal_counts(24, 0.25), removal_counts(3, 0.1)
    ([0, 6, 12, 18, 24], [0, 1, 2, 3])
    """
    points = math.ceil(1 / step - 1e-9)
    return sorted({min(round(i * step * total), total) for i in range(points)} | {total})


def least_important(table: HeadTable) -> list[HeadId]:
    """All heads, least important first.

    As in the paper, importance is normalised within each layer, so that layers whose gradients are
    large keep no more heads than others; heads that are equal so go by their plain importance.
    """
    share, plain = table.values("importance_share"), table.values("importance")
    return sorted(share, key=lambda head: (share[head], plain[head], head.rank))


def removal_order(
    translator: Translator,
    pairs: Pairs,
    order: str,
    *,
    counts: Sequence[int] | None = None,
    seed: int = 1,
) -> list[HeadId]:
    """All heads of a model in the order in which they are to go.

    Args:
        translator: the model and its tokenizer.
        pairs: sentences and their translations, for importance.
        order: of `ORDERS`.
        counts: rising numbers of heads, after each of which importance is measured anew among those
            that are left; None: once for all.
        seed: of a random order.

    Raises:
        UserError: no pairs, or an unknown order.
    """
    model = translator.model
    heads = all_heads(model)
    if order == RANDOM:
        return [heads[i] for i in np.random.default_rng(seed).permutation(len(heads))]
    gone: list[HeadId] = []
    for count in counts or [len(heads)]:
        with switched_off(model, gone):
            ranked = least_important(importance(model, translator.tokenizer, pairs))
        left = [head for head in ranked if head not in set(gone)]
        gone += (left if order == IMPORTANCE else left[::-1])[: count - len(gone)]
    return gone


def parameters_without(model: Transformer, heads: Sequence[HeadId]) -> int:
    """Parameters of the model once these heads are removed."""
    found = attentions(model)
    return parameter_count(model) - sum(head_size(found[head.place]) for head in heads)


class _Measure:
    """Quality without a set of heads, each set measured once."""

    def __init__(self, translator: Translator, pairs: Pairs, target_lang: str, trials: int) -> None:
        self.translator, self.target_lang, self.trials = translator, target_lang, trials
        self.sources = [source for source, _ in pairs]
        self.targets = [target for _, target in pairs]
        self.whole = [t.text for t in translator.translate(self.sources)]
        self.signature = ""
        self._known: dict[frozenset[HeadId], Quality] = {}

    def __call__(self, heads: frozenset[HeadId]) -> Quality:
        if heads not in self._known:
            self._known[heads] = self._measure(sorted(heads, key=lambda head: head.rank))
        return self._known[heads]

    def _measure(self, heads: Sequence[HeadId]) -> Quality:
        model = self.translator.model
        with switched_off(model, heads):
            cut = [t.text for t in self.translator.translate(self.sources)]
            scored = self.translator.score(self.sources, self.targets)
        found = compare(
            self.whole,
            cut,
            [self.targets],
            target_lang=self.target_lang,
            resamples=self.trials,
            seed=SEED,
            metrics=["bleu"],
        ).metrics["bleu"]
        self.signature = found.signature
        loss = -sum(pair.score for pair in scored) / sum(len(pair.tokens) for pair in scored)
        return Quality(found.b, found.p_value, loss, parameters_without(model, heads))


def _plans(
    translator: Translator, pairs: Pairs, options: Options, counts: Sequence[int]
) -> Iterator[tuple[str, int | None, list[HeadId]]]:
    """Each order and seed with the heads in that order."""
    steps = counts[1:] if options.re_estimate else None
    for order in options.orders:
        if order == RANDOM:
            for seed in range(1, options.seeds + 1):
                yield order, seed, removal_order(translator, pairs, order, seed=seed)
        else:
            yield order, None, removal_order(translator, pairs, order, counts=steps)

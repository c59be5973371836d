"""Validation: dev loss, greedy translations, their scores, and what they say of small data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch

from seq2seq.choices import Metric, Search
from seq2seq.config import UNK, RunConfig
from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.decoding.translator import Translation, Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import evaluate
from seq2seq.model.transformer import Transformer
from seq2seq.training.distributed import World
from seq2seq.training.loss import summed_loss

Pair = tuple[str, str]
EncodedPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Validation:
    """One validation: numbers for metrics.jsonl, translations to look at, advice."""

    values: dict[str, float]
    samples: list[tuple[str, str, str]]  # source, reference, translation
    warnings: list[str]

    def better_than(self, best: float | None, metric: Metric) -> bool:
        """Whether this is better than the best value so far; never if the loss is not finite.

        Broken weights still translate into something that BLEU scores, so the loss has a say.
        """
        value = self.values[metric.value]
        if not (math.isfinite(self.values["loss"]) and math.isfinite(value)):
            return False
        if best is None:
            return True
        return value < best if metric is Metric.loss else value > best


class Validator:
    """Measures a model on the dev set, in float32 and evaluation mode.

    Args:
        config: of the run.
        tokenizer: of the run.
        dev: sentence pairs; the loss is over all of them, translations over the first `dev_limit`.
        world: all processes, each of which measures on its share; default: this one.

    Raises:
        UserError: nothing to measure the deciding metric on.
    """

    def __init__(
        self,
        config: RunConfig,
        tokenizer: Tokenizer,
        dev: Sequence[Pair],
        world: World | None = None,
    ) -> None:
        self.world = world or World()
        self.config = config
        self.tokenizer = tokenizer
        if not dev:
            raise UserError("There are no dev pairs to validate on: give dev files or a dev_size.")
        if config.train.metric is not Metric.loss and config.train.dev_limit == 0:
            raise UserError(
                f"train.metric={config.train.metric} needs translations, but train.dev_limit=0 "
                "asks for none: raise it, or use train.metric=loss."
            )
        limit = config.data.max_length  # a longer dev line is cut for the loss
        sources = tokenizer.encode_source([source for source, _ in dev])
        targets = tokenizer.encode_target([target for _, target in dev])
        self.encoded = sorted(
            ((s[:limit], t[:limit]) for s, t in zip(sources, targets, strict=True)),
            key=lambda pair: (len(pair[1]), len(pair[0])),
        )
        self.shown = list(dev[: config.train.dev_limit])
        pieces = [piece for side in (*sources, *targets) for piece in side]
        self.unknown = pieces.count(UNK) / max(len(pieces), 1)

    def __call__(self, model: Transformer) -> Validation:
        """Validate `model`, the same on all ranks; its mode is as before afterwards."""
        was_training = model.training
        model.eval()
        try:
            values = self._losses(model)
            translations = self._translate(model)
        finally:
            model.train(was_training)
        return self.world.same(self._judge(values, translations))

    def _judge(self, values: dict[str, float], translations: list[Translation]) -> Validation:
        texts = [translation.text for translation in translations]
        if texts:
            values |= self._scores(texts)
        triples = [(s, t, text) for (s, t), text in zip(self.shown, texts, strict=True)]
        return Validation(
            values,
            triples[: self.config.train.samples],
            _advice(translations, [t for _, t in self.shown]),
        )

    @torch.inference_mode()
    def _losses(self, model: Transformer) -> dict[str, float]:
        device = next(model.parameters()).device
        smoothed = plain = tokens = 0.0
        for part in islice(self._batches(), self.world.rank, None, self.world.size):
            batch = make_batch([s for s, _ in part], [t for _, t in part]).to(device)
            logits = model(batch.source, batch.target_in)
            sums = summed_loss(logits, batch.target_out, self.config.optim.label_smoothing)
            smoothed, plain = smoothed + float(sums[0]), plain + float(sums[1])
            tokens += batch.tokens
        smoothed, plain, tokens = self.world.sum(smoothed, plain, tokens)
        loss = plain / tokens
        perplexity = float(torch.tensor(loss).exp())
        return {"loss": loss, "smoothed_loss": smoothed / tokens, "perplexity": perplexity}

    def _batches(self) -> Iterator[list[EncodedPair]]:
        """Neighbours in length, within the token budget of training; a long pair stands alone."""
        wish = self.config.train.max_tokens
        budget = wish if isinstance(wish, int) else 1024
        part: list[EncodedPair] = []
        width = 0
        for pair in self.encoded:
            length = 1 + max(map(len, pair))
            if part and max(width, length) * (len(part) + 1) > budget:
                yield part
                part, width = [], 0
            part.append(pair)
            width = max(width, length)
        yield part

    def _translate(self, model: Transformer) -> list[Translation]:
        greedy = replace(self.config.decode, search=Search.beam, beam=1, n_best=1)
        sources, rank, ranks = [s for s, _ in self.shown], self.world.rank, self.world.size
        mine = Translator(model, self.tokenizer, greedy).translate(sources[rank::ranks])
        shares = self.world.gather(mine)
        return [shares[i % ranks][i // ranks] for i in range(len(sources))]

    def _scores(self, texts: list[str]) -> dict[str, float]:
        references = [target for _, target in self.shown]
        scores = evaluate(
            texts,
            [references],
            target_lang=self.config.data.target_lang,
            metrics=("bleu", "chrf"),
            resamples=0,
        ).to_dict()
        same = sum(text == reference for text, reference in zip(texts, references, strict=True))
        return {
            "bleu": float(scores["bleu"]["score"]),
            "chrf": float(scores["chrf"]["score"]),
            "exact": 100.0 * same / len(texts),
        }


def _advice(translations: list[Translation], references: list[str]) -> list[str]:
    """Signs that nothing useful is being learnt yet, which BLEU alone does not tell apart."""
    warnings = []
    texts = [translation.text for translation in translations]
    if len(texts) >= 10:
        text, count = Counter(texts).most_common(1)[0]
        if count > len(texts) / 2 and references.count(text) <= len(texts) / 2:
            warnings.append(
                f"{count} of {len(texts)} dev translations are the same ({text[:60]!r}): the model "
                "ignores the source. Train longer; if it stays so, lower optim.lr, use a smaller "
                "model, or check that source and target lines belong together."
            )
    if texts:
        endless = sum(translation.hit_limit for translation in translations)
        if endless > len(texts) / 2:
            warnings.append(
                f"{endless} of {len(texts)} dev translations run into the length limit: the model "
                "has not learnt to end sentences. Train longer; if it stays so, check for lines "
                "that hold many sentences on the target side."
            )
    return warnings

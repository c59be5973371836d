"""Validation: its numbers by hand, its samples, and its advice where training leads nowhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from training_samples import PAIRS, configuration, tokenizer

from seq2seq.choices import Metric
from seq2seq.config import RunConfig
from seq2seq.data.batching import make_batch
from seq2seq.decoding.translator import Translation, Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import evaluate
from seq2seq.model.transformer import Transformer
from seq2seq.training.validation import Validation, Validator

Pairs = Sequence[tuple[str, str]]


def settings(**options: Any) -> RunConfig:
    config = configuration(**options)
    config.decode.max_len_a, config.decode.max_len_b = 1.0, 5
    return config


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(3)
    config = configuration().model
    config.source_vocab = config.target_vocab = tokenizer().source_vocab
    return Transformer(config)


def validate(model: Transformer, dev: Pairs, **options: Any) -> Validation:
    return Validator(settings(**options), tokenizer(), dev)(model)


def test_the_loss_is_that_of_every_pair_by_itself(model: Transformer) -> None:
    """A mean over words, not over batches or sentences, unsmoothed and without dropout."""
    words = tokenizer()
    total = smoothed = count = 0.0
    model.eval()
    for source, target in PAIRS:
        batch = make_batch(words.encode_source([source]), words.encode_target([target]))
        with torch.no_grad():
            log_p = model(batch.source, batch.target_in).double().log_softmax(-1)[0]
        gold = log_p[range(batch.tokens), batch.target_out[0]]
        total -= float(gold.sum())
        smoothed -= float((0.9 * gold + 0.1 * log_p.mean(-1)).sum())
        count += batch.tokens
    for max_tokens in (16, 60, 4096):
        values = validate(model, PAIRS, max_tokens=max_tokens).values
        assert values["loss"] == pytest.approx(total / count, rel=1e-5)
        assert values["smoothed_loss"] == pytest.approx(smoothed / count, rel=1e-5)
        assert values["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)


def test_scores_are_those_of_greedy_translations(model: Transformer) -> None:
    config = settings()
    result = Validator(config, tokenizer(), PAIRS)(model)
    model.eval()
    translator = Translator(model, tokenizer(), config.decode)
    texts = [found.text for found in translator.translate([s for s, _ in PAIRS], beam=1)]
    expected = evaluate(texts, [[t for _, t in PAIRS]], target_lang="en", resamples=0).to_dict()
    assert result.values["bleu"] == expected["bleu"]["score"]
    assert result.values["chrf"] == expected["chrf"]["score"]
    assert result.samples == [(*pair, text) for pair, text in zip(PAIRS, texts, strict=True)][:3]


def test_the_mode_of_the_model_is_as_before(model: Transformer) -> None:
    for mode in (True, False):
        model.train(mode)
        first = validate(model, PAIRS[:4])
        assert model.training is mode
        assert validate(model, PAIRS[:4]) == first  # no dropout in either


def test_no_random_numbers_are_taken(model: Transformer) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    validate(model, PAIRS[:4])
    assert torch.equal(torch.rand(1), expected)


def test_blank_and_endless_lines_are_validated_too(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the dev set is filtered; a line longer than the limit is cut for the loss only."""
    dev = [("", "1"), ("2", ""), ("1 " * 3000, "2 " * 3000), PAIRS[0]]
    config = settings(max_tokens=100)
    config.data.max_length = 50
    config.decode.max_source = 20
    widths = []
    forward = model.forward
    monkeypatch.setattr(
        model, "forward", lambda s, t: widths.append(max(s.numel(), t.numel())) or forward(s, t)
    )
    result = Validator(config, tokenizer(), dev)(model)
    assert math.isfinite(result.values["loss"])
    assert len(result.samples) == 3
    assert result.samples[0][2] == ""  # blank in, blank out
    assert max(widths) <= 100


def test_only_the_first_are_translated(model: Transformer) -> None:
    few = validate(model, PAIRS, dev_limit=2, samples=5)
    assert [sample[:2] for sample in few.samples] == PAIRS[:2]
    assert few.values["loss"] == validate(model, PAIRS).values["loss"]
    none = validate(model, PAIRS, dev_limit=0, metric=Metric.loss)
    assert none.samples == []
    assert none.values.keys() == {"loss", "smoothed_loss", "perplexity"}


def test_what_cannot_be_measured_is_refused_before_training() -> None:
    with pytest.raises(UserError, match="no dev pairs to validate on"):
        Validator(settings(), tokenizer(), [])
    with pytest.raises(UserError, match=r"train\.metric=exact needs translations"):
        Validator(settings(dev_limit=0, metric=Metric.exact), tokenizer(), PAIRS)


def test_the_share_of_unknown_pieces() -> None:
    assert Validator(settings(), tokenizer(), PAIRS).unknown == 0.0
    # "▁", "1" and "▁", one unknown: one of four.
    assert Validator(settings(), tokenizer(), [("1", "ж")]).unknown == 0.25


def test_better_is_larger_except_for_the_loss() -> None:
    result = Validation({"loss": 2.0, "bleu": 30.0}, [], [])
    assert result.better_than(None, Metric.bleu)
    assert result.better_than(29.9, Metric.bleu)
    assert not result.better_than(30.0, Metric.bleu)
    assert result.better_than(2.1, Metric.loss)
    assert not result.better_than(2.0, Metric.loss)
    for odd in (math.nan, math.inf):
        assert not Validation({"loss": odd, "bleu": 30.0}, [], []).better_than(None, Metric.bleu)
        assert not Validation({"loss": odd}, [], []).better_than(None, Metric.loss)


def scripted(
    monkeypatch: pytest.MonkeyPatch, model: Transformer, dev: Pairs, outputs: list[tuple[str, bool]]
) -> Validation:
    """Validate with these translations and whether each ran into the length limit."""

    def translate(*_: object, **__: object) -> list[Translation]:
        return [Translation(text, 0.0, [], [], limit, [], False) for text, limit in outputs]

    monkeypatch.setattr(Translator, "translate", translate)
    return validate(model, dev)


def test_equal_outputs_are_diagnosed(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    half = [(f"text {i}", False) for i in range(5)] + [("same", False)] * 5
    assert scripted(monkeypatch, model, PAIRS[:10], half).warnings == []
    more = [("text", False)] * 4 + [("same", False)] * 6
    (warning,) = scripted(monkeypatch, model, PAIRS[:10], more).warnings
    assert "6 of 10 dev translations are the same ('same')" in warning
    assert "ignores the source" in warning


def test_equal_outputs_are_no_wonder_where_the_references_are_equal(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = [(source, "same") for source, _ in PAIRS[:10]]
    assert scripted(monkeypatch, model, dev, [("same", False)] * 10).warnings == []
    assert scripted(monkeypatch, model, dev, [("other", False)] * 10).warnings != []


def test_endless_outputs_are_diagnosed(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    half = [(f"{i}", i < 5) for i in range(10)]
    assert scripted(monkeypatch, model, PAIRS[:10], half).warnings == []
    more = [(f"{i}", i < 6) for i in range(10)]
    (warning,) = scripted(monkeypatch, model, PAIRS[:10], more).warnings
    assert "6 of 10 dev translations run into the length limit" in warning


def test_an_untrained_model_is_diagnosed(model: Transformer) -> None:
    """For real: before any training the outputs never end, or are all the same."""
    assert validate(model, PAIRS).warnings != []

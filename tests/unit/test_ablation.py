"""Ablation: against a model whose weights are cut, and significance against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from seq2seq.analysis.ablation import (
    ablate_bleu,
    ablate_loss,
    enough_trials,
    heads_off,
    holm,
    sign_test,
)
from seq2seq.analysis.intervene import HeadId, all_heads, attentions
from seq2seq.config import DecodeConfig, ModelConfig
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import evaluate
from seq2seq.model.transformer import Transformer

SENTENCES = [  # of the words that the tokenizer knows
    ("the small house is old", "das kleine Haus ist alt"),
    ("the big house is new", "das große Haus ist neu"),
    ("a dog sees the house", "ein Hund sieht das Haus"),
    ("the dog is small and old", "der Hund ist klein und alt"),
    ("we see a new dog", "wir sehen einen neuen Hund"),
    ("is the house big", "ist das Haus groß"),
]
IDLE = HeadId("cross", 1, 0)


@pytest.fixture
def translator(tiny_tokenizer):
    """1 + 2 layers of 2 heads of width 8; head cross.1.0 is ignored by W_O."""
    vocab = tiny_tokenizer.source_vocab
    sizes = {"d_model": 16, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 2}
    heads = {"encoder_heads": 2, "decoder_heads": 2}
    model = Transformer(ModelConfig(**sizes, **heads, source_vocab=vocab, target_vocab=vocab))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(2)
    cut(model, IDLE)
    decode = DecodeConfig(beam=2, max_len_a=0, max_len_b=6)
    return Translator(model.eval(), tiny_tokenizer, decode)


def cut(model, head):
    with torch.no_grad():
        first = head.head * 8
        attentions(model)[head.place].w_o.weight[:, first : first + 8] = 0


def test_change_of_loss_is_that_of_a_model_without_the_heads_weights(translator):
    table = ablate_loss(translator, SENTENCES, trials=50)
    assert table.heads == all_heads(translator.model)
    assert table.rows[IDLE] == {"loss_change": 0.0, "loss_p": 1.0, "loss_p_holm": 1.0}
    sides = [s for s, _ in SENTENCES], [t for _, t in SENTENCES]
    before = translator.score(*sides)
    tokens = sum(len(pair.tokens) for pair in before)
    head = HeadId("dec", 1, 1)
    cut(translator.model, head)
    harm = sum(pair.score for pair in before) - sum(p.score for p in translator.score(*sides))
    assert table.values("loss_change")[head] == pytest.approx(harm / tokens, abs=1e-6)
    assert abs(harm / tokens) > 1e-3
    assert f"({tokens} tokens)" in table.facts[0]


def test_change_of_bleu_is_that_of_a_model_without_the_heads_weights(translator):
    with torch.no_grad():  # references that the model itself gives, but for two
        texts = [t.text for t in translator.translate([s for s, _ in SENTENCES])]
    pairs = [(s, t) for (s, _), t in zip(SENTENCES, [*texts[:-2], "das Haus", "ein"], strict=True)]
    references = [t for _, t in pairs]
    table = ablate_bleu(translator, pairs, target_lang="de", trials=40)
    idle = table.rows[IDLE]
    assert (idle["bleu_change"], idle["bleu_p"], idle["bleu_p_holm"]) == (0.0, 1.0, 1.0)
    assert (idle["bleu_low"], idle["bleu_high"]) == (0.0, 0.0)
    whole = evaluate(texts, [references], target_lang="de", resamples=0).bleu.value
    assert f"BLEU of the whole model: {whole:.2f}" in table.facts[0]
    assert "tok:13a" in table.facts[0]
    head = HeadId("enc", 0, 1)
    cut(translator.model, head)
    off = [t.text for t in translator.translate([s for s, _ in pairs])]
    value = evaluate(off, [references], target_lang="de", resamples=0).bleu.value
    assert value != whole
    assert table.values("bleu_change")[head] == pytest.approx(value - whole)


def test_all_but_one(translator):
    heads = all_heads(translator.model)
    off = heads_off(heads, "all-but-one")
    assert off[HeadId("dec", 1, 0)] == [HeadId("dec", 1, 1)]
    assert heads_off(heads, "each")[IDLE] == [IDLE]
    table = ablate_loss(translator, SENTENCES, mode="all-but-one", trials=20)
    # With two heads a layer, all but the other one is the idle one alone.
    assert table.values("loss_change")[HeadId("cross", 1, 1)] == 0
    assert "all other heads" in table.columns[0].meaning
    with pytest.raises(UserError, match=r"each or all-but-one, not 'none'"):
        heads_off(heads, "none")


def test_progress_is_told_and_nothing_to_measure_is_an_error(translator):
    told = []
    ablate_loss(translator, SENTENCES[:1], trials=1, progress=lambda *n: told.append(n))
    assert told == [(i, 10) for i in range(1, 11)]
    with pytest.raises(UserError, match="at least one"):
        ablate_loss(translator, [])
    with pytest.raises(UserError, match="at least one"):
        ablate_bleu(translator, [], target_lang="de")


@pytest.mark.parametrize("values", [[3, 2, 1, 1], [1, 1, 1, 1], [5, -1, 2, 0.5], [1, -1, 0, 0]])
def test_the_chance_of_a_sum_by_random_signs(values):
    signs = itertools.product((1, -1), repeat=4)
    sums = [abs(sum(s * v for s, v in zip(sign, values, strict=True))) for sign in signs]
    exact = np.mean([total >= abs(sum(values)) - 1e-9 for total in sums])
    assert sign_test(np.array(values), 4000, 1) == pytest.approx(exact, abs=0.03)
    assert sign_test(np.array(values), 50, 7) == sign_test(np.array(values), 50, 7)


def test_no_difference_at_all_is_certain_to_be_chance():
    assert sign_test(np.zeros(10), 100, 1) == 1.0


def test_enough_trials_for_holm_to_find_one_head_of_many():
    for heads in (1, 24, 144, 600):
        smallest = 1 / (enough_trials(heads) + 1)
        assert (
            holm({HeadId("enc", 0, i): smallest if i == 0 else 1.0 for i in range(heads)})[
                HeadId("enc", 0, 0)
            ]
            < 0.05
        )


def test_holm_by_hand():
    names = [HeadId("enc", 0, i) for i in range(4)]
    found = holm(dict(zip(names, [0.04, 0.01, 0.03, 0.5], strict=True)))
    # 4 · 0.01; 3 · 0.03; max(2 · 0.04, 0.09); max(0.5, …)
    assert [found[n] for n in names] == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert holm({names[0]: 0.9, names[1]: 0.8}) == {names[0]: 1.0, names[1]: 1.0}

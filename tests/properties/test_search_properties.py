"""What holds of searches, batches and translations for any numbers and any text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seq2seq.choices import SubwordKind
from seq2seq.config import DecodeConfig, ModelConfig, TokenizerConfig
from seq2seq.data.lines import is_blank
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.lines import plan_batches
from seq2seq.decoding.sampling import sample
from seq2seq.decoding.search import log_probabilities, top_k
from seq2seq.decoding.translator import Translator
from seq2seq.model.transformer import Transformer

quick = settings(deadline=None, derandomize=True, max_examples=40)

PAD, BOS, EOS = 0, 1, 2
RULES = {"pad": PAD, "bos": BOS, "eos": EOS}


class Nothing:
    """The state of a model that looks at the last token only."""

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        pass


def random_table(vocabulary: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(vocabulary, vocabulary, generator=generator, dtype=torch.float64)


def best_output(
    table: Tensor, limit: int, alpha: float, min_len: int
) -> tuple[float, tuple[int, ...]]:
    """Of every sequence of tokens, the one with the best score."""
    log_probs = table.log_softmax(-1)
    words = range(EOS + 1, len(table))
    scored = []
    for length in range(min(min_len, limit), limit + 1):
        for output in itertools.product(words, repeat=length):
            steps = itertools.pairwise((BOS, *output, EOS))
            total = sum(log_probs[a, b].item() for a, b in steps)
            scored.append((total / ((5 + length + 1) / 6) ** alpha, output))
    return max(scored)


@quick
@given(
    vocabulary=st.integers(4, 6),
    seed=st.integers(0, 1000),
    limits=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    alpha=st.floats(0, 2),
    min_len=st.integers(0, 5),
)
def test_a_wide_beam_finds_the_best_of_all(
    vocabulary: int, seed: int, limits: list[int], alpha: float, min_len: int
) -> None:
    table = random_table(vocabulary, seed)
    found = beam_search(
        lambda last, state: table[last],
        Nothing(),
        batch=len(limits),
        beam=100,
        max_len=torch.tensor(limits),
        alpha=alpha,
        min_len=min_len,
        **RULES,
    )
    for (best,), limit in zip(found, limits, strict=True):
        score, _ = best_output(table, limit, alpha, min_len)
        assert best.score == pytest.approx(score, abs=1e-9)


@quick
@given(
    vocabulary=st.integers(4, 40),
    seed=st.integers(0, 1000),
    beam=st.integers(1, 12),
    limits=st.lists(st.integers(0, 12), max_size=5),
    alpha=st.floats(0, 2),
    min_len=st.integers(0, 12),
    data=st.data(),
)
def test_what_every_hypothesis_promises(
    vocabulary: int,
    seed: int,
    beam: int,
    limits: list[int],
    alpha: float,
    min_len: int,
    data: st.DataObject,
) -> None:
    table = random_table(vocabulary, seed)
    log_probs = table.log_softmax(-1)
    n_best = data.draw(st.integers(1, beam))
    options = {
        "batch": len(limits),
        "max_len": torch.tensor(limits, dtype=torch.int64),
        "alpha": alpha,
        "min_len": min_len,
        **RULES,
    }
    searched = beam_search(
        lambda last, state: table[last], Nothing(), beam=beam, n_best=n_best, **options
    )
    generators = [np.random.default_rng([seed, row]) for row in range(len(limits))]
    drawn = sample(
        lambda last, state: table[last], Nothing(), generators=generators, draws=beam, **options
    )
    assert len(searched) == len(drawn) == len(limits)
    for found, most in ((searched, n_best), (drawn, beam)):
        for hypotheses, limit in zip(found, limits, strict=True):
            assert 1 <= len(hypotheses) <= most
            scores = [hypothesis.score for hypothesis in hypotheses]
            assert scores == sorted(scores, reverse=True)
            for hypothesis in hypotheses:
                assert min(limit, min_len) <= len(hypothesis.tokens) <= limit
                assert hypothesis.hit_limit == (len(hypothesis.tokens) == limit)
                assert min(hypothesis.tokens, default=vocabulary) > EOS
                path = itertools.pairwise([BOS, *hypothesis.tokens, EOS])
                steps = [log_probs[a, b].item() for a, b in path]
                assert hypothesis.token_log_probs == pytest.approx(steps, abs=1e-9)
                penalty = ((5 + len(steps)) / 6) ** alpha
                assert hypothesis.score == pytest.approx(sum(steps) / penalty, abs=1e-9)
    for hypotheses in searched:
        assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == len(hypotheses)


@quick
@given(
    rows=st.integers(1, 4),
    length=st.integers(1, 5000),
    k=st.integers(1, 20),
    seed=st.integers(0, 1000),
    distinct=st.sampled_from([2, 50, 1 << 40]),
)
def test_top_k_equals_that_of_torch(
    rows: int, length: int, k: int, seed: int, distinct: int
) -> None:
    k = min(k, length)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(distinct, (rows, 2, length), generator=generator).double()
    values[values < distinct / 4] = -torch.inf
    best, columns = top_k(values, k)
    assert torch.equal(best, values.topk(k).values)
    assert torch.equal(values.gather(-1, columns), best)
    for row in columns.flatten(0, 1).tolist():
        assert len(set(row)) == k


@pytest.mark.parametrize("shape", [(1, 1, 5), (40, 5, 8000), (3, 1, 300_000)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_log_probabilities_are_normalised_and_of_their_own(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    logits = 10 * torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    before = logits.clone()
    found = log_probabilities(logits)
    exact = logits.double() - logits.double().logsumexp(-1, keepdim=True)
    assert torch.allclose(found.double(), exact, rtol=0, atol=1e-4)
    found.fill_(0)
    assert torch.equal(logits, before)


@quick
@given(lengths=st.lists(st.integers(1, 60)), budget=st.integers(0, 200))
def test_batches_hold_every_sentence_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    batches = plan_batches(lengths, budget)
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
    order = [lengths[i] for batch in batches for i in batch]
    assert order == sorted(lengths, reverse=True)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(0)
    alphabet = "abcdefghijklmnop ".join("ÀéЖ語ع")
    tokenizer = train_tokenizer(
        TokenizerConfig(kind=SubwordKind.char, vocab_size=400, byte_fallback=True),
        [alphabet],
        [alphabet],
    )
    config = ModelConfig(
        d_model=8,
        d_ff=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_heads=2,
        decoder_heads=2,
        source_vocab=tokenizer.source_vocab,
        target_vocab=tokenizer.target_vocab,
    )
    return Translator(
        Transformer(config), tokenizer, DecodeConfig(beam=2, max_len_a=0.0, max_len_b=5)
    )


@quick
@given(texts=st.lists(st.text(max_size=20), max_size=8), n_best=st.integers(1, 2))
def test_any_lines_give_as_many_lines(
    translator: Translator, texts: list[str], n_best: int
) -> None:
    found = translator.translate(texts, n_best=n_best)
    assert len(found) == len(texts)
    for text, translation in zip(texts, found, strict=True):
        for candidate in translation.n_best:
            assert "\n" not in candidate.text
            assert len(candidate.text.splitlines()) <= 1
        assert translation.text == translation.n_best[0].text
        if is_blank(text):
            assert translation.text == ""
            assert translation.score == 0.0
    assert [pair.target for pair in translator.score(texts, texts)] == texts


@pytest.mark.parametrize("length", [10, 6000])
def test_what_is_not_a_number_comes_first(length: int) -> None:
    values = torch.randn(3, length)
    values[1, length // 2] = torch.nan
    best, columns = top_k(values, 3)
    assert best.isnan().tolist() == [[False] * 3, [True, False, False], [False] * 3]
    assert columns[1, 0] == length // 2

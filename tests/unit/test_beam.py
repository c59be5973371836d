"""Beam search against enumeration, on models whose every conditional distribution is a table."""

from __future__ import annotations

import math
import zlib

import pytest
import torch
from torch import Tensor

from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.search import Hypotheses
from seq2seq.errors import UserError

PAD, UNK, BOS, EOS = range(4)
A, B, C = 4, 5, 6
EVERYTHING = 1000  # a beam with room for every prefix of the toy vocabularies

Prefix = tuple[int, ...]


class ToyState:
    """Remembers which tokens each hypothesis consists of, and knows nothing else.

    A search that reorders it wrongly gets the distributions of other prefixes.
    """

    def __init__(self, batch: int) -> None:
        self.sentences = list(range(batch))
        self.prefixes: list[list[Prefix]] = [[()] for _ in range(batch)]
        self.sizes: list[int] = []  # sentences of each step

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        assert len(sentences) == len(beams)
        self.prefixes = [
            [self.prefixes[s][k] for k in row]
            for s, row in zip(sentences.tolist(), beams.tolist(), strict=True)
        ]
        self.sentences = [self.sentences[s] for s in sentences.tolist()]


class ToyModel:
    """A different distribution after every prefix of every sentence."""

    def __init__(self, vocabulary: int = 7, seed: int = 0, spread: float = 2.0) -> None:
        self.vocabulary, self.seed, self.spread = vocabulary, seed, spread

    def logits(self, sentence: int, prefix: Prefix) -> Tensor:
        generator = torch.Generator().manual_seed(
            zlib.crc32(repr((self.seed, sentence, prefix)).encode())
        )
        return self.spread * torch.randn(self.vocabulary, generator=generator, dtype=torch.float64)

    def log_probs(self, sentence: int, prefix: Prefix) -> list[float]:
        return self.logits(sentence, prefix).log_softmax(-1).tolist()  # type: ignore[no-any-return]

    def step(self, last: Tensor, state: ToyState) -> Tensor:
        state.sizes.append(len(last))
        state.prefixes = [
            [(*prefix, token) for prefix, token in zip(row, tokens, strict=True)]
            for row, tokens in zip(state.prefixes, last.tolist(), strict=True)
        ]
        return torch.stack(
            [
                torch.stack([self.logits(sentence, prefix[1:]) for prefix in row])
                for sentence, row in zip(state.sentences, state.prefixes, strict=True)
            ]
        )

    def search(
        self, limits: list[int], sentences: list[int] | None = None, **options
    ) -> Hypotheses:
        state = ToyState(len(limits))
        state.sentences = sentences or state.sentences
        self.state = state
        settings = {"alpha": 0.0, "beam": EVERYTHING, "banned": (UNK,), **options}
        return beam_search(
            self.step,
            state,
            batch=len(limits),
            bos=BOS,
            eos=EOS,
            pad=PAD,
            max_len=torch.tensor(limits, dtype=torch.int64),
            **settings,
        )

    def enumerate(self, sentence: int, limit: int, alpha: float, min_len: int = 0):
        """(score, tokens, log-probabilities) of every output, best first."""
        found = []

        def visit(prefix: Prefix, past: list[float]) -> None:
            now = self.log_probs(sentence, prefix)
            if len(prefix) >= min(min_len, limit):
                steps = [*past, now[EOS]]
                penalty = ((5 + len(steps)) / 6) ** alpha
                found.append((sum(steps) / penalty, list(prefix), steps))
            if len(prefix) < limit:
                for token in set(range(self.vocabulary)) - {PAD, UNK, BOS, EOS}:
                    visit((*prefix, token), [*past, now[token]])

        visit((), [])
        return sorted(found, key=lambda output: -output[0])


class Table(ToyModel):
    """Probabilities written by hand: prefix → token → probability; the rest is impossible."""

    def __init__(self, table: dict[Prefix, dict[int, float]], vocabulary: int = 7) -> None:
        super().__init__(vocabulary)
        self.table = table

    def logits(self, sentence: int, prefix: Prefix) -> Tensor:
        logits = torch.full((self.vocabulary,), -torch.inf, dtype=torch.float64)
        for token, probability in self.table.get(prefix, {EOS: 1.0}).items():
            logits[token] = math.log(probability)
        return logits


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_all_outputs_in_the_order_of_enumeration(alpha: float, seed: int) -> None:
    model, limits = ToyModel(seed=seed), [4, 2, 0, 3]
    found = model.search(limits, alpha=alpha, n_best=EVERYTHING)
    for sentence, limit in enumerate(limits):
        expected = model.enumerate(sentence, limit, alpha)
        assert [h.tokens for h in found[sentence]] == [tokens for _, tokens, _ in expected]
        for hypothesis, (score, _, steps) in zip(found[sentence], expected, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-12)
            assert hypothesis.token_log_probs == pytest.approx(steps, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_loses_nothing(alpha: float, seed: int, n_best: int) -> None:
    model = ToyModel(vocabulary=6, seed=seed)
    found = model.search([6], alpha=alpha, n_best=n_best)[0]
    expected = model.enumerate(0, 6, alpha)[:n_best]
    assert [h.tokens for h in found] == [tokens for _, tokens, _ in expected]


def test_a_longer_output_that_is_better_is_waited_for() -> None:
    model = Table({(): {EOS: 0.5, A: 0.5}, (A,): {A: 1.0}, (A, A): {A: 1.0}})
    # log ½ / 1 when ended at once, log ½ / (9/6) after three tokens and the end
    (best,) = model.search([5], beam=2, alpha=1.0)[0]
    assert best.tokens == [A, A, A]
    assert best.score == pytest.approx(math.log(0.5) / 1.5, abs=1e-12)
    assert best.log_prob == pytest.approx(math.log(0.5), abs=1e-12)


def test_a_beam_finds_what_greedy_search_passes_by() -> None:
    model = Table({(): {A: 0.6, B: 0.4}, (A,): {A: 0.5, B: 0.5}, (B,): {B: 1.0}})
    assert model.search([5], beam=1)[0][0].tokens in ([A, A], [A, B])  # probability 0.3
    assert model.search([5], beam=2)[0][0].tokens == [B, B]  # 0.4


def test_an_unlikely_end_is_no_candidate() -> None:
    # The empty output (0.04) is likelier than any other (at most 0.24 · 0.16), but not among the 4
    # best extensions of the first step, so that a beam of 2 goes on, as people expect.
    second = {A: 0.1, B: 0.1, C: 0.1, 7: 0.1, 8: 0.1, 9: 0.1, 10: 0.1, 11: 0.16, 12: 0.14}
    table: dict[Prefix, dict[int, float]] = {(first,): second for first in (A, B, C, 7)}
    table[()] = {A: 0.24, B: 0.24, C: 0.24, 7: 0.24, EOS: 0.04}
    model = Table(table, vocabulary=13)
    assert model.search([5], beam=2)[0][0].tokens[1:] == [11]
    assert model.search([5])[0][0].tokens == []


def test_sentences_leave_when_nothing_better_can_come() -> None:
    sure = {A: 0.99, B: 0.005, EOS: 0.005}
    table: dict[Prefix, dict[int, float]] = {(A,) * n: sure for n in range(3)}
    table[A, A, A] = {EOS: 0.99, A: 0.005, B: 0.005}
    model = Table(table)
    found = model.search([50, 0, 50, 1], beam=3)
    assert [h[0].tokens for h in found] == [[A, A, A], [], [A, A, A], []]
    assert model.state.sizes == [4, 3, 2, 2]


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_as_long_as_allowed_are_marked(beam: int) -> None:
    model = Table({(A,) * n: {A: 1.0 - 1e-6, EOS: 1e-6} for n in range(6)})
    found = [hypotheses[0] for hypotheses in model.search([3, 20, 6, 0], beam=beam, alpha=1.0)]
    assert [h.tokens for h in found] == [[A] * 3, [A] * 6, [A] * 6, []]
    assert [h.hit_limit for h in found] == [True, False, True, True]
    assert found[0].token_log_probs[-1] == pytest.approx(math.log(1e-6))  # the forced end counts


@pytest.mark.parametrize("beam", [1, 3, EVERYTHING])
def test_a_batch_equals_its_sentences_alone(beam: int) -> None:
    model, limits = ToyModel(seed=5, spread=3.0), [5, 1, 4, 0, 5, 3, 2, 5, 5]
    options = {"beam": beam, "alpha": 0.6, "n_best": min(beam, 3)}
    together = model.search(limits, **options)
    for sentence, limit in enumerate(limits):
        (alone,) = model.search([limit], [sentence], **options)
        assert [h.tokens for h in together[sentence]] == [h.tokens for h in alone]
        for one, other in zip(together[sentence], alone, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-12)
            assert one.hit_limit == other.hit_limit


@pytest.mark.parametrize("beam", [2, 3, 5])
def test_reported_steps_are_those_of_the_reported_prefix(beam: int) -> None:
    model = ToyModel(seed=9)
    for sentence, hypotheses in enumerate(model.search([6] * 5, beam=beam, n_best=2, alpha=1.0)):
        assert len(hypotheses) == 2
        for hypothesis in hypotheses:
            steps = [
                model.log_probs(sentence, tuple(hypothesis.tokens[:t]))[token]
                for t, token in enumerate([*hypothesis.tokens, EOS])
            ]
            assert hypothesis.token_log_probs == pytest.approx(steps, abs=1e-12)
            penalty = (5 + len(steps)) / 6
            assert hypothesis.score == pytest.approx(sum(steps) / penalty, abs=1e-12)


@pytest.mark.parametrize("beam", [1, 4])
def test_wider_beams_than_one_prune_to_the_likeliest(beam: int) -> None:
    """A plain reimplementation with lists, for beams that do prune."""
    for seed in range(8):
        model = ToyModel(seed=seed, spread=1.5)
        (found,) = model.search([5], beam=beam, alpha=0.6)
        assert found[0].tokens == plain_beam_search(model, 5, beam, 0.6)


def plain_beam_search(model: ToyModel, limit: int, beam: int, alpha: float) -> list[int]:
    live: list[tuple[float, Prefix]] = [(0.0, ())]
    finished: list[tuple[float, Prefix]] = []
    for length in range(limit + 1):
        extensions = []
        for total, prefix in live:
            now = model.log_probs(0, prefix)
            allowed = {EOS} if length == limit else {EOS, A, B, C}
            extensions += [(total + now[token], (*prefix, token)) for token in allowed]
        extensions = sorted(extensions, reverse=True)[: 2 * beam]
        if beam == 1:  # greedy: an end that is likeliest ends the search
            extensions = extensions[:1]
        for total, prefix in extensions:
            if prefix[-1] == EOS:
                finished.append((total / ((5 + len(prefix)) / 6) ** alpha, prefix[:-1]))
        live = [(total, prefix) for total, prefix in extensions if prefix[-1] != EOS][:beam]
    return list(max(finished)[1])


def test_a_beam_of_one_takes_the_likeliest_token_each_time() -> None:
    model = ToyModel(seed=3)
    for sentence, hypotheses in enumerate(model.search([6] * 20, beam=1)):
        tokens: list[int] = []
        while len(tokens) < 6:
            now = model.log_probs(sentence, tuple(tokens))
            token = max((EOS, A, B, C), key=lambda t: now[t])
            if token == EOS:
                break
            tokens.append(token)
        assert [h.tokens for h in hypotheses] == [tokens]


def test_finished_sentences_leave_greedy_search_too() -> None:
    model = ToyModel(seed=6)
    model.search([5, 1, 5, 1, 5, 5, 3, 5], beam=1, min_len=9)
    # one of eight is worth the copying, so is one of five
    assert model.state.sizes == [8, 8, 6, 6, 5, 5]


def test_no_reordering_for_a_beam_of_one() -> None:
    class Untouched(ToyState):
        def select(self, sentences: Tensor, beams: Tensor) -> None:
            raise AssertionError

    model = ToyModel()
    (found,) = beam_search(
        model.step,
        Untouched(1),
        batch=1,
        beam=1,
        bos=BOS,
        eos=EOS,
        pad=PAD,
        max_len=torch.tensor([4]),
        alpha=0.0,
        min_len=4,
    )
    assert len(found[0].tokens) == 4


@pytest.mark.parametrize("beam", [1, 2, EVERYTHING])
@pytest.mark.parametrize("min_len", [2, 9])
def test_no_end_before_min_len_unless_the_limit_says_so(beam: int, min_len: int) -> None:
    model = ToyModel(seed=1)
    model.spread = 1.0
    free = model.search([4, 4, 1], beam=beam)
    assert min(len(h[0].tokens) for h in free[:2]) < 2
    found = model.search([4, 4, 1], beam=beam, min_len=min_len)
    for hypotheses, limit in zip(found, [4, 4, 1], strict=True):
        assert min(min_len, limit) <= len(hypotheses[0].tokens) <= limit
    if beam == EVERYTHING:
        best = model.enumerate(0, 4, 0.0, min_len)[0]
        assert found[0][0].tokens == best[1]


@pytest.mark.parametrize("beam", [1, 2, 50])
def test_control_and_banned_tokens_are_never_produced(beam: int) -> None:
    class Eager(ToyModel):
        def logits(self, sentence: int, prefix: Prefix) -> Tensor:
            logits = super().logits(sentence, prefix)
            logits[[PAD, UNK, BOS, B]] += 10.0
            return logits

    model = Eager(seed=2)
    for banned, allowed in (((UNK, B), {A, C}), ((), {UNK, A, B, C})):
        found = model.search([5] * 6, beam=beam, n_best=beam, banned=banned)
        produced = {token for hypotheses in found for h in hypotheses for token in h.tokens}
        assert produced <= allowed
        assert (UNK in produced) == (UNK in allowed)


@pytest.mark.parametrize("beam", [2, 10, 100])
def test_a_beam_larger_than_what_there_is(beam: int) -> None:
    model = ToyModel(vocabulary=5)  # one token besides the control tokens
    (found,) = model.search([3], beam=beam, n_best=beam)
    assert sorted(h.tokens for h in found) == [[], [A], [A, A], [A, A, A]][:beam] or beam == 2
    assert len(found) == min(beam, 4)
    assert all(h.score > -math.inf for h in found)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_impossible_is_not_returned(beam: int) -> None:
    model = Table({(): {A: 1.0}, (A,): {A: 1.0}, (A, A): {A: 1.0}})
    assert model.search([2, 3], beam=beam, n_best=beam) == [[], model.search([3], beam=beam)[0]]
    assert model.search([3], beam=beam)[0][0].tokens == [A, A, A]


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_that_are_not_numbers_are_refused(beam: int) -> None:
    class Damaged(ToyModel):
        def logits(self, sentence: int, prefix: Prefix) -> Tensor:
            logits = super().logits(sentence, prefix)
            return logits * torch.nan if sentence == 1 and len(prefix) == 1 else logits

    model = Damaged()
    model.search([3], [0], beam=beam, min_len=2)
    with pytest.raises(UserError, match="not numbers"):
        model.search([3, 3], beam=beam, min_len=2)


@pytest.mark.parametrize("beam", [1, 3])
def test_half_precision_logits_are_added_up_in_single(beam: int) -> None:
    class Half(ToyModel):
        def logits(self, sentence: int, prefix: Prefix) -> Tensor:
            return super().logits(sentence, prefix).bfloat16()

        def log_probs(self, sentence: int, prefix: Prefix) -> list[float]:
            return self.logits(sentence, prefix).double().log_softmax(-1).tolist()

    model = Half()
    (found,) = model.search([6], beam=beam, min_len=6)
    steps = [
        model.log_probs(0, tuple(found[0].tokens[:t]))[token]
        for t, token in enumerate([*found[0].tokens, EOS])
    ]
    assert found[0].token_log_probs == pytest.approx(steps, abs=2e-6)


@pytest.mark.parametrize("beam", [1, 4])
def test_no_sentence_no_output(beam: int) -> None:
    assert ToyModel().search([], beam=beam) == []


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        ([3], {"n_best": 3, "beam": 2}),
        ([3], {"n_best": 0}),
        ([3], {"alpha": -0.1}),
        ([-1], {}),
    ],
)
def test_numbers_out_of_range(limits: list[int], options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ToyModel().search(limits, **options)


def test_a_limit_for_every_sentence() -> None:
    model = ToyModel()
    with pytest.raises(ValueError, match="not for 2"):
        beam_search(
            model.step,
            ToyState(2),
            batch=2,
            beam=2,
            bos=BOS,
            eos=EOS,
            pad=PAD,
            max_len=torch.tensor([3]),
            alpha=0.0,
        )

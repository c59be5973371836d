"""Text to text with small untrained models, against the model's plain forward pass."""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_model
from torch import Tensor

from seq2seq.choices import SubwordKind
from seq2seq.config import BOS, EOS, PAD, UNK, DecodeConfig, ModelConfig, RunConfig, TokenizerConfig
from seq2seq.config_file import save_config
from seq2seq.data.batching import make_batch, pad
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.lines import plan_batches
from seq2seq.decoding.translator import Translation, Translator
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

LETTERS = "abcdefghij"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(
        TokenizerConfig(kind=SubwordKind.char, vocab_size=100),
        [LETTERS, f"{LETTERS[::-1]} {LETTERS}"],
        [LETTERS, LETTERS],
    )


def make_model(tokenizer: Tokenizer, seed: int = 0, updates: int = 100, **options) -> Transformer:
    """Half trained to copy: outputs differ from line to line, and nothing is certain."""
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2}
    vocabulary = {"source_vocab": tokenizer.source_vocab, "target_vocab": tokenizer.target_vocab}
    config = ModelConfig(
        **sizes, **vocabulary, encoder_heads=2, decoder_heads=2, tying="none", **options
    )
    model = Transformer(config)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for update in range(updates):
        ids = tokenizer.encode_source(some_lines(32, 12, seed=update))
        batch = make_batch(ids, ids)
        scores = model.log_probabilities(batch.source, batch.target_in, batch.target_out)
        optimiser.zero_grad()
        (-scores.sum() / batch.tokens).backward()
        optimiser.step()
    return model.eval()


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Transformer:
    return make_model(tokenizer)


@pytest.fixture(scope="module")
def translator(model: Transformer, tokenizer: Tokenizer) -> Translator:
    return Translator(model, tokenizer, DecodeConfig(beam=4, max_len_a=0.5, max_len_b=8))


def some_lines(count: int, longest: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    lengths = [1 + i * (longest - 1) // max(count - 1, 1) for i in range(count)]
    generator.shuffle(lengths)
    return ["".join(generator.choices(LETTERS, k=length)) for length in lengths]


def assert_same(one: Translation, other: Translation) -> None:
    assert one.tokens == other.tokens
    assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
    assert one.score == pytest.approx(other.score, abs=1e-4)
    assert [c.tokens for c in one.n_best] == [c.tokens for c in other.n_best]
    assert (one.cut, one.hit_limit) == (other.cut, other.hit_limit)


class Uncached:
    """The model as a step function that reads all of source and prefix anew at every step."""

    def __init__(self, model: Transformer, source: Tensor) -> None:
        self.model = model
        self.source = source
        self.prefixes = torch.empty(len(source), 1, 0, dtype=torch.int64)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self.source = self.source[sentences]
        self.prefixes = self.prefixes[sentences[:, None], beams]

    def step(self, last: Tensor, _state: Uncached) -> Tensor:
        self.prefixes = torch.cat((self.prefixes, last[..., None]), -1)
        width = last.shape[1]
        logits = self.model(self.source.repeat_interleave(width, 0), self.prefixes.flatten(0, 1))
        return logits[:, -1].unflatten(0, last.shape)


@pytest.mark.parametrize("options", [{}, {"positions": "learned", "norm": "pre"}])
def test_cached_search_equals_search_over_the_full_forward_pass(
    model: Transformer, tokenizer: Tokenizer, options: dict[str, str]
) -> None:
    model = copy.deepcopy(model) if not options else make_model(tokenizer, **options)
    model.double()
    source = pad([[*ids, EOS] for ids in tokenizer.encode_source(some_lines(12, 12))])
    limits = torch.arange(2, 14)
    settings = {"batch": 12, "bos": BOS, "eos": EOS, "pad": PAD, "max_len": limits, "alpha": 0.6}
    for beam in (1, 4):
        plain = Uncached(model, source)
        with torch.inference_mode():
            expected = beam_search(plain.step, plain, beam=beam, n_best=beam, **settings)
            state = model.start(source, beam=beam, max_len=14)
            found = beam_search(model.step, state, beam=beam, n_best=beam, **settings)
        assert len({tuple(h[0].tokens) for h in found}) > 6  # outputs depend on the source
        for one, other in zip(found, expected, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            for mine, theirs in zip(one, other, strict=True):
                assert mine.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-10)


@pytest.mark.parametrize("beam", [1, 4])
def test_results_do_not_depend_on_batches(translator: Translator, beam: int) -> None:
    lines = some_lines(40, 60)
    options = {"beam": beam, "n_best": min(beam, 2)}
    alone = [translator.translate([line], **options)[0] for line in lines]
    assert len({t.text for t in alone}) > 10
    order = random.Random(1).sample(range(40), 40)
    for batch_tokens in (1, 7 * 61 * beam, 40 * 61 * beam):
        together = translator.translate(lines, batch_tokens=batch_tokens, **options)
        shuffled = translator.translate([lines[i] for i in order], **options)
        for i in range(40):
            assert_same(together[i], alone[i])
            assert_same(shuffled[i], alone[order[i]])


BLANK = ["", " ", "\t", "\u00a0", "\u200b", " \u3000 \ufeff", "\n"]


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_as_many_results_as_lines_in_their_order(translator: Translator, search: str) -> None:
    words = some_lines(10, 12)
    lines = [BLANK[0], *words[:5], *BLANK[1:], *words[5:], ""]
    found = translator.translate(lines, n_best=3, search=search)
    assert len(found) == len(lines)
    for line, translation in zip(lines, found, strict=True):
        if line in BLANK:
            assert translation == Translation(
                "", 0.0, [], [], False, n_best=translation.n_best, cut=False
            )
            assert [c.text for c in translation.n_best] == [""]
        else:
            assert len(translation.n_best) == 3
            assert translation.tokens[-1] == "</s>"
            assert len(translation.tokens) == len(translation.token_scores)
    if search == "beam":
        one_by_one = [translator.translate([line], n_best=3)[0] for line in lines]
        for one, other in zip(found, one_by_one, strict=True):
            assert_same(one, other)
    assert translator.translate([]) == []


def test_results_are_plain_data(translator: Translator) -> None:
    facts = asdict(translator.translate(["abc"], n_best=2)[0])
    assert list(facts) == [
        "text", "score", "tokens", "token_scores", "hit_limit", "n_best", "cut",
    ]  # fmt: skip
    assert facts["n_best"][0] == {k: facts[k] for k in list(facts)[:5]}


def test_the_text_is_that_of_the_tokens(translator: Translator) -> None:
    for translation in translator.translate(some_lines(5, 9), n_best=4):
        for candidate in translation.n_best:
            text = "".join(candidate.tokens[:-1]).replace("▁", " ").strip()
            assert candidate.text.strip() == text
            penalty = (5 + len(candidate.tokens)) / 6
            assert candidate.score == pytest.approx(sum(candidate.token_scores) / penalty)


def test_n_best_is_sorted_and_every_text_comes_once(translator: Translator) -> None:
    for translation in translator.translate(some_lines(10, 9), beam=6, n_best=4):
        scores = [candidate.score for candidate in translation.n_best]
        assert scores == sorted(scores, reverse=True)
        texts = [candidate.text for candidate in translation.n_best]
        assert len(set(texts)) == len(texts) <= 4
        assert translation.text == texts[0]


def test_texts_that_come_in_several_splits_come_once(
    model: Transformer, tokenizer: Tokenizer
) -> None:
    alike = str.maketrans("bcde", "aaaa")

    class Joining(Tokenizer):
        def decode_target(self, ids: list[int]) -> str:
            return super().decode_target(ids).translate(alike)

    joining = Translator(model, Joining(*tokenizer.models, tokenizer.normalization))
    plain = Translator(model, tokenizer)
    lines = some_lines(20, 5)
    replaced = 0
    for one, other in zip(
        joining.translate(lines, beam=8, n_best=3),
        plain.translate(lines, beam=8, n_best=8),
        strict=True,
    ):
        texts = [candidate.text.translate(alike) for candidate in other.n_best]
        assert [c.text for c in one.n_best] == list(dict.fromkeys(texts))[:3]
        for candidate in one.n_best:  # the best of those that read the same
            assert candidate.tokens == other.n_best[texts.index(candidate.text)].tokens
        replaced += len(set(texts[:3])) < len(one.n_best)
    assert replaced  # where the first three repeat each other, others take their places


def test_a_source_that_is_too_long_is_cut_with_a_warning(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["abc", "abcde" * 100, "", "j" * 11, "a" * 9]
    with caplog.at_level(logging.WARNING):
        found = translator.translate(lines, max_source=10)
    assert [t.cut for t in found] == [False, True, False, True, False]
    assert [m.split(":")[0] for m in caplog.messages] == ["Line 2", "Line 4"]
    first_ten = translator.tokenizer.encode_source([lines[1]])[0][:10]
    shortened = "".join(translator.tokenizer.source_pieces(first_ten)).replace("▁", "")
    assert_same(
        Translation(**{**vars(found[1]), "cut": False}), translator.translate([shortened])[0]
    )


def test_learned_positions_limit_both_sides(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    model = make_model(tokenizer, updates=0, positions="learned", max_positions=64)
    translator = Translator(model, tokenizer, DecodeConfig(beam=2, min_len=1000))
    lines = ["abc", "a" * 61, "a" * 62, "a" * 63, "a" * 65, "a" * 2000, "abc"]
    found = translator.translate(lines)  # pieces: a word mark and the letters
    assert [t.cut for t in found] == [False, False, False, True, True, True, False]
    assert [m.split(":")[0] for m in caplog.messages] == ["Line 4", "Line 5", "Line 6"]
    # Begin of sentence and 63 pieces fill the table, where 2 · 62 + 50 were allowed.
    assert [len(t.tokens) - 1 for t in found] == [2 * 4 + 50, *[63] * 5, 2 * 4 + 50]
    assert all(t.hit_limit for t in found)
    scored = translator.score(["a" * 70, "a"], ["b", "b" * 70])
    assert [s.cut for s in scored] == [True, True]
    assert len(scored[1].tokens) == 64


def test_the_limit_of_a_sentence_is_its_own(translator: Translator) -> None:
    options = {"max_len_a": 1.5, "max_len_b": 2, "min_len": 1000, "beam": 2}
    lines = ["a", "a" * 40, "abc"]  # 2, 41 and 4 pieces
    found = translator.translate(lines, **options)
    assert [len(t.tokens) - 1 for t in found] == [5, 63, 8]
    assert all(t.hit_limit for t in found)
    assert translator.translate(lines[:1], **options)[0].tokens == found[0].tokens
    assert translator.translate(["a"], max_len_a=0.0, max_len_b=0)[0].tokens == ["</s>"]


@pytest.mark.parametrize(
    ("base", "options"),
    [
        ({"beam": 1}, {"beam": 5}),
        ({"alpha": 0.0}, {"alpha": 5.0}),
        ({"n_best": 1}, {"n_best": 3}),
        ({"min_len": 1000}, {"min_len": 1000, "max_len_a": 1.0}),
        ({"min_len": 1000}, {"min_len": 1000, "max_len_b": 9}),
        ({"min_len": 0}, {"min_len": 7}),
        ({"max_source": 100}, {"max_source": 3}),
        ({}, {"search": "sample"}),
        ({"search": "sample"}, {"search": "sample", "temperature": 0.1}),
        ({"search": "sample"}, {"search": "sample", "top_k": 2}),
        ({"search": "sample"}, {"search": "sample", "top_p": 0.3}),
        ({"search": "sample"}, {"search": "sample", "seed": 2}),
        ({"search": "sample"}, {"search": "sample", "n_best": 4}),
    ],
)
def test_every_option_has_an_effect(
    translator: Translator, base: dict[str, float], options: dict[str, float]
) -> None:
    lines = some_lines(12, 9)
    assert translator.translate(lines, **base) == translator.translate(lines, **base)
    assert translator.translate(lines, **base) != translator.translate(lines, **options)


def test_cold_sampling_is_greedy_search(translator: Translator) -> None:
    lines = some_lines(12, 9)
    greedy = translator.translate(lines, beam=1)
    for options in ({"temperature": 0.0}, {"top_k": 1}, {"temperature": 1e-4}):
        for one, other in zip(
            translator.translate(lines, search="sample", **options), greedy, strict=True
        ):
            assert_same(one, other)


def test_samples_depend_on_seed_and_line_alone(translator: Translator) -> None:
    lines = [*some_lines(10, 12), "abc", "abc", "abc"]
    options = {"search": "sample", "n_best": 2}
    found = translator.translate(lines, **options)
    small = translator.translate(lines, batch_tokens=1, **options)
    for one, other in zip(found, small, strict=True):
        assert_same(one, other)
    assert len({t.text for t in found[-3:]}) > 1  # equal lines are drawn separately
    negative = translator.translate(lines, seed=-1, **options)
    assert negative != found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beem": 3}, "did you mean decode.beam"),
        ({"n_best": 5, "beam": 4}, "decode.n_best=5"),
        ({"beam": 0}, "decode.beam"),
        ({"beam": 2.5}, "decode.beam"),
        ({"search": "bean"}, "beam, sample"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_wrong_options_are_refused(
    translator: Translator, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        translator.translate(["abc"], **options)
    with pytest.raises(UserError, match=message):
        translator.translate_stream(["abc"], **options)
    with pytest.raises(UserError, match=message):
        translator.score(["abc"], ["abc"], **options)


def test_one_string_is_not_taken_for_a_list_of_lines(translator: Translator) -> None:
    for call in (
        lambda: translator.translate("abc"),
        lambda: translator.score("abc", ["a", "b", "c"]),
        lambda: translator.score(["a", "b", "c"], "abc"),
    ):
        with pytest.raises(UserError, match="'abc' is one line"):
            call()


def test_a_chunk_holds_a_line_at_least(translator: Translator) -> None:
    with pytest.raises(UserError, match="chunk is 0"):
        translator.translate_stream(["abc"], chunk=0)


@pytest.mark.parametrize("search", ["beam", "sample"])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_a_stream_gives_the_same_as_a_list(
    translator: Translator, search: str, chunk: int, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [*some_lines(9, 12), "", "a" * 30]
    expected = translator.translate(lines, search=search, max_source=20)
    caplog.clear()
    found = list(
        translator.translate_stream(iter(lines), chunk=chunk, search=search, max_source=20)
    )
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)
    assert [m.split(":")[0] for m in caplog.messages] == ["Line 11"]


def test_a_stream_reads_no_further_than_it_must(translator: Translator) -> None:
    read = []

    def lines() -> Iterator[str]:
        for line in some_lines(20, 5):
            read.append(line)
            yield line

    stream = translator.translate_stream(lines(), chunk=3)
    next(stream)
    assert len(read) == 3
    next(stream)
    assert len(read) == 3


def test_progress_ends_at_the_number_of_lines(translator: Translator) -> None:
    told: list[tuple[int, int]] = []
    translator.translate(
        ["", *some_lines(9, 9)],
        batch_tokens=100,
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == (10, 10)
    assert {total for _, total in told} == {10}


def test_dropout_is_off_and_the_mode_is_as_before(translator: Translator) -> None:
    lines = some_lines(5, 9)
    expected, scores = translator.translate(lines), translator.score(lines, lines)
    translator.model.train()
    try:
        assert translator.translate(lines) == expected
        assert translator.score(lines, lines) == scores
        assert translator.model.training
        for module in translator.model.modules():
            assert module.training
    finally:
        translator.model.eval()
    translator.translate(lines)
    assert not translator.model.training


def test_from_a_run_folder(translator: Translator, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = RunConfig(
        model=translator.model.config,
        tokenizer=TokenizerConfig(kind=SubwordKind.char),
        decode=DecodeConfig(beam=2, n_best=2),
    )
    save_config(config, tmp_path / "config.json")
    tokenizer.save(tmp_path)
    (tmp_path / "step-7").mkdir()
    save_model(translator.model, str(tmp_path / "step-7" / "model.safetensors"))
    for name in ("best", "last"):
        (tmp_path / f"{name}.json").write_text('{"step": 7}', encoding="utf-8")
    loaded = Translator.from_pretrained(tmp_path, device="cpu")
    assert loaded.config == config.decode
    lines = some_lines(5, 12)
    expected = translator.translate(lines, **asdict(config.decode))
    assert Translator.from_pretrained(str(tmp_path), "cpu", "last").translate(lines) == expected
    with pytest.raises(UserError, match="step-7"):
        Translator.from_pretrained(tmp_path, checkpoint="step-8")


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_unknown_is_never_written(tokenizer: Tokenizer, search: str) -> None:
    model = make_model(tokenizer, updates=0)
    lines = [*some_lines(20, 9), "語 q"]
    with torch.no_grad():
        source = torch.tensor([[*tokenizer.encode_source(lines[:1])[0], EOS]])
        x, _, _ = model.decoder(model.target_embedding(torch.tensor([[BOS]])), model.encode(source))
        model.output.weight[[PAD, UNK, BOS]] = x[0, 0]  # the direction of what follows the start
        assert model(source, torch.tensor([[BOS]])).argmax() in (PAD, UNK, BOS)
    for translation in Translator(model, tokenizer).translate(lines, search=search):
        assert not {"<unk>", "<pad>", "<s>"} & set(translation.tokens)


def test_a_model_that_diverged_is_refused(tokenizer: Tokenizer) -> None:
    model = make_model(tokenizer, updates=0)
    with torch.no_grad():
        model.output.weight[5] = torch.nan
    for options in ({}, {"beam": 1}, {"search": "sample"}):
        with pytest.raises(UserError, match="not numbers"):
            Translator(model, tokenizer).translate(["abc"], **options)


def test_scores_of_pairs_are_those_of_the_forward_pass(translator: Translator) -> None:
    tokenizer, model = translator.tokenizer, translator.model
    sources = [*some_lines(8, 12), "", "\u00a0", "abc"]
    targets = [*some_lines(8, 15, seed=1), "abc", " \u200b", ""]
    for batch_tokens in (1, 40, 4096):
        found = translator.score(sources, targets, batch_tokens=batch_tokens)
        assert [(s.source, s.target) for s in found] == list(zip(sources, targets, strict=True))
        for pair in found:
            source = tokenizer.encode_source([pair.source.strip("\u00a0\u200b ")])[0]
            target = tokenizer.encode_target([pair.target.strip("\u00a0\u200b ")])[0]
            with torch.no_grad():
                logits = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))
            steps = logits[0].double().log_softmax(-1)
            expected = [steps[t, token].item() for t, token in enumerate([*target, EOS])]
            assert pair.token_scores == pytest.approx(expected, abs=1e-4)
            assert pair.score == pytest.approx(sum(expected), abs=1e-4)
            assert pair.tokens == [*tokenizer.target_pieces(target), "</s>"]
            assert not pair.cut
    assert translator.score([], []) == []


def test_a_translation_scores_as_it_did_when_it_was_found(translator: Translator) -> None:
    lines = some_lines(30, 12)
    found = translator.translate(lines)
    scored = translator.score(lines, [translation.text for translation in found])
    compared = 0
    for translation, pair in zip(found, scored, strict=True):
        if translation.tokens == pair.tokens:  # the text may also be split otherwise
            assert pair.token_scores == pytest.approx(translation.token_scores, abs=1e-4)
            compared += 1
    assert compared > 5


def test_as_many_targets_as_sources(translator: Translator) -> None:
    with pytest.raises(UserError, match="2 sources but 1 target"):
        translator.score(["a", "b"], ["a"])


def test_batches_are_filled_longest_first() -> None:
    assert plan_batches([3, 1, 9, 3, 2], budget=6) == [[2], [0, 3], [4, 1]]
    assert plan_batches([], budget=6) == []
    assert plan_batches([5, 7], budget=0) == [[1], [0]]


def test_batches_side_by_side_give_what_one_after_the_other_give(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, lines = make_model(tokenizer), some_lines(40, 9)
    translator = Translator(model.double(), tokenizer)
    alone = translator.translate(lines, beam=3, n_best=2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)  # and so three workers
    model.train()
    together = translator.translate(lines, beam=3, n_best=2)
    assert model.training  # put back, though three worked with it
    assert [[c.text for c in t.n_best] for t in together] == [
        [c.text for c in t.n_best] for t in alone
    ]
    for a, b in zip(alone, together, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-10)


def test_half_precision_is_close_and_scores_are_whole(tokenizer: Tokenizer) -> None:
    exact, rounded = make_model(tokenizer), make_model(tokenizer).bfloat16()
    lines = some_lines(20, 9)
    wanted = Translator(exact, tokenizer).translate(lines, beam=1)
    found = Translator(rounded, tokenizer).translate(lines, beam=1)
    same = [a.text == b.text for a, b in zip(wanted, found, strict=True)]
    assert sum(same) >= 15  # near ties fall either way
    for a, b, equal in zip(wanted, found, same, strict=True):
        if equal:
            assert a.score == pytest.approx(b.score, abs=0.05)

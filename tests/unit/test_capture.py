from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from attention_samples import SENTENCES, FakeTranslation, make_model, make_tokenizer
from torch import Tensor

from seq2seq.analysis.capture import capture, capture_each
from seq2seq.attention_maps import KINDS, AttentionError
from seq2seq.choices import Norm, Positions
from seq2seq.config import BOS, EOS, PAD
from seq2seq.decoding.beam import beam_search
from seq2seq.errors import UserError
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.cache import DecoderState

SOURCES = [source for source, _ in SENTENCES]
TARGETS = [target for _, target in SENTENCES]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.fixture
def model(tokenizer):
    torch.set_num_threads(1)
    return make_model(tokenizer)


def largest_difference(a, b) -> float:
    pairs = ((x, y) for kind in KINDS for x, y in zip(a.layers(kind), b.layers(kind), strict=True))
    return max(float(np.abs(x - y).max()) for x, y in pairs)


def same_bits(a, b) -> bool:
    return a.to_bytes() == b.to_bytes()


def test_labels_follow_the_decoder(model, tokenizer) -> None:
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    pieces = tokenizer.target_pieces(tokenizer.encode_target([TARGETS[0]])[0])
    assert maps.tgt_in == ["<s>", *pieces]
    assert maps.tgt_out == [*pieces, "</s>"]
    assert maps.src == [*tokenizer.source_pieces(tokenizer.encode_source([SOURCES[0]])[0]), "</s>"]
    assert [len(w) for w in maps.enc] == [4, 4]
    assert [len(w) for w in maps.dec] == [len(w) for w in maps.cross] == [2, 2, 2]
    assert maps.special["src"].tolist() == [False] * (len(maps.src) - 1) + [True]
    assert maps.text == {"source": SOURCES[0], "target": TARGETS[0]}
    for kind in KINDS:
        for weights in maps.layers(kind):
            assert np.abs(weights.sum(-1) - 1).max() < 1e-9


def test_rows_belong_to_the_query_that_is_read(model, tokenizer) -> None:
    # Changing the last token read changes the last row only, in every layer of both kinds.
    ids = tokenizer.encode_target([TARGETS[0]])[0]
    other = [*ids[:-1], ids[0]]
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    a, b = (
        model.attention_weights(source, torch.tensor([[BOS, *target]])) for target in (ids, other)
    )
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    for x, y, recorded in zip(a.cross, b.cross, maps.cross, strict=True):
        assert torch.equal(x[0, :, :-1], y[0, :, :-1])
        assert not torch.allclose(x[0, :, -1], y[0, :, -1])
        assert np.array_equal(x[0].detach().numpy(), recorded)


def test_logprob_is_that_of_the_predicted_token(model, tokenizer) -> None:
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    ids = tokenizer.encode_target([TARGETS[0]])[0]
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    for t, wanted in enumerate([*ids, EOS]):  # one prefix after the other, without teacher forcing
        logits = model(source, torch.tensor([[BOS, *ids[:t]]]))[0, -1].detach()
        expected = float(logits[wanted] - torch.logsumexp(logits, 0))
        assert maps.logprob[t] == pytest.approx(expected, abs=1e-9)


def test_a_batch_gives_what_single_sentences_give(model, tokenizer) -> None:
    batched = capture(model, tokenizer, SOURCES, TARGETS)
    assert len({len(maps.src) for maps in batched}) > 1  # there is padding to crop
    for maps, source, target in zip(batched, SOURCES, TARGETS, strict=True):
        (single,) = capture(model, tokenizer, source, target)
        assert single.src == maps.src
        assert single.tgt_out == maps.tgt_out
        assert largest_difference(single, maps) < 1e-12
        assert np.abs(single.logprob - maps.logprob).max() < 1e-9


@pytest.mark.parametrize("norm", [Norm.post, Norm.pre])
def test_step_by_step_decoding_saw_the_same_rows(model, tokenizer, norm, monkeypatch) -> None:
    """Row t, captured while the cache grows, equals row t of the forced pass (all heads)."""
    model = make_model(tokenizer, norm=norm)
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    seen: dict[int, list[np.ndarray]] = {}
    forward = MultiHeadAttention.forward

    def spy(self, x, kv, **options):
        out, _ = forward(self, x, kv, **options)
        _, weights = forward(self, x, kv, **{**options, "need_weights": True})
        seen.setdefault(id(self), []).append(weights[0, :, 0].detach().numpy())
        return out, None

    ids = tokenizer.encode_target([TARGETS[0]])[0]
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    with torch.no_grad():
        state = model.start(source, beam=1, max_len=len(ids) + 1)
        monkeypatch.setattr(MultiHeadAttention, "forward", spy)
        for token in [BOS, *ids]:
            model.step(torch.tensor([[token]]), state)
    recorded = list(seen.values())  # own and cross attention of each layer, in the order called
    for layer in range(3):
        own, cross = recorded[2 * layer], recorded[2 * layer + 1]
        for t in range(len(ids) + 1):
            assert own[t].shape == (2, t + 1)
            assert np.abs(own[t] - maps.dec[layer][:, t, : t + 1]).max() < 1e-12
            assert np.abs(cross[t] - maps.cross[layer][:, t]).max() < 1e-12


def test_rows_of_beam_search_follow_its_back_pointers(model, tokenizer, monkeypatch) -> None:
    """What each beam's heads saw, reordered as the search reorders beams, is the record's rows."""
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    forward, select = MultiHeadAttention.forward, DecoderState.select
    newest: list[Tensor] = []  # weights of one step: own and cross of each layer
    paths: list[list[int]] = [[]]  # the tokens that each beam has read
    rows: list[list[list[Tensor]]] = [[]]  # and what its heads saw at each of them
    passed: dict[tuple[int, ...], list[list[Tensor]]] = {}
    reordered = []

    def spy(self, x, kv, **options):
        out, weights = forward(self, x, kv, **{**options, "need_weights": True})
        # Own attention has beams as sentences, cross-attention has them as queries.
        newest.append(weights[:, :, 0] if len(weights) > 1 else weights[0].transpose(0, 1))
        return out, None

    def step(last, state):
        newest.clear()
        logits = model.step(last, state)
        for beam, token in enumerate(last[0].tolist()):
            paths[beam] = [*paths[beam], token]
            rows[beam] = [*rows[beam], [weights[beam] for weights in newest]]
            passed[tuple(paths[beam])] = rows[beam]
        return logits

    def follow(self, sentences, beams):
        select(self, sentences, beams)
        chosen = beams[0].tolist()
        reordered.append(chosen != list(range(len(paths))))
        paths[:], rows[:] = [paths[b] for b in chosen], [rows[b] for b in chosen]

    with torch.no_grad():
        state = model.start(source, beam=3, max_len=7)
        monkeypatch.setattr(MultiHeadAttention, "forward", spy)
        monkeypatch.setattr(DecoderState, "select", follow)
        ends = {"bos": BOS, "eos": EOS, "pad": PAD, "alpha": 0.6, "max_len": torch.tensor([7])}
        (found,) = beam_search(step, state, batch=1, beam=3, n_best=3, min_len=4, **ends)
        monkeypatch.undo()
    assert sum(reordered) > 2
    for hypothesis in found:
        tokens = [token for token in hypothesis.tokens if token != EOS]
        pieces = FakeTranslation("", tokenizer.target_pieces(hypothesis.tokens))
        (maps,) = capture(model, tokenizer, SOURCES[0], translate=lambda _, t=pieces: [t])
        for t in range(len(maps.tgt_out)):  # one that was cut has no row that reads its last piece
            seen = passed[(BOS, *tokens)][t]
            for layer in range(3):
                own, cross = seen[2 * layer], seen[2 * layer + 1]
                assert np.abs(own.numpy() - maps.dec[layer][:, t, : t + 1]).max() < 1e-12
                assert np.abs(cross.numpy() - maps.cross[layer][:, t]).max() < 1e-12


def test_module_output_is_rebuilt_from_the_record(model, tokenizer, monkeypatch) -> None:
    """α·V·W_O + b_O from recorded weights is what the module gave on its everyday path."""
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    calls = []
    forward = MultiHeadAttention.forward

    def spy(self, x, kv, **options):
        out, weights = forward(self, x, kv, **options)
        calls.append((self, kv.value, out))
        return out, weights

    monkeypatch.setattr(MultiHeadAttention, "forward", spy)
    ids = tokenizer.encode_target([TARGETS[0]])[0]
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    with torch.no_grad():
        model(source, torch.tensor([[BOS, *ids]]))
    pairs = zip(maps.dec, maps.cross, strict=True)
    recorded = [*maps.enc, *itertools.chain.from_iterable(pairs)]
    assert len(calls) == len(recorded) == 8
    for weights, (module, value, out) in zip(recorded, calls, strict=True):
        heads = torch.einsum("hqk,hkd->qhd", torch.tensor(weights), value[0])
        rebuilt = heads.flatten(1) @ module.w_o.weight.T + module.w_o.bias
        assert torch.allclose(rebuilt, out[0], atol=1e-12)


def test_dropout_and_training_mode_change_nothing(tokenizer) -> None:
    model = make_model(tokenizer, dropout=0.5, attention_dropout=0.5, embedding_dropout=0.5)
    (calm,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    model.train()
    model.decoder.layers[1].eval()  # a part that was frozen must stay frozen
    before = [module.training for module in model.modules()]
    random_state = torch.get_rng_state()
    first, second = (capture(model, tokenizer, SOURCES[0], TARGETS[0])[0] for _ in range(2))
    assert same_bits(first, second)
    assert same_bits(first, calm)
    assert [module.training for module in model.modules()] == before
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_model_comes_back_after_an_error_too(tokenizer, monkeypatch) -> None:
    model = make_model(tokenizer).train()

    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model, "attention_weights", fail)
    with pytest.raises(RuntimeError):
        capture(model, tokenizer, SOURCES[0], TARGETS[0])
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


def test_an_abandoned_stream_leaves_the_model_alone(tokenizer) -> None:
    model = make_model(tokenizer).train()
    stream = capture_each(model, tokenizer, SOURCES * 5, TARGETS * 5)
    next(stream)
    assert model.training


def test_the_everyday_path_gives_the_same_logits(model, tokenizer) -> None:
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    target_in = torch.tensor([[BOS, *tokenizer.encode_target([TARGETS[0]])[0]]])
    with torch.no_grad():
        logits = model(source, target_in)
        looked = model.attention_weights(source, target_in).logits
    assert torch.allclose(logits, looked, atol=1e-12)


def test_heads_are_heads_and_not_their_mean(model, tokenizer) -> None:
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    for kind in KINDS:
        for weights in maps.layers(kind):
            mean = weights.mean(0)
            for a, b in itertools.combinations(weights, 2):
                assert np.abs(a - b).max() > 1e-3
            assert all(np.abs(mean - head).max() > 1e-3 for head in weights)


def test_sixteen_bits_are_recorded_with_their_tolerance(tokenizer) -> None:
    model = make_model(tokenizer).bfloat16()
    (maps,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    assert maps.enc[0].dtype == np.float32
    assert maps.meta["precision"] == "bfloat16"
    assert maps.meta["tolerance"] == 1e-2


def test_float32_is_kept_as_float32(tokenizer) -> None:
    (maps,) = capture(make_model(tokenizer).float(), tokenizer, SOURCES[0], TARGETS[0])
    assert maps.cross[0].dtype == np.float32
    assert maps.meta["tolerance"] == 1e-5


def test_selection_of_kinds_layers_and_heads(model, tokenizer) -> None:
    (whole,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    (part,) = capture(
        model, tokenizer, SOURCES[0], TARGETS[0], kinds=["cross"], layers=[2], heads=[1]
    )
    assert part.enc == []
    assert part.layer_ids["cross"] == [2]
    assert np.array_equal(part.head("cross", 2, 1), whole.cross[2][1])
    with pytest.raises(AttentionError, match="the record holds 0, 1, 2"):
        capture(model, tokenizer, SOURCES[0], TARGETS[0], layers=[7])


def test_without_target_the_search_result_is_used_piece_by_piece(model, tokenizer) -> None:
    ids = tokenizer.encode_target([TARGETS[1]])[0]
    spelled = [i for c in "Die" for i in tokenizer.encode_target([c])[0][-1:]]  # unusual pieces
    tokens = tokenizer.target_pieces([*spelled, *ids, EOS])

    def translate(texts):
        assert texts == [SOURCES[1]]
        return [FakeTranslation("text", tokens)]

    (maps,) = capture(model, tokenizer, SOURCES[1], translate=translate)
    assert maps.tgt_out == tokens
    assert maps.text["target"] == "text"
    assert maps.meta["how"] == "decoded"
    assert maps.special["tgt_out"].sum() == 1


def test_each_step_notes_what_else_was_probable(model, tokenizer) -> None:
    """Against the logits themselves, in a batch with a longer sentence."""
    sources, targets = [SOURCES[1], SOURCES[0]], [TARGETS[1], TARGETS[0]]
    maps = capture(model, tokenizer, sources, targets)[0]
    source = [*tokenizer.encode_source(sources[:1])[0], EOS]
    target = [BOS, *tokenizer.encode_target(targets[:1])[0]]
    with torch.no_grad():
        logs = model(torch.tensor([source]), torch.tensor([target]))[0].log_softmax(-1)
    assert len(maps.meta["alternatives"]) == len(maps.tgt_out) == len(logs)
    for step, row in zip(maps.meta["alternatives"], logs, strict=True):
        best = row.sort(descending=True)
        assert [piece for piece, _ in step] == tokenizer.target_pieces(best.indices[:5].tolist())
        assert [log for _, log in step] == pytest.approx(best.values[:5].tolist(), abs=1e-4)


def test_a_hypothesis_cut_at_the_limit_has_no_end_row(model, tokenizer) -> None:
    pieces = tokenizer.target_pieces(tokenizer.encode_target([TARGETS[1]])[0])

    def translate(texts):
        return [FakeTranslation("", [*pieces, "</s>"], hit_limit=True) for _ in texts]

    (maps,) = capture(model, tokenizer, SOURCES[1], translate=translate)
    assert maps.tgt_out == pieces
    assert maps.tgt_in == ["<s>", *pieces[:-1]]
    assert not maps.special["tgt_out"].any()
    assert maps.dec[0].shape == (2, len(pieces), len(pieces))


def test_a_blank_line_is_an_end_of_sentence(model, tokenizer) -> None:
    translate = lambda texts: [FakeTranslation("", []) for _ in texts]  # noqa: E731
    (maps,) = capture(model, tokenizer, " \u200b", translate=translate)
    assert (maps.src, maps.tgt_in, maps.tgt_out) == (["</s>"], ["<s>"], ["</s>"])
    assert maps.cross[0].tolist() == [[[1.0]], [[1.0]]]


def test_text_that_looks_like_a_control_token_is_text(model, tokenizer) -> None:
    (maps,) = capture(model, tokenizer, "use </s> to end", "</s> <s>")
    assert maps.special["src"].sum() == 1
    assert maps.special["src"][-1]
    assert maps.special["tgt_out"].sum() == maps.special["tgt_in"].sum() == 1


def test_many_sentences_are_read_as_they_are_needed(model, tokenizer) -> None:
    read = []

    def sources():
        for i in range(1000):
            read.append(i)
            yield SOURCES[i % 3]

    stream = capture_each(model, tokenizer, sources(), itertools.cycle([TARGETS[0]]))
    for _ in range(20):
        next(stream)
    assert len(read) <= 32


@pytest.mark.parametrize(
    ("targets", "words"), [(TARGETS[:2], "fewer target"), ([*TARGETS, "x"], "more target")]
)
def test_sides_must_have_equally_many_sentences(model, tokenizer, targets, words) -> None:
    with pytest.raises(UserError, match=words):
        capture(model, tokenizer, SOURCES, targets)


def test_a_target_or_a_translator_is_needed(model, tokenizer) -> None:
    with pytest.raises(UserError, match="way to translate"):
        capture(model, tokenizer, SOURCES)


def test_long_sentences_are_refused_with_advice(model, tokenizer) -> None:
    stream = capture_each(model, tokenizer, ["a", SOURCES[0]], ["b", TARGETS[0]], max_tokens=12)
    with pytest.raises(UserError, match=r"Sentence 2 .* tokens.*split it.*--max-tokens"):
        list(stream)


def test_a_position_table_is_a_limit_too(tokenizer) -> None:
    model = make_model(tokenizer, positions=Positions.learned, max_positions=8)
    with pytest.raises(UserError, match="position table ends at 8"):
        capture(model, tokenizer, SOURCES[0], TARGETS[0])


def test_a_source_that_the_translator_cut_is_refused(model, tokenizer) -> None:
    translate = lambda texts: [FakeTranslation("x", ["</s>"], cut=True) for _ in texts]  # noqa: E731
    with pytest.raises(UserError, match="longer than the translator reads"):
        capture(model, tokenizer, SOURCES[0], translate=translate)


def test_attention_to_padding_is_noticed(model, tokenizer, monkeypatch) -> None:
    monkeypatch.setattr("seq2seq.model.transformer.padding_mask", lambda *_: None)
    with pytest.raises(AttentionError, match="attends to padding"):
        capture(model, tokenizer, SOURCES, TARGETS)


def test_permuting_heads_permutes_the_maps(model, tokenizer) -> None:
    (before,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    attention = next(
        m for m in model.encoder.layers[0].modules() if isinstance(m, MultiHeadAttention)
    )
    order = [2, 0, 3, 1]
    with torch.no_grad():
        for linear in (attention.w_q, attention.w_k, attention.w_v):
            linear.weight.copy_(linear.weight.view(4, 4, 16)[order].flatten(0, 1))
            linear.bias.copy_(linear.bias.view(4, 4)[order].flatten())
        attention.w_o.weight.copy_(attention.w_o.weight.view(16, 4, 4)[:, order].flatten(1))
    (after,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    assert np.abs(after.enc[0] - before.enc[0][order]).max() < 1e-12
    assert np.abs(after.logprob - before.logprob).max() < 1e-9


def test_the_fused_kernel_is_used_before_and_after_but_not_for_looking(
    model, tokenizer, monkeypatch
) -> None:
    calls = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, **options):
        calls.append(1)
        return fused(*args, **options)

    monkeypatch.setattr("seq2seq.model.attention.CPU_FUSED_MIN_KEYS", 0)
    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", spy)
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    target_in = torch.tensor([[BOS, *tokenizer.encode_target([TARGETS[0]])[0]]])
    with torch.no_grad():
        before = model(source, target_in)
        assert len(calls) == 8
        capture(model, tokenizer, SOURCES[0], TARGETS[0])
        assert len(calls) == 8
        looked = model.attention_weights(source, target_in).logits
        after = model(source, target_in)
    assert len(calls) == 16
    assert torch.equal(before, after)
    assert torch.allclose(before, looked, atol=1e-10)

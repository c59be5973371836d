"""What a record holds beside the weights: norms ‖α f(x)‖, and the queries and keys behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_samples import SENTENCES, make_model, make_tokenizer, softmax

from seq2seq.analysis.capture import capture
from seq2seq.analysis.flow import contributions
from seq2seq.analysis.intervene import attentions
from seq2seq.analysis.words import to_words, word_starts
from seq2seq.attention_checks import lengths
from seq2seq.attention_maps import KINDS, AttentionError, AttentionMaps, QueryKey
from seq2seq.config import BOS, EOS
from seq2seq.errors import UserError

SOURCES, TARGETS = ([pair[side] for pair in SENTENCES] for side in (0, 1))


@pytest.fixture(scope="module")
def tokenizer():
    torch.set_num_threads(1)
    return make_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    return make_model(tokenizer)


@pytest.fixture(scope="module")
def maps(model, tokenizer) -> AttentionMaps:
    (found,) = capture(model, tokenizer, SOURCES[0], TARGETS[0], norms=True, qk=True)
    return found


def ids(tokenizer) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.tensor([[*tokenizer.encode_source([SOURCES[0]])[0], EOS]])
    return source, torch.tensor([[BOS, *tokenizer.encode_target([TARGETS[0]])[0]]])


def test_norms_are_the_lengths_of_weighted_vectors(model, tokenizer, maps) -> None:
    """Against the definition: every vector α_ij (x_j W_V + b_V) W_O[h] written out."""
    for (kind, layer), part in contributions(model, *ids(tokenizer)).items():
        vectors = part.weights[0, ..., None] * part.vectors[0, :, None]  # [H, Tq, Tk, D]
        whole = vectors.sum((0, 2)) + part.bias
        assert torch.allclose(whole, part.output[0], atol=1e-12)
        expected = vectors.pow(2).sum(-1).sqrt()
        assert np.abs(maps.norms[kind][layer] - expected.numpy()).max() < 1e-12
        assert maps.norms[kind][layer].max() > 0.01


def test_the_softmax_of_the_scores_is_the_weights(model, tokenizer, maps) -> None:
    for kind in KINDS:
        for layer, weights in enumerate(maps.layers(kind)):
            scores = maps.qk[kind][layer].scores
            assert scores.shape == weights.shape
            if kind == "dec":
                scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, -np.inf)
            assert np.abs(softmax(scores) - weights).max() < 1e-6  # float32 of the helper
    # √Dk, not the model's width: by hand for one cell
    attention = attentions(model)["enc", 0]
    x = model.source_embedding(ids(tokenizer)[0])[0]
    query, key = (linear(x).detach().numpy() for linear in (attention.w_q, attention.w_k))
    by_hand = query[2, 4:8] @ key[5, 4:8] / 2  # head 1 of width 4
    assert maps.qk["enc"][0].scores[1, 2, 5] == pytest.approx(by_hand, abs=1e-12)


def test_terms_of_a_score_sum_to_it(maps) -> None:
    both = maps.qk["cross"][1]
    for head, query, key in [(0, 0, 0), (1, 3, 2)]:
        terms = both.terms(head, query, key)
        assert terms.shape == (8,)
        assert terms.sum() == pytest.approx(both.scores[head, query, key], abs=1e-12)


def test_a_batch_gives_what_single_sentences_give(model, tokenizer) -> None:
    batched = capture(model, tokenizer, SOURCES, TARGETS, norms=True, qk=True)
    for one, source, target in zip(batched, SOURCES, TARGETS, strict=True):
        (single,) = capture(model, tokenizer, source, target, norms=True, qk=True)
        for kind in KINDS:
            for layer in range(len(one.layers(kind))):
                assert np.abs(one.norms[kind][layer] - single.norms[kind][layer]).max() < 1e-12
                pair = one.qk[kind][layer], single.qk[kind][layer]
                assert np.abs(pair[0].query - pair[1].query).max() < 1e-12
                assert np.abs(pair[0].key - pair[1].key).max() < 1e-12


def test_without_being_asked_nothing_more_is_kept(model, tokenizer, maps) -> None:
    (plain,) = capture(model, tokenizer, SOURCES[0], TARGETS[0])
    assert plain.norms is plain.qk is None
    for kind in KINDS:
        for one, other in zip(plain.layers(kind), maps.layers(kind), strict=True):
            assert np.array_equal(one, other)  # looking closer changes nothing
    assert all(not attention._forward_hooks for attention in attentions(model).values())


def test_saving_and_loading_gives_equal_bits(maps, tmp_path) -> None:
    maps.save(tmp_path / "a.npz")
    again = AttentionMaps.load(tmp_path / "a.npz")
    assert again.to_bytes() == maps.to_bytes()
    assert again.norms["cross"][2].tobytes() == maps.norms["cross"][2].tobytes()
    assert again.qk["dec"][1].key.tobytes() == maps.qk["dec"][1].key.tobytes()
    only = replace(maps, qk=None)
    only.save(tmp_path / "b.npz")
    again = AttentionMaps.load(tmp_path / "b.npz")
    assert again.qk is None
    assert again.norms is not None


def test_a_file_that_lacks_a_layer_is_incomplete(maps, tmp_path) -> None:
    maps.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "key_enc_1"}
    np.savez(tmp_path / "b.npz", **arrays)
    with pytest.raises(UserError, match=r"incomplete attention record .*key_enc_1"):
        AttentionMaps.load(tmp_path / "b.npz")


def test_selection_keeps_what_belongs_to_the_heads(maps) -> None:
    part = maps.select(["cross", "enc"], layers=[1], heads=[1])
    part.check()
    assert np.array_equal(part.norms["cross"][0], maps.norms["cross"][1][1:2])
    assert np.array_equal(part.qk["enc"][0].query, maps.qk["enc"][1].query[1:2])
    assert part.norms["dec"] == part.qk["dec"] == []


def test_words_add_norms_and_have_no_scores(maps) -> None:
    words = to_words(maps)
    words.check()
    assert words.qk is None
    starts = word_starts(maps.src, maps.special["src"])
    rows = word_starts(maps.tgt_out, maps.special["tgt_out"])
    assert len(starts) < len(maps.src)
    pieces = maps.norms["cross"][0][1]
    for i, j in [(0, 0), (2, 1), (len(rows) - 2, len(starts) - 2)]:
        block = pieces[rows[i] : rows[i + 1], starts[j] : starts[j + 1]]
        expected = block.sum() / (rows[i + 1] - rows[i])
        assert words.norms["cross"][0][1, i, j] == pytest.approx(expected, abs=1e-12)


def changed(maps: AttentionMaps, index: tuple[int, ...], value: float) -> AttentionMaps:
    norms = {kind: [layer.copy() for layer in maps.norms[kind]] for kind in KINDS}
    norms["dec"][1][index] = value
    return replace(maps, norms=norms)


@pytest.mark.parametrize(
    ("index", "value", "words"),
    [
        ((1, 2, 0), np.nan, "layer 1 head 1 row 2 column 0: nan is no norm"),
        ((0, 2, 1), -0.5, "layer 1 head 0 row 2 column 1: -0.5 is no norm"),
        ((0, 2, 3), 0.5, "row 2 column 3: 0.5 is the norm of what has no weight"),
    ],
)
def test_broken_norms_are_named(maps, index, value, words) -> None:
    with pytest.raises(AttentionError, match=words):
        changed(maps, index, value).check()


def test_norms_of_other_weights_are_noticed(maps) -> None:
    value = float(maps.norms["dec"][1][0, 3, 1]) * 1.01 + 1e-3
    with pytest.raises(AttentionError, match="not the weight times the length of its key"):
        changed(maps, (0, 3, 1), value).check()
    other = {**maps.norms, "enc": maps.norms["enc"][::-1]}
    with pytest.raises(AttentionError, match=r"encoder self-attention layer 0.* not the weight"):
        replace(maps, norms=other).check()
    with pytest.raises(AttentionError, match=r"2 layers of weights.* and 1 of norms or scores"):
        replace(maps, norms={**maps.norms, "enc": maps.norms["enc"][:1]}).check()
    wrong = [layer[:, :, :-1] for layer in maps.norms["enc"]]
    with pytest.raises(AttentionError, match="norms have shape"):
        replace(maps, norms={**maps.norms, "enc": wrong}).check()


def test_scores_of_other_weights_are_noticed(maps) -> None:
    other = {**maps.qk, "cross": maps.qk["cross"][::-1]}
    with pytest.raises(AttentionError, match=r"cross-attention layer 0.* not the softmax"):
        replace(maps, qk=other).check()
    bad = [QueryKey(one.query * np.inf, one.key) for one in maps.qk["enc"]]
    with pytest.raises(AttentionError, match="is no score"), np.errstate(invalid="ignore"):
        replace(maps, qk={**maps.qk, "enc": bad}).check()


def test_sixteen_bits_pass_with_their_tolerance(tokenizer) -> None:
    model = make_model(tokenizer).bfloat16()
    (found,) = capture(model, tokenizer, SOURCES[0], TARGETS[0], norms=True, qk=True)
    assert found.norms["enc"][0].dtype == np.float32
    found.check()


def test_lengths_of_keys_come_back_from_norms(model, tokenizer, maps) -> None:
    for (kind, layer), part in contributions(model, *ids(tokenizer)).items():
        found = lengths(maps.layers(kind)[layer], maps.norms[kind][layer])
        assert found == pytest.approx(part.vectors[0].norm(dim=-1).numpy(), rel=1e-9)
    assert lengths(np.zeros((1, 2, 2)), np.zeros((1, 2, 2))).tolist() == [[0, 0]]

"""Cached decoding equals the whole forward pass, whatever beams are taken or dropped."""

import pytest
import torch
from model_samples import (
    BOTH_NORMS_AND_POSITIONS,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    assert_same,
    padded,
    random_ids,
    tiny_model,
)

from seq2seq.config import BOS
from seq2seq.model.attention import KeyValue
from seq2seq.model.cache import LayerCache

OPTIONS = pytest.mark.parametrize("options", BOTH_NORMS_AND_POSITIONS, ids=lambda o: o["norm"])


class Shadow:
    """Decodes with the cache and, beside it, keeps whole prefixes to compare with."""

    def __init__(self, model, source, beam, **start):
        self.model, self.source = model, source
        self.state = model.start(source, beam=beam, **start)
        self.prefixes = torch.empty(len(source), beam, 0, dtype=torch.int64)  # [B, K, t]

    def step(self, last):
        """Append `last` [B, K]; the logits of both ways must agree."""
        self.prefixes = torch.cat((self.prefixes, last[..., None]), -1)
        logits = self.model.step(last, self.state)
        batch, beam, length = self.prefixes.shape
        whole = self.model(
            self.source.repeat_interleave(beam, 0), self.prefixes.flatten(0, 1)
        )[:, -1]  # fmt: skip
        assert logits.shape == (batch, beam, TARGET_VOCAB)
        assert_same(logits.flatten(0, 1), whole)
        assert self.state.length == length

    def select(self, sentences, beams):
        self.state.select(sentences, beams)
        self.source = self.source[sentences]
        rows = torch.arange(len(sentences))[:, None]
        self.prefixes = self.prefixes[sentences][rows, beams]


def tokens(batch, beam, seed):
    return random_ids(batch, beam, TARGET_VOCAB, seed)


def source_of(lengths):
    return padded(random_ids(len(lengths), max(lengths), SOURCE_VOCAB, 9), lengths)


@OPTIONS
def test_greedy_steps(options):
    shadow = Shadow(tiny_model(**options), source_of([6, 3, 1]), beam=1)
    shadow.step(torch.full((3, 1), BOS))
    for seed in range(8):
        shadow.step(tokens(3, 1, seed))


@OPTIONS
def test_beams_reordered_at_every_step(options):
    generator = torch.Generator().manual_seed(1)
    shadow = Shadow(tiny_model(**options), source_of([6, 3, 4]), beam=4)
    shadow.step(torch.full((3, 4), BOS))
    for seed in range(8):
        shadow.step(tokens(3, 4, seed))
        # beams may be taken twice, and each sentence has an order of its own
        shadow.select(torch.arange(3), torch.randint(4, (3, 4), generator=generator))


@OPTIONS
def test_sentences_dropped_on_the_way(options):
    shadow = Shadow(tiny_model(**options), source_of([6, 3, 4, 2]), beam=2)
    shadow.step(torch.full((4, 2), BOS))
    shadow.select(torch.tensor([0, 1, 3]), torch.tensor([[1, 0], [0, 0], [1, 1]]))
    shadow.step(tokens(3, 2, 1))
    shadow.select(torch.tensor([1, 2]), torch.tensor([[0, 1], [1, 0]]))
    shadow.step(tokens(2, 2, 2))
    shadow.select(torch.tensor([1]), torch.tensor([[1, 0]]))
    shadow.step(tokens(1, 2, 3))


def test_the_number_of_beams_may_change():
    shadow = Shadow(tiny_model(), source_of([5, 3]), beam=1)
    shadow.step(torch.full((2, 1), BOS))
    shadow.select(torch.tensor([0, 1]), torch.zeros(2, 3, dtype=torch.int64))
    shadow.step(tokens(2, 3, 1))
    shadow.select(torch.tensor([0, 1]), torch.tensor([[2, 0], [1, 1]]))
    shadow.step(tokens(2, 2, 2))
    shadow.select(torch.tensor([0, 1]), torch.tensor([[0], [1]]))  # a part, in order
    shadow.step(tokens(2, 1, 3))


def test_selecting_before_the_first_step():
    shadow = Shadow(tiny_model(), source_of([5, 3, 4]), beam=1)
    shadow.select(torch.tensor([0, 2]), torch.zeros(2, 1, dtype=torch.int64))
    shadow.step(torch.full((2, 1), BOS))


def test_the_identity_selection_changes_nothing():
    shadow = Shadow(tiny_model(), source_of([5, 3]), beam=2)
    shadow.step(tokens(2, 2, 0))
    buffers = shadow.state.caches[0].buffers
    shadow.select(torch.arange(2), torch.tensor([[0, 1], [0, 1]]))
    assert shadow.state.caches[0].buffers is buffers  # not even copied
    shadow.step(tokens(2, 2, 1))


def test_nothing_left():
    model = tiny_model()
    state = model.start(source_of([5, 3]), beam=2)
    model.step(tokens(2, 2, 0), state)
    none = torch.empty(0, dtype=torch.int64)
    state.select(none, torch.empty(0, 2, dtype=torch.int64))
    assert model.step(torch.empty(0, 2, dtype=torch.int64), state).shape == (0, 2, TARGET_VOCAB)
    state.select(none, torch.empty(0, 2, dtype=torch.int64))


@pytest.mark.parametrize("max_len", [None, 1, 5, 100])
def test_longer_than_the_room_reserved(max_len):
    shadow = Shadow(tiny_model(), source_of([4, 2]), beam=2, max_len=max_len)
    for seed in range(20):
        shadow.step(tokens(2, 2, seed))
        if seed % 7 == 0:
            shadow.select(torch.arange(2), torch.tensor([[1, 0], [1, 1]]))


def test_the_source_is_projected_once_a_sentence_whatever_the_beams():
    model = tiny_model()
    rows = []
    for layer in model.decoder.layers:
        layer.cross_attention.w_k.register_forward_hook(
            lambda _, inputs, output: rows.append(len(output))
        )
    state = model.start(source_of([4, 2]), beam=5)
    for seed in range(3):
        model.step(tokens(2, 5, seed), state)
        state.select(torch.arange(2), tokens(2, 5, seed) % 5)
    assert rows == [2] * 3  # once for each of the three layers, for two sentences
    assert [len(kv.key) for kv in state.memory.layers] == [2] * 3
    assert [len(cache.buffers.key) for cache in state.caches] == [10] * 3


def test_without_padding_there_is_no_mask_to_select():
    state = tiny_model().start(source_of([4, 4]))
    assert state.memory.mask is None
    state.select(torch.tensor([1]), torch.tensor([[0]]))
    assert state.memory.mask is None
    assert len(state.memory.layers[0].key) == 1


def test_rows_of_attention_weights_are_those_of_the_steps():
    model = tiny_model()
    source, target = source_of([5, 3]), tokens(2, 6, 0)
    seen = model.attention_weights(source, target)
    state = model.start(source)
    logits = [model.step(target[:, t : t + 1], state) for t in range(6)]
    assert_same(torch.cat(logits, 1), seen.logits)


def newest(value, rows=2):
    return KeyValue(torch.full((rows, 1, 1, 3), value), torch.full((rows, 1, 1, 2), -value))


def test_a_layers_cache_doubles_and_keeps_what_it_has():
    cache = LayerCache(capacity=2)
    for t in range(9):
        all_so_far = cache.append(newest(float(t)))
        assert all_so_far.key[:, 0, :, 0].tolist() == [[float(i) for i in range(t + 1)]] * 2
        assert all_so_far.value[0, 0, :, 1].tolist() == [-float(i) for i in range(t + 1)]
    assert (cache.capacity, cache.length) == (16, 9)


def test_an_empty_cache_has_nothing_to_select():
    cache = LayerCache()
    cache.select(torch.tensor([1, 0]))
    assert cache.buffers is None

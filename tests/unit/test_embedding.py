"""Embeddings: √d_model, positions, dropout, in the order of the paper."""

import math

import torch
from model_samples import assert_same

from seq2seq.model.embedding import TokenEmbedding
from seq2seq.model.feed_forward import FeedForward
from seq2seq.model.init import initialise
from seq2seq.model.positional import LearnedPositions, SinusoidalPositions, sinusoids


def test_rows_times_the_root_of_the_width_plus_positions():
    table = torch.nn.Embedding(7, 9).double()
    module = TokenEmbedding(table, SinusoidalPositions(9).double(), 0.0)
    ids = torch.tensor([[3, 5, 3], [0, 6, 1]])
    out = module(ids, start=2)
    for b in range(2):
        for t in range(3):
            wanted = table.weight[ids[b, t]] * 3.0 + sinusoids(5, 9)[2 + t].double()
            assert_same(out[b, t], wanted)


def test_dropout_falls_on_the_sum():
    table = torch.nn.Embedding(7, 16)
    module = TokenEmbedding(table, SinusoidalPositions(16), 0.5)
    ids = torch.randint(7, (8, 20))
    clean = module.eval()(ids)
    out = module.train()(ids)
    assert abs((out == 0).float().mean().item() - 0.5) < 0.05
    assert torch.allclose(out[out != 0], 2 * clean[out != 0])


def test_initial_sizes():
    d = 64
    embedding, linear = torch.nn.Embedding(3000, d), torch.nn.Linear(d, 3 * d)
    learned = LearnedPositions(d, 512)
    feed_forward = FeedForward(d, 4 * d)
    initialise(torch.nn.ModuleList([embedding, linear, learned, feed_forward]))
    # after scaling by √d, embeddings have unit variance: as large as sinusoids at least
    assert abs((embedding.weight * math.sqrt(d)).var().item() - 1) < 0.02
    glorot = math.sqrt(6 / (d + 3 * d))
    assert linear.weight.abs().max().item() <= glorot
    assert abs(linear.weight.var().item() - glorot**2 / 3) < 0.05 * glorot**2
    assert linear.bias.abs().max() == 0
    assert feed_forward.w_2.bias.abs().max() == 0
    assert abs(learned.table.std().item() - 0.02) < 0.001

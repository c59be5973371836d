"""Numbers of parameters by hand, and matrices that are one."""

import pytest
import safetensors.torch
import torch
from model_samples import random_ids, tiny_config, tiny_model
from omegaconf import OmegaConf

from seq2seq.choices import Tying
from seq2seq.config import ModelConfig
from seq2seq.model.transformer import Transformer, parameter_count
from seq2seq.run_folder import load_weights
from seq2seq.training.checkpoint import save_model


def by_hand(d, f, layers, vocab):
    attention = 4 * (d * d + d)  # W_Q, W_K, W_V, W_O and biases
    feed_forward = d * f + f + f * d + d
    norm = 2 * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return layers * (encoder + decoder) + vocab * d


def on_meta(config):
    with torch.device("meta"):
        return Transformer(config)


# Table 3 of the paper, and its vocabulary of "about 37000 tokens" shared by both languages.
PAPER = {"base": ((512, 2048, 6, 8), 65e6), "big": ((1024, 4096, 6, 16), 213e6)}


@pytest.mark.parametrize("name", PAPER)
def test_the_models_of_the_paper(name):
    (d, f, layers, heads), published = PAPER[name]
    config = ModelConfig(
        d_model=d,
        d_ff=f,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_heads=heads,
        decoder_heads=heads,
        source_vocab=37000,
        target_vocab=37000,
    )
    count = parameter_count(on_meta(config))
    assert count == by_hand(d, f, layers, 37000)
    assert count == {"base": 63_082_496, "big": 214_245_376}[name]
    assert abs(count / published - 1) < 0.04  # the paper rounds, and counts a little otherwise


@pytest.mark.parametrize("name", PAPER)
def test_the_shipped_configurations_are_those_models(name):
    (d, f, layers, heads), _ = PAPER[name]
    shipped = ModelConfig(**OmegaConf.to_container(OmegaConf.load(f"conf/model/{name}.yaml")))
    assert (shipped.d_model, shipped.d_ff) == (d, f)
    assert (shipped.encoder_layers, shipped.decoder_layers) == (layers, layers)
    assert (shipped.encoder_heads, shipped.decoder_heads) == (heads, heads)
    assert shipped.tying is Tying.all
    assert shipped.dropout == {"base": 0.1, "big": 0.3}[name]


def test_pre_norm_adds_two_normalisations_and_learned_positions_two_tables():
    count = parameter_count(on_meta(tiny_config()))
    assert parameter_count(on_meta(tiny_config(norm="pre"))) == count + 2 * 2 * 16
    assert parameter_count(on_meta(tiny_config(positions="learned"))) == count + 2 * 64 * 16


def test_head_widths_of_their_own():
    count = parameter_count(on_meta(tiny_config()))  # d_k 8 in the encoder, 4 in the decoder
    wide = parameter_count(on_meta(tiny_config(d_k=10, d_v=3)))
    encoder, decoder = 2, 2 * 3  # attentions
    keys = encoder * (20 - 16) + decoder * (40 - 16)  # columns more in W_Q and in W_K
    values = encoder * (6 - 16) + decoder * (12 - 16)  # in W_V, and rows in W_O
    assert wide - count == 2 * keys * 17 + values * 17 + values * 16


@pytest.mark.parametrize("tying", Tying)
def test_what_is_tied_is_one_matrix_and_counts_once(tying):
    model = tiny_model(tying=tying, source_vocab=13)
    source = model.source_embedding.table.weight.data_ptr()
    target = model.target_embedding.table.weight.data_ptr()
    output = model.output.weight.data_ptr()
    distinct = {Tying.none: 3, Tying.decoder: 2, Tying.all: 1}[tying]
    assert len({source, target, output}) == distinct
    assert (target == output) == (tying is not Tying.none)
    untied = parameter_count(tiny_model(tying="none", source_vocab=13))
    assert parameter_count(model) == untied - (3 - distinct) * 13 * 16


@pytest.mark.parametrize("tying", Tying)
def test_tying_survives_saving_and_loading(tying, tmp_path):
    model = tiny_model(tying=tying, source_vocab=13)
    file = tmp_path / "model.safetensors"
    save_model(model, file)
    size = sum(w.numel() for w in safetensors.torch.load_file(file).values())
    assert size == parameter_count(model)
    torch.manual_seed(99)
    fresh = Transformer(model.config).double().eval()
    load_weights(fresh, file)
    source, target = random_ids(2, 5, 13), random_ids(2, 4, 13)
    assert torch.equal(fresh(source, target), model(source, target))
    tied = fresh.target_embedding.table.weight is fresh.output.weight
    assert tied == (tying is not Tying.none)


@pytest.mark.parametrize("tying", Tying)
def test_tying_survives_a_change_of_type_and_device(tying):
    model = Transformer(tiny_config(tying=tying, source_vocab=13)).double().to("cpu").float()
    distinct = {Tying.none: 3, Tying.decoder: 2, Tying.all: 1}[tying]
    tables = (model.source_embedding.table, model.target_embedding.table, model.output)
    assert len({table.weight.data_ptr() for table in tables}) == distinct


def test_three_way_tying_needs_one_vocabulary():
    with pytest.raises(ValueError, match="11 source and 13 target"):
        Transformer(tiny_config(tying="all"))


def test_frozen_parameters_do_not_count():
    model = tiny_model(tying="none")
    count = parameter_count(model)
    model.output.weight.requires_grad_(False)
    assert parameter_count(model) == count - 13 * 16

"""The configuration: ranges, choices, and config.json there and back."""

import dataclasses
import json
from typing import ClassVar

import pytest

from seq2seq.choices import Metric, Norm, Positions, Precision, Search, SubwordKind, Tying
from seq2seq.config import (
    DataConfig,
    DecodeConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    TokenizerConfig,
    TrainConfig,
)
from seq2seq.config_file import FORMAT_VERSION, from_dict, load_config, save_config, to_dict
from seq2seq.errors import UserError

GROUPS = [DataConfig, TokenizerConfig, ModelConfig, OptimConfig, TrainConfig, DecodeConfig]

# The least value that each option takes, from its comment in config.py.
LEAST = {
    DataConfig: {"dev_size": 0, "test_size": 0, "limit": 1, "grammar_pairs": 1, "max_length": 1},
    TokenizerConfig: {"vocab_size": 1, "sample": 1},
    ModelConfig: {"d_ff": 1, "encoder_layers": 1, "decoder_layers": 1, "encoder_heads": 1,
                  "decoder_heads": 1, "d_k": 1, "d_v": 1, "max_positions": 1},
    OptimConfig: {"lr": 0, "warmup": 0, "eps": 0, "weight_decay": 0, "clip_norm": 0},
    TrainConfig: {"max_minutes": 0, "dev_limit": 0, "samples": 0, "max_updates": 1,
                  "max_epochs": 1, "max_tokens": 1, "accumulate": 1, "validate_every": 1,
                  "patience": 1, "keep_last": 1, "log_every": 1, "max_skips": 1},
    DecodeConfig: {"beam": 1, "n_best": 1, "max_source": 1, "batch_tokens": 1, "alpha": 0,
                   "max_len_a": 0, "max_len_b": 0, "min_len": 0, "top_k": 0, "temperature": 0},
}  # fmt: skip
LIMITS = [(cls, name, low) for cls, names in LEAST.items() for name, low in names.items()]

SHARES = [
    (ModelConfig, "dropout"),
    (ModelConfig, "attention_dropout"),
    (ModelConfig, "ff_dropout"),
    (ModelConfig, "embedding_dropout"),
    (OptimConfig, "beta1"),
    (OptimConfig, "beta2"),
    (OptimConfig, "label_smoothing"),
    (TrainConfig, "ema"),
]


def key_of(cls, name):
    return f"{cls.__name__.removesuffix('Config').lower()}.{name}"


@pytest.mark.parametrize(("cls", "name", "low"), LIMITS)
def test_the_least_value_is_taken_and_less_is_refused(cls, name, low):
    cls(**{name: low})
    for value in (low - 1, float("nan")):
        with pytest.raises(UserError) as caught:
            cls(**{name: value})
        message = str(caught.value)
        assert message == f"{key_of(cls, name)} is {value}, but must be at least {low}."


@pytest.mark.parametrize(("cls", "name"), SHARES)
def test_shares_lie_in_the_half_open_interval(cls, name):
    for value in (0.0, 0.999):
        cls(**{name: value})
    for value in (-0.1, 1.0, float("nan")):
        with pytest.raises(UserError, match=rf"{key_of(cls, name)} is .* must be in \[0, 1\)"):
            cls(**{name: value})


@pytest.mark.parametrize(("cls", "name"), [(TokenizerConfig, "coverage"), (DecodeConfig, "top_p")])
def test_shares_that_may_be_whole_but_not_nothing(cls, name):
    for value in (0.001, 1.0):
        cls(**{name: value})
    for value in (0.0, 1.001, float("nan")):
        with pytest.raises(UserError, match=rf"{key_of(cls, name)} is .* must be in \(0, 1\]"):
            cls(**{name: value})


@pytest.mark.parametrize("side", ["encoder_heads", "decoder_heads"])
def test_heads_divide_the_width_or_have_widths_of_their_own(side):
    for widths in ({}, {"d_k": 64}, {"d_v": 64}):
        with pytest.raises(UserError, match=f"d_model=256 is not divisible by model.{side}=3"):
            ModelConfig(**{side: 3, **widths})
    ModelConfig(**{side: 3, "d_k": 64, "d_v": 64})
    ModelConfig(**{side: 8})


def test_more_translations_than_beams_is_an_error_of_beam_search_only():
    with pytest.raises(UserError, match=r"decode.n_best=6 is more than decode.beam=5"):
        DecodeConfig(n_best=6)
    DecodeConfig(n_best=5)
    DecodeConfig(n_best=6, search=Search.sample)


def test_three_way_tying_needs_a_joint_vocabulary():
    with pytest.raises(UserError, match=r"model.tying=all .* tokenizer.joint=true"):
        RunConfig(tokenizer=TokenizerConfig(joint=False))
    RunConfig(tokenizer=TokenizerConfig(joint=False), model=ModelConfig(tying=Tying.decoder))


def test_the_linear_schedule_needs_an_end():
    linear = OptimConfig(schedule="linear")
    with pytest.raises(UserError, match="schedule=linear"):
        RunConfig(optim=linear)
    for end in ("max_updates", "max_minutes", "max_epochs"):
        assert RunConfig(optim=linear, train=TrainConfig(**{end: 5})).train.has_end


def test_learned_positions_hold_the_longest_training_pair():
    # found before training, not when the first long pair comes
    learned = {"positions": Positions.learned, "max_positions": 65}
    with pytest.raises(UserError, match=r"max_length=65 pieces .*max_positions=65 .*max_length=64"):
        RunConfig(data=DataConfig(max_length=65), model=ModelConfig(**learned))
    RunConfig(data=DataConfig(max_length=64), model=ModelConfig(**learned))
    RunConfig(data=DataConfig(max_length=65), model=ModelConfig(max_positions=65))


@pytest.mark.parametrize(("key", "least"), [("seed", 0), ("threads", 1)])
def test_numbers_of_the_run_itself(key, least):
    with pytest.raises(UserError, match=f"^{key} is {least - 1}, but must be at least {least}"):
        RunConfig(**{key: least - 1})
    RunConfig(**{key: least})


# Choices


def choices():
    for cls in (*GROUPS, RunConfig):
        for option in dataclasses.fields(cls):
            if hasattr(type(option.default), "__members__"):
                yield cls, option.name, type(option.default)


def test_every_choice_has_its_name_for_value():
    # the command line selects members by name, config.json stores values
    kinds = {kind for _, _, kind in choices()}
    assert {Norm, Positions, Tying, SubwordKind, Precision, Metric, Search} <= kinds
    for kind in kinds:
        assert [member.name for member in kind] == [member.value for member in kind]


@pytest.mark.parametrize(("cls", "name", "kind"), list(choices()))
def test_a_choice_may_be_a_plain_string_and_is_never_taken_for_another(cls, name, kind):
    extra = {"train": TrainConfig(max_updates=1)} if cls is RunConfig else {}
    for member in kind:
        assert getattr(cls(**{name: str(member)}, **extra), name) is member
    with pytest.raises(UserError, match="must be one of " + ", ".join(kind)) as caught:
        cls(**{name: "nonsense"})
    wanted = name if cls is RunConfig else key_of(cls, name)
    assert str(caught.value).startswith(f"{wanted} is 'nonsense'")


# config.json


def unusual():
    return RunConfig(
        name="été",
        seed=7,
        threads=2,
        precision=Precision.bf16,
        data=DataConfig(train_source="tëxt.en", max_ratio=2.5, limit=10),
        tokenizer=TokenizerConfig(kind=SubwordKind.char, joint=False),
        model=ModelConfig(norm=Norm.pre, tying=Tying.none, d_k=5, d_v=7, dropout=0.25),
        optim=OptimConfig(lr=1e-4),
        train=TrainConfig(max_minutes=0.5, metric=Metric.chrf),
        decode=DecodeConfig(search=Search.sample, top_p=0.9),
    )


@pytest.mark.parametrize("config", [RunConfig(), unusual()], ids=["defaults", "unusual"])
def test_there_and_back(config, tmp_path):
    save_config(config, tmp_path / "config.json")
    assert load_config(tmp_path / "config.json") == config
    assert list(tmp_path.iterdir()) == [tmp_path / "config.json"]


def test_the_file_is_readable_utf8_with_its_version_first(tmp_path):
    save_config(unusual(), tmp_path / "config.json")
    text = (tmp_path / "config.json").read_bytes().decode("utf-8")
    assert "tëxt.en" in text
    assert next(iter(json.loads(text).items())) == ("format_version", FORMAT_VERSION)


def test_a_file_that_is_there_is_replaced_whole(tmp_path, monkeypatch):
    file = tmp_path / "config.json"
    save_config(RunConfig(seed=1), file)
    monkeypatch.setattr(type(file), "replace", lambda *_: (_ for _ in ()).throw(OSError))
    with pytest.raises(OSError):  # noqa: PT011 - killed before the last step
        save_config(RunConfig(seed=2), file)
    assert load_config(file).seed == 1


def test_missing_keys_take_their_defaults():
    config = from_dict(RunConfig, {"model": {"d_model": 64}})
    assert config.model == ModelConfig(d_model=64)
    assert config.train == TrainConfig()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"d_modle": 64}}, "Unknown key model.d_modle .*; did you mean model.d_model?"),
        ({"sed": 1}, "Unknown key sed .*; did you mean seed?"),
        ({"model": {"zzzzzz": 64}}, r"Unknown key model.zzzzzz in the configuration\.$"),
        ({"model": {"d_model": "64"}}, "model.d_model is '64', but must be of type int"),
        ({"model": {"d_model": 64.0}}, "model.d_model is 64.0, but must be of type int"),
        ({"model": {"d_model": True}}, "model.d_model is True, but must be of type int"),
        ({"model": {"d_model": None}}, "model.d_model is None, but must be of type int"),
        ({"model": {"d_k": "5"}}, "model.d_k is '5', but must be of type int"),
        ({"model": {"dropout": True}}, "model.dropout is True, but must be of type float"),
        ({"model": {"dropout": "0.1"}}, "model.dropout is '0.1', but must be of type float"),
        ({"model": {"norm": "middle"}}, "model.norm is 'middle', but must be one of post, pre"),
        ({"model": {"norm": 3}}, "model.norm is 3, but must be one of post, pre"),
        ({"model": {"norm": []}}, "model.norm is \\[\\], but must be one of post, pre"),
        ({"model": 5}, "model is 5, but must be of type ModelConfig"),
        ({"model": {"removed_heads": "enc.0.1"}}, "removed_heads is 'enc.0.1', .* of type list"),
        ({"model": {"removed_heads": [1]}}, r"removed_heads\[0\] is 1, but must be of type str"),
        ({"resume": 1}, "resume is 1, but must be of type bool"),
        ({"model": {"d_model": 0}}, "model.d_model is 0, but must be at least 1"),
        ({"data": {"train_source": 5}}, "data.train_source is 5, but must be of type str"),
    ],
)
def test_wrong_keys_and_values_are_named(values, message):
    with pytest.raises(UserError, match=message):
        from_dict(RunConfig, values)


def test_a_whole_number_may_stand_for_a_share_and_null_for_nothing():
    config = from_dict(RunConfig, {"model": {"dropout": 0, "d_k": None}})
    assert config.model.dropout == 0.0
    assert isinstance(config.model.dropout, float)
    assert config.model.d_k is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b'{"seed": "\xff"}', "is not valid JSON"),
        (b"9" * 5000, "is not valid JSON"),
        (b"[]", "does not hold a configuration"),
        (b"null", "does not hold a configuration"),
        (b"{}", "has format version None"),
        (b'{"format_version": 2}', "has format version 2; this program reads version 1"),
        (b'{"format_version": 1, "model": {"dropout": NaN}}', "model.dropout is nan"),
        (b'{"format_version": 1, "modle": {}}', "did you mean model"),
    ],
)
def test_files_that_are_no_configuration(content, message, tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_config(file)


def test_a_missing_file_and_a_folder_of_its_name(tmp_path):
    with pytest.raises(UserError, match=r"does not exist: is .* a run folder"):
        load_config(tmp_path / "config.json")
    with pytest.raises(UserError, match="cannot be read"):
        load_config(tmp_path)


def test_the_dictionary_is_ready_for_json():
    values = to_dict(unusual())
    assert json.loads(json.dumps(values)) == values
    assert values["model"]["norm"] == "pre"


def test_options_cannot_be_misspelt_in_code():
    with pytest.raises(TypeError):
        ModelConfig(d_modle=5)
    with pytest.raises(AttributeError):
        ModelConfig().d_modle = 5


@pytest.mark.parametrize(("given", "kept"), [("auto", "auto"), ("80", 80), (80, 80), (None, None)])
def test_a_batch_is_a_number_or_auto(given: int | str | None, kept: int | str | None) -> None:
    config = TrainConfig(max_tokens=given)
    assert config.max_tokens == kept
    assert from_dict(TrainConfig, to_dict(config)) == config


@pytest.mark.parametrize("wrong", ["big", "0", 0, "1.5"])
def test_another_batch_is_refused(wrong: int | str) -> None:
    with pytest.raises(UserError, match=r"train\.max_tokens is"):
        TrainConfig(max_tokens=wrong)


class TestRemovedHeads:
    """Encoder 2 layers × 2 heads, decoder 1 layer × 3 heads, by default widths that divide 12."""

    SIZES: ClassVar = {"d_model": 12, "encoder_layers": 2, "encoder_heads": 2, "decoder_layers": 1,
             "decoder_heads": 3}  # fmt: skip

    def test_the_others_keep_their_numbers(self):
        config = ModelConfig(**self.SIZES, removed_heads=["cross.0.1", "enc.1.0"])
        assert config.head_ids("enc", 0) == [0, 1]
        assert config.head_ids("enc", 1) == [1]
        assert config.head_ids("dec", 0) == [0, 1, 2]
        assert config.head_ids("cross", 0) == [0, 2]
        assert config.heads() == {"enc": (2, 2), "dec": (1, 3), "cross": (1, 3)}

    def test_they_are_kept_in_one_order_each_once(self):
        names = ["cross.0.1", "dec.0.2", "enc.1.0", "cross.0.1", "enc.0.1"]
        config = ModelConfig(**self.SIZES, removed_heads=names)
        assert config.removed_heads == ["enc.0.1", "enc.1.0", "dec.0.2", "cross.0.1"]
        assert ModelConfig(**self.SIZES, removed_heads=[]) == ModelConfig(**self.SIZES)

    @pytest.mark.parametrize(
        "name", ["enc.2.0", "enc.0.2", "dec.0.3", "self.0.0", "enc.0", "", "1"]
    )
    def test_a_head_that_never_was_names_those_there_are(self, name):
        with pytest.raises(UserError) as caught:
            ModelConfig(**self.SIZES, removed_heads=["enc.0.0", name])
        assert f"model.removed_heads names {name!r}, but" in str(caught.value)
        assert "enc.0.0 to enc.1.1, dec.0.0 to dec.0.2, cross.0.0 to cross.0.2" in str(caught.value)

    def test_there_and_back(self, tmp_path):
        config = RunConfig(model=ModelConfig(**self.SIZES, removed_heads=["enc.0.1", "dec.0.0"]))
        save_config(config, tmp_path / "config.json")
        assert load_config(tmp_path / "config.json") == config
        values = json.loads((tmp_path / "config.json").read_text("utf-8"))
        assert values["model"]["removed_heads"] == ["enc.0.1", "dec.0.0"]

    def test_the_number_of_heads_and_their_width_stay_those_before(self):
        config = ModelConfig(**self.SIZES, removed_heads=["dec.0.0", "dec.0.1"])
        assert (config.decoder_heads, config.d_k, config.d_v) == (3, None, None)

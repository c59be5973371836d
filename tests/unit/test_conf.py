"""Configuration: what the files of conf/ and the arguments of `seq2seq train` make of a run."""

import dataclasses
import json
from importlib import resources
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.choices import DataKind, Schedule, Search
from seq2seq.cli import options, train
from seq2seq.cli.configure import compose, is_choice, option_names, quote, sweep
from seq2seq.cli.evaluate import EvaluateConfig
from seq2seq.cli.main import main
from seq2seq.cli.translate import TranslateConfig
from seq2seq.config import DecodeConfig, OptimConfig, RunConfig
from seq2seq.config_file import from_dict, save_config, to_dict
from seq2seq.errors import UserError

AWKWARD = ["我的.txt", "a=b.pt", "a,b", "~x", "f(x)", "<2en>", "a b", "'q'", 'say "x"', "1e3",
           "007", "[1]", "{a: b}", "${x}", "a\\", "#1", "true", "it's", "%", "ñ:1"]  # fmt: skip


def run_config(*overrides: str, **values: object) -> RunConfig:
    return compose("train", RunConfig, list(overrides), values)


def choices() -> list[str]:
    return [f"{group}={name}" for group, names in options.groups().items() for name in names]


# The files


@pytest.mark.parametrize("choice", choices())
def test_every_choice_of_every_group_composes(choice):
    run_config(choice)


@pytest.mark.parametrize("name", list(options.groups()["experiment"]))
def test_every_experiment_builds_its_model(name):
    import torch

    from seq2seq.model.transformer import Transformer

    config = run_config(f"experiment={name}")
    config.model.source_vocab = config.model.target_vocab = config.tokenizer.vocab_size
    with torch.device("meta"):
        model = Transformer(config.model)
    assert sum(p.numel() for p in model.parameters()) > config.model.d_model**2


@pytest.mark.parametrize("name", list(options.groups()["experiment"]))
def test_every_experiment_knows_its_end(name):
    train_config = run_config(f"experiment={name}").train
    assert train_config.max_updates or train_config.max_minutes or train_config.max_epochs


@pytest.mark.parametrize(
    ("name", "d_model", "d_ff", "heads", "dropout"),
    [("base", 512, 2048, 8, 0.1), ("big", 1024, 4096, 16, 0.3)],
)
def test_the_papers_models_are_those_of_its_table_3(name, d_model, d_ff, heads, dropout):
    model = run_config(f"model={name}").model
    assert (model.d_model, model.d_ff) == (d_model, d_ff)
    assert (model.encoder_heads, model.decoder_heads) == (heads, heads)
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert (model.dropout, model.embedding_dropout) == (dropout, dropout)


def test_the_papers_optimiser_is_that_of_its_section_5_3():
    optim = run_config("optim=paper").optim
    assert optim == OptimConfig(
        schedule=Schedule.inverse_sqrt, lr=None, warmup=4000, beta1=0.9, beta2=0.98, eps=1e-9
    )


def test_multi30k_is_what_the_readme_promises():
    config = run_config("experiment=multi30k", "data.root=somewhere")
    assert (config.data.kind, config.data.root) == (DataKind.multi30k, "somewhere")
    assert (config.data.source_lang, config.data.target_lang) == ("en", "de")
    assert config.train.max_minutes is not None
    assert config.train.max_minutes <= 15
    assert config.decode.beam == 5


@pytest.mark.parametrize(
    ("choice", "search", "beam"),
    [("greedy", Search.beam, 1), ("beam", Search.beam, 5), ("sample", Search.sample, 5)],
)
def test_decode_choices_start_from_the_settings_of_the_run(choice, search, beam):
    start = TranslateConfig(decode=DecodeConfig(beam=5, max_len_b=77))
    decode = compose("translate", TranslateConfig, [f"decode={choice}"], start=start).decode
    assert (decode.search, decode.beam, decode.max_len_b) == (search, beam, 77)


def test_without_arguments_the_settings_of_the_run_stay():
    decode = DecodeConfig(beam=7, alpha=0.3, min_len=2, search=Search.sample)
    assert compose("translate", TranslateConfig, [], start=TranslateConfig(decode=decode)) == (
        TranslateConfig(decode=decode)
    )
    data = run_config("data=files", "data.train_tsv=x", "data.limit=3").data
    whole = EvaluateConfig(data=data, decode=decode)
    assert compose("evaluate", EvaluateConfig, [], start=whole) == whole
    config = run_config("experiment=multi30k", "seed=9", "name=x")
    assert compose("resume", RunConfig, [], start=config) == config


def test_removed_heads_are_a_list_of_names():
    config = run_config("model.removed_heads=[enc.0.1,cross.2.3]")
    assert config.model.removed_heads == ["enc.0.1", "cross.2.3"]
    assert run_config().model.removed_heads is None
    assert compose("resume", RunConfig, [], start=config) == config
    with pytest.raises(UserError, match=r"names 'enc\.9\.0', but the heads of this model are"):
        run_config("model.removed_heads=[enc.9.0]")
    with pytest.raises(UserError, match=r"model\.removed_heads"):
        run_config("model.removed_heads=enc.0.1")


def test_a_run_to_be_resumed_keeps_its_heads(tmp_path):
    config = run_config("name=small", f"runs={tmp_path}", "model.removed_heads=[enc.0.1]")
    (tmp_path / "small").mkdir()
    save_config(config, tmp_path / "small" / "config.json")
    ask = ["--run", str(tmp_path / "small"), "--resume"]
    args = train.parser().parse(ask)
    assert train.configure(args, args.overrides).model.removed_heads == ["enc.0.1"]
    args = train.parser().parse([*ask, "model.removed_heads=null"])
    with pytest.raises(
        UserError, match=r"model\.removed_heads is None now, but the run .*enc\.0\.1"
    ):
        train.configure(args, args.overrides)


def test_your_own_folder_of_configuration(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /model: tiny\nseed: 42\n", encoding="utf-8"
    )
    config = compose("train", RunConfig, ["experiment=mine"], config_dir=str(tmp_path))
    assert (config.seed, config.model.d_model) == (42, 64)
    with pytest.raises(UserError, match=r"--config-dir .*missing is not a folder"):
        compose("train", RunConfig, [], config_dir=str(tmp_path / "missing"))


# Mistakes


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("model.d_modle=3", r"Unknown key model.d_modle: did you mean model.d_model\?"),
        ("train.max_update=3", r"Unknown key train.max_update: did you mean train.max_updates\?"),
        ("+model.d_modle=3", r"Unknown key model.d_modle: did you mean model.d_model\?"),
        ("++model.d_modle=3", r"Unknown key model.d_modle: did you mean model.d_model\?"),
        ("modle=small", r"Unknown key modle: did you mean model\?"),
        ("lr=3", r"Unknown key lr: did you mean optim.lr\?"),
        ("nothing_like_it=3", "Unknown key nothing_like_it"),
        ("data.root.x=3", r"data.root"),
        (
            "model=smal",
            r"There is no model=smal: did you mean small\? Choices: base, big, mini, small",
        ),
        ("experiment=multi30", r"There is no experiment=multi30: did you mean multi30k\?"),
        ("model.d_model=abc", "model.d_model: Value 'abc' of type 'str'"),
        ("model.d_model=1.5", "model.d_model: Value '1.5' of type 'float'"),
        ("optim.schedule=cosine", r"optim.schedule: Invalid value 'cosine', expected one of"),
        ("resume=maybe", "resume: Value 'maybe' is not a valid bool"),
        ("train=3", "train: "),
        ("model.d_model=null", r"model.d_model"),
        ("optim.lr=1,5", "optim.lr=1,5 gives several values: choose one, or .*--multirun"),
        ("hydra.run.dir=x", "Hydra's own settings are for --multirun"),
        ("model.d_model=${nothing}", "nothing"),
        ("model.dropout=2", r"model.dropout is 2.0, but must be in \[0, 1\)"),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_names_it(typed, meant):
    with pytest.raises(UserError, match=meant) as error:
        run_config(typed)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("typed", ["model.d_model", "~model.d_model", "=3", "3=4", "", "a b=3"])
def test_what_is_no_setting_is_said_to_be_none(typed):
    with pytest.raises(UserError, match="Cannot read"):
        run_config(typed)


def test_a_typo_in_a_file_names_file_and_key(tmp_path):
    for place, text in (("model", "d_modle: 3"), ("experiment", "# @package _global_\nmoodel: {}")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mine.yaml").write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"Unknown key model.d_modle in model/mine.yaml: did you"):
        compose("train", RunConfig, ["model=mine"], config_dir=str(tmp_path))
    with pytest.raises(UserError, match=r"Unknown key moodel in experiment/mine.yaml: did you"):
        compose("train", RunConfig, ["experiment=mine"], config_dir=str(tmp_path))


def test_a_file_that_is_no_yaml_names_file_and_line(tmp_path):
    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment" / "mine.yaml"
    file.write_text("# @package _global_\nseed: 3: 4\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"mine.yaml, line 2: not valid YAML \(mapping values are"):
        compose("train", RunConfig, ["experiment=mine"], config_dir=str(tmp_path))


def test_a_command_refuses_what_it_would_ignore():
    for entry, schema in (("translate", TranslateConfig), ("evaluate", EvaluateConfig)):
        with pytest.raises(UserError, match="Unknown key model: this command does not set it"):
            compose(entry, schema, ["model.d_model=3"])
        with pytest.raises(UserError, match=r"Unknown key decode.baem: did you mean decode.beam\?"):
            compose(entry, schema, ["decode.baem=3"])


@pytest.mark.parametrize("arguments", [["train", "model.d_modle=3"], ["train", "--naem", "x"]])
def test_mistakes_end_the_command_with_status_2(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


# Text


def test_a_text_option_takes_any_text_unquoted():
    texts = [text for text in AWKWARD if text[0] not in "'\"$"]
    for some in (texts[:9], texts[9:]):
        asked = dict(zip(train.FILE_FLAGS, some, strict=False))
        config = run_config("data=files", *(f"data.{key}={text}" for key, text in asked.items()))
        assert {key: getattr(config.data, key) for key in asked} == asked


def test_a_flag_takes_any_text():
    texts = [*AWKWARD, "", "null"]
    for some in (texts[:9], texts[9:18], texts[18:]):
        asked = dict(zip(train.FILE_FLAGS, some, strict=False))
        typed = [f"--{key.replace('_', '-')}={text}" for key, text in asked.items()]
        config = train.configure(train.parser().parse(typed), [])
        assert {key: getattr(config.data, key) for key in asked} == asked


def test_quotes_null_and_interpolations_keep_their_meaning():
    assert run_config('data.root="a b"').data.root == "a b"
    assert run_config("data.root='it\\'s'").data.root == "it's"
    assert run_config("data.root=x", "data.root=null").data.root is None
    assert run_config("data.source_lang=fr", "data.root=${data.source_lang}").data.root == "fr"


def test_of_two_settings_the_last_counts():
    config = run_config("data.root=a", "data.root='b'", "data.cache='a'", "data.cache=b",
                        "seed=1", "seed=2", "model.d_model=8", "model=tiny")  # fmt: skip
    assert (config.data.root, config.data.cache, config.seed) == ("b", "b", 2)
    assert config.model.d_model == 8  # an option beats a group, whatever the order


def test_home_is_expanded_as_a_shell_would():
    assert run_config("data.root=~/x").data.root == str(Path("~/x").expanduser())


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_quoted_text_means_itself_to_hydra(text):
    parsed = OverridesParser.create().parse_override(f"name={quote(text)}")
    assert str(parsed.value()) == text


def test_the_quoted_form_that_an_error_shows_is_accepted():
    with pytest.raises(UserError) as error:
        run_config("model=a(b")
    shown = str(error.value).split('"')[1]
    with pytest.raises(UserError, match=r"There is no model=a\(b"):
        run_config(shown)


# Sweeps


def test_a_sweep_is_the_product_of_its_values():
    assert sweep(["model=tiny,small", "name=x", "seed=range(1,3)"]) == [
        ["model=tiny", "name=x", "seed=1"],
        ["model=tiny", "name=x", "seed=2"],
        ["model=small", "name=x", "seed=1"],
        ["model=small", "name=x", "seed=2"],
    ]
    assert sweep([]) == [[]]
    assert sweep(["+model='a,b'"]) == [["model='a,b'"]]
    with pytest.raises(UserError, match="Cannot read 'seed=range"):
        sweep(["seed=range(1"])


# Help


def test_help_lists_every_option_with_its_default():
    text = options.describe_options(RunConfig)
    defaults = to_dict(RunConfig())
    for name in option_names(RunConfig):
        value = defaults
        for part in name.split("."):
            value = value[part]
        assert f"\n  {name}={'null' if value is None else value}".lower() in "\n" + text.lower()


def test_help_gives_the_comments_and_choices_of_the_source():
    text = options.describe_options(DecodeConfig)
    assert "  beam=5                              1 = greedy" in text
    assert "(beam | sample)" in text
    assert "  # How to translate." in text


def test_help_lists_every_file_with_its_headline():
    for group, found in options.groups().items():
        folder = resources.files("seq2seq.conf") / group
        names = {f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")}
        assert set(found) == names
        assert all(found.values())


def test_choices_are_told_from_values():
    assert is_choice("model=tiny")
    assert is_choice("model=tiny", "model")
    assert not is_choice("model=tiny", "data")
    assert not is_choice("model.d_model=3")
    assert not is_choice("seed=3")
    assert not is_choice("model")


# seq2seq train


@dataclasses.dataclass
class Result:
    interrupted: bool = False


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """What reaches the trainer; it leaves a run folder as the real one does."""
    from seq2seq.training import run

    calls = []

    def record(config, folder, *, resume, watch, world):
        calls.append((config, folder, resume))
        folder.mkdir(parents=True, exist_ok=resume)
        config.model.source_vocab = config.model.target_vocab = 50
        save_config(config, folder / "config.json")
        return Result()

    monkeypatch.setattr(run, "train", record)
    monkeypatch.chdir(tmp_path)
    return calls


def test_the_last_line_says_where_the_run_is(trained, capsys):
    assert main(["train", "--name", "x", "model=tiny", "train.max_updates=7"]) == 0
    assert capsys.readouterr().out.split("\n")[-2:] == ["run: runs/x", ""]
    [(config, folder, resume)] = trained
    assert (folder, resume) == (Path("runs/x"), False)
    assert (config.train.max_updates, config.model.d_model) == (7, 64)


def test_files_given_by_flags_are_the_data(trained):
    main(["train", "--train-source", "a=1,2.en", "--train-target", "Ü(1).de", "--dev-tsv", "d"])
    data = trained[0][0].data
    assert data.kind is DataKind.files
    assert (data.train_source, data.train_target, data.dev_tsv) == ("a=1,2.en", "Ü(1).de", "d")


def test_data_that_was_chosen_stays_chosen(trained):
    main(["train", "--test-source", "x", "--test-target", "y", "data=grammar"])
    assert trained[0][0].data.kind is DataKind.grammar  # reading the corpus refuses the idle files


def test_a_run_is_never_overwritten(trained, capsys):
    assert main(["train", "--name", "x"]) == 0
    assert main(["train", "--name", "x"]) == 2
    assert "runs/x exists already: choose another --name, or go on" in capsys.readouterr().err
    assert len(trained) == 1


def test_runs_without_a_name_do_not_collide(trained):
    for _ in range(3):
        assert main(["train"]) == 0
    assert len({folder for _, folder, _ in trained}) == 3


@pytest.mark.parametrize("name", ["", " ", ".", "..", "../x", "/tmp/x"])
def test_a_name_that_leads_elsewhere_is_refused(name, trained, capsys):
    assert main(["train", "--name", name]) == 2
    assert "must be the name of a folder inside runs" in capsys.readouterr().err


def test_dots_within_a_name_lead_nowhere(trained):
    assert main(["train", "--name", "v1..2"]) == 0
    assert trained[0][1] == Path("runs/v1..2")


def test_a_run_may_be_given_as_a_path(trained, capsys):
    assert main(["train", "--run", "some/where/x"]) == 0
    assert trained[0][1] == Path("some/where/x")
    assert main(["train", "--run", "a/b", "--name", "x"]) == 2
    assert "leave out --name and --runs" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["--resume", "resume=true"])
def test_resuming_takes_the_settings_of_the_run(how, trained):
    main(["train", "--name", "x", "model=tiny", "optim.lr=0.5", "seed=4"])
    assert main(["train", "--name", "x", how, "train.max_updates=90"]) == 0
    (before, *_), (after, folder, resume) = trained
    assert (folder, resume) == (Path("runs/x"), True)
    expected = dataclasses.replace(before, resume=True)
    expected.train = dataclasses.replace(before.train, max_updates=90)
    assert after == expected


def test_resuming_with_the_same_arguments_changes_nothing(trained):
    arguments = ["train", "--name", "x", "experiment=copy", "--train-tsv", "pairs.tsv"]
    main(arguments)
    assert main([*arguments, "--resume"]) == 0
    (before, *_), (after, *_) = trained
    assert after == dataclasses.replace(before, resume=True)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("model.d_model=32", "model.d_model is 32 now, .* trained with 64"),
        ("model=small", "model.d_model is 256 now"),
        ("tokenizer.kind=bpe", "tokenizer.kind is bpe now"),
        ("data.limit=5", "data.limit is 5 now"),
        ("seed=2", "seed is 2 now"),
    ],
)
def test_resuming_refuses_what_contradicts_the_weights(change, key, trained):
    main(["train", "--name", "x", "model=tiny"])
    args = train.parser().parse(["--name", "x", "--resume", change])
    with pytest.raises(UserError, match=key):
        train.configure(args, args.overrides)


def test_resuming_may_change_what_does_not(trained):
    main(["train", "--name", "x", "model=tiny"])
    changes = ["model.dropout=0.4", "optim.lr=1e-4", "data.cache=c", "decode.beam=2", "threads=1"]
    assert main(["train", "--name", "x", "--resume", *changes]) == 0
    config = trained[1][0]
    assert (config.model.dropout, config.data.cache, config.threads) == (0.4, "c", 1)


def test_resuming_nothing_is_an_error(trained, capsys):
    assert main(["train", "--resume"]) == 2
    assert "Which run is to go on?" in capsys.readouterr().err
    assert main(["train", "--resume", "--name", "missing"]) == 2
    assert "runs/missing/config.json does not exist" in capsys.readouterr().err


def test_a_multirun_trains_every_point_under_its_own_name(trained, capsys):
    assert main(["train", "-m", "--name", "x", "seed=1,2", "model=tiny"]) == 0
    assert [(config.seed, folder.name) for config, folder, _ in trained] == [(1, "x-1"), (2, "x-2")]
    assert capsys.readouterr().out.split("\n")[-2] == "run: runs/x-2"
    assert main(["train", "-m", "name=a,b", "model=tiny"]) == 0
    assert [folder.name for _, folder, _ in trained[2:]] == ["a", "b"]
    assert main(["train", "-m", "name=c,d", "seed=1,2", "model=tiny"]) == 0
    assert [folder.name for _, folder, _ in trained[4:]] == ["c-1", "c-2", "d-1", "d-2"]


def test_a_mistake_in_one_point_of_a_multirun_is_found_before_the_first_trains(trained):
    assert main(["train", "-m", "model.dropout=0.1,7"]) == 2
    assert trained == []


def test_cfg_shows_the_configuration_and_trains_nothing(trained, capsys):
    assert main(["train", "--cfg", "job", "experiment=multi30k", "seed=3"]) == 0
    from omegaconf import OmegaConf

    shown = OmegaConf.to_container(OmegaConf.create(capsys.readouterr().out))
    assert from_dict(RunConfig, shown) == run_config("experiment=multi30k", "seed=3")
    assert trained == []


def test_an_interrupted_run_has_the_status_of_an_interrupt(trained, monkeypatch, capsys):
    from seq2seq.training import run

    monkeypatch.setattr(run, "train", lambda *_, resume, watch, world: Result(interrupted=True))
    assert main(["train", "--name", "x"]) == 130
    assert capsys.readouterr().out == "run: runs/x\n"


def test_what_is_stored_is_what_was_typed(trained):
    main(["train", "--name", "Ё", "--train-tsv", "我.tsv", "decode.alpha=0.25"])
    stored = json.loads(Path("runs/Ё/config.json").read_text(encoding="utf-8"))
    assert (stored["name"], stored["data"]["train_tsv"]) == ("Ё", "我.tsv")
    assert stored["decode"]["alpha"] == 0.25


@pytest.mark.parametrize(
    ("lines", "said", "width"),
    [
        (train.SMALL_TEXT - 1, [], 128),
        (train.SMALL_TEXT, [], 256),
        (5, ["model=small"], 256),
        (5, ["model.d_ff=64"], 256),
        (5, ["experiment=copy"], 128),
    ],
)
def test_a_small_text_gets_a_small_model_unless_the_user_chose(lines, said, width, trained):
    Path("a").write_text("one line\n" * lines, encoding="utf-8")
    main(["train", "--name", "x", "--train-source", "a", "--train-target", "a", *said])
    config = trained[0][0]
    assert config.model.d_model == width
    assert (config.optim.lr == 3e-3) == (not said and lines < train.SMALL_TEXT)

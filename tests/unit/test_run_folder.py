"""Reading run folders: whole ones, and those that are damaged, foreign or hostile."""

import hashlib
import json
import os
import pickle
import shutil

import pytest
import safetensors.torch
import torch

from seq2seq.config import TokenizerConfig
from seq2seq.config_file import load_config, save_config
from seq2seq.data.tokenizer import JOINT, Tokenizer, train_tokenizer
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import (
    CONFIG,
    CORPUS,
    TRAINING,
    WEIGHTS,
    check_vocabulary,
    load_run,
    load_weights,
    step_folder,
    step_folders,
    step_of,
    trained_on,
    weights_hash,
)
from seq2seq.training.checkpoint import read_training_state

CPU = torch.device("cpu")


def edit(path, change):
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_the_best_checkpoint_ready_to_use(tiny_run, tiny_tokenizer):
    run = load_run(tiny_run, device="cpu")
    assert not run.model.training
    assert (run.path, run.step, run.device) == (tiny_run, 5, CPU)
    assert run.config == load_config(tiny_run / CONFIG)
    text = ["the small dog"]
    assert run.tokenizer.encode_source(text) == tiny_tokenizer.encode_source(text)
    saved = safetensors.torch.load_file(tiny_run / "step-5" / WEIGHTS)
    for name, weight in saved.items():
        assert torch.equal(run.model.state_dict()[name], weight)
    assert run.model.output.weight is run.model.target_embedding.table.weight


@pytest.mark.parametrize(
    ("checkpoint", "step"), [("best", 5), ("last", 10), ("step-10", 10), ("5", 5)]
)
def test_checkpoints_by_name(tiny_run, checkpoint, step):
    assert load_run(str(tiny_run), device="cpu", checkpoint=checkpoint).step == step
    assert step_folder(tiny_run, checkpoint) == tiny_run / f"step-{step}"


def test_an_average_is_a_checkpoint_without_a_number(tiny_run):
    shutil.copytree(tiny_run / "step-10", tiny_run / "average-2")
    assert load_run(tiny_run, device="cpu", checkpoint="average-2").step == 0
    assert step_of(tiny_run / "average-2") == 0


def test_steps_are_ordered_by_number_and_only_complete_ones_count(tiny_run):
    shutil.copytree(tiny_run / "step-10", tiny_run / "step-100")
    shutil.copytree(tiny_run / "step-10", tiny_run / ".step-abc")
    shutil.copytree(tiny_run / "step-10", tiny_run / "step-old")
    (tiny_run / "step-7").mkdir()
    assert [folder.name for folder in step_folders(tiny_run)] == ["step-5", "step-10", "step-100"]


def test_a_hash_of_the_weights_tells_checkpoints_apart(tiny_run):
    content = (tiny_run / "step-5" / WEIGHTS).read_bytes()
    assert weights_hash(tiny_run, "best") == hashlib.sha256(content).hexdigest()[:12]
    assert weights_hash(tiny_run, "last") != weights_hash(tiny_run, "best")
    with pytest.raises(UserError, match="no checkpoint 7"):
        weights_hash(tiny_run, "7")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [('{"fingerprint": "abc"}', "abc"), (None, None), ("{", None), ("{}", None), ("[]", None)],
)
def test_the_text_that_a_run_was_trained_on(tiny_run, content, wanted):
    if content is not None:
        (tiny_run / CORPUS).write_text(content, encoding="utf-8")
    assert trained_on(tiny_run) == wanted


# What is missing


@pytest.mark.parametrize("checkpoint", ["step-7", "7", "best-of-all"])
def test_a_checkpoint_that_is_not_there_names_those_that_are(tiny_run, checkpoint):
    shutil.copytree(tiny_run / "step-10", tiny_run / "average-2")
    shutil.copytree(tiny_run / "step-10", tiny_run / ".step-building")
    with pytest.raises(
        UserError, match=r"no checkpoint .*; there are: step-5, step-10, average-2\."
    ):
        load_run(tiny_run, device="cpu", checkpoint=checkpoint)


def test_a_step_without_weights_is_not_named_among_those_that_are(tiny_run):
    (tiny_run / "step-5" / WEIGHTS).unlink()
    with pytest.raises(UserError, match=r"no checkpoint step-5; there are: step-10\."):
        load_run(tiny_run, device="cpu")


def test_no_pointer(tiny_run):
    (tiny_run / "best.json").unlink()
    with pytest.raises(UserError, match="no best checkpoint; there are: step-5, step-10"):
        load_run(tiny_run, device="cpu")
    for step in step_folders(tiny_run):
        shutil.rmtree(step)
    with pytest.raises(UserError, match="no best checkpoint; training has saved none yet"):
        load_run(tiny_run, device="cpu")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"step": null}', '{"step": "x"}', "\xff"]
)
def test_a_damaged_pointer(tiny_run, content):
    (tiny_run / "best.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=r"best.json is damaged: .* there are: step-5, step-10"):
        load_run(tiny_run, device="cpu")


def test_not_a_run_folder(tmp_path, tiny_run):
    with pytest.raises(UserError, match="nowhere is not a folder"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match="json is not a folder"):
        load_run(tiny_run / CONFIG)
    with pytest.raises(UserError, match=r"config.json does not exist: is .* a run folder"):
        load_run(tmp_path)


def test_no_tokenizer(tiny_run):
    (tiny_run / JOINT).unlink()
    with pytest.raises(UserError, match="tokenizer"):
        load_run(tiny_run, device="cpu")


# What does not belong together


def test_another_tokenizer_in_its_place_names_both_sizes(tiny_run):
    trained = load_config(tiny_run / CONFIG).model.source_vocab
    other = train_tokenizer(TokenizerConfig(kind="char"), ["abc"], ["xyz"])
    other.save(tiny_run)
    with pytest.raises(UserError) as caught:
        load_run(tiny_run, device="cpu")
    message = str(caught.value)
    assert f"{other.source_vocab} source and {other.target_vocab} target pieces" in message
    assert f"trained with {trained} and {trained}" in message
    assert "size mismatch" not in message


@pytest.mark.parametrize("side", ["source_vocab", "target_vocab"])
def test_either_side_counts(tiny_run, side):
    config = load_config(tiny_run / CONFIG)
    tokenizer = Tokenizer.load(tiny_run, config.tokenizer.normalization)
    check_vocabulary(config, tokenizer, tiny_run)
    setattr(config.model, side, 5)
    with pytest.raises(UserError, match="put back the run's own files"):
        check_vocabulary(config, tokenizer, tiny_run)


@pytest.mark.parametrize(
    ("key", "value"),
    [("d_ff", 48), ("decoder_layers", 1), ("decoder_layers", 3), ("tying", "none")],
)
def test_weights_of_another_architecture(tiny_run, key, value):
    edit(tiny_run / CONFIG, lambda content: content["model"].update({key: value}))
    with pytest.raises(UserError, match=r"does not fit the model of config.json") as caught:
        load_run(tiny_run, device="cpu")
    assert "\n" not in str(caught.value)


# What an older or newer program wrote


def test_a_newer_format_is_refused(tiny_run):
    edit(tiny_run / CONFIG, lambda content: content.update(format_version=99))
    with pytest.raises(UserError, match="format version 99; this program reads version 1"):
        load_run(tiny_run, device="cpu")


def test_an_unknown_key_is_refused_with_the_nearest(tiny_run):
    edit(tiny_run / CONFIG, lambda content: content["model"].update(encoder_layer=2))
    with pytest.raises(
        UserError, match=r"model.encoder_layer .* did you mean model.encoder_layers"
    ):
        load_run(tiny_run, device="cpu")


def test_keys_that_an_older_file_lacks_take_their_defaults(tiny_run):
    def strip(content):
        del content["decode"], content["model"]["activation"], content["train"]["ema"]

    edit(tiny_run / CONFIG, strip)
    run = load_run(tiny_run, device="cpu")
    assert run.config.decode.beam == 5
    assert run.config.model.activation == "relu"


# What is damaged or hostile


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "pickle"])
def test_damaged_weights(tiny_run, damage):
    file = tiny_run / "step-5" / WEIGHTS
    content = file.read_bytes()
    file.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "garbage": b"\x00" * 1000,
            "pickle": pickle.dumps({"a": 1}),
        }[damage]
    )
    with pytest.raises(UserError, match=r"model.safetensors is damaged"):
        load_run(tiny_run, device="cpu")


def test_weights_that_are_missing_or_a_folder(tiny_run, tmp_path):
    model = Transformer(load_config(tiny_run / CONFIG).model)
    with pytest.raises(UserError, match="does not exist"):
        load_weights(model, tmp_path / WEIGHTS)
    with pytest.raises(UserError, match="is damaged"):
        load_weights(model, tmp_path)


class Hostile:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_code_in_the_training_state_is_refused_and_not_run(tiny_run, tmp_path):
    file, proof = tiny_run / "step-10" / TRAINING, tmp_path / "proof"
    content = {"progress": {}, "optimizer": Hostile(f"touch {proof}")}
    torch.save(content, file)
    with pytest.raises(UserError, match=r"training.pt cannot be read safely"):
        read_training_state(tiny_run, CPU)
    assert not proof.exists()
    torch.load(file, weights_only=False)  # the test's own proof: it would have run
    assert proof.exists()


def test_code_in_the_place_of_weights_is_refused_and_not_run(tiny_run, tmp_path):
    proof = tmp_path / "proof"
    torch.save(Hostile(f"touch {proof}"), tiny_run / "step-5" / WEIGHTS)
    with pytest.raises(UserError, match="is damaged"):
        load_run(tiny_run, device="cpu")
    assert not proof.exists()


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_a_training_state_that_is_damaged_or_missing(tiny_run, content):
    file = tiny_run / "step-10" / TRAINING
    file.unlink()
    wanted = "is missing: without it this run cannot be resumed"
    if content is not None:
        file.write_bytes(content)
        wanted = "cannot be read safely"
    with pytest.raises(UserError, match=wanted):
        read_training_state(tiny_run, CPU)


def test_only_the_newest_step_keeps_what_resuming_needs_and_it_is_read(tiny_run):
    progress, state, folder = read_training_state(tiny_run, CPU)
    assert progress.update == 10
    assert folder == tiny_run / "step-10"
    assert state["optimizer"]["state"][0]["exp_avg"].tolist() == [1, 1, 1]


# Devices


def test_files_name_no_device(tiny_run):
    header = (tiny_run / "step-5" / WEIGHTS).read_bytes()[:8000]
    assert b"cuda" not in header
    assert b"cpu" not in header
    config = load_config(tiny_run / CONFIG)
    config.device = "cuda:7"  # trained elsewhere
    save_config(config, tiny_run / CONFIG)
    assert load_run(tiny_run).device.type in {"cpu", "cuda", "mps"}
    assert load_run(tiny_run, device="cpu").device == CPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_saved_on_a_gpu_loads_on_a_cpu(tiny_run):
    from seq2seq.training.checkpoint import Progress, save_model, write_step

    model = load_run(tiny_run, device="cuda").model
    state = {"optimizer": {"exp_avg": torch.ones(3, device="cuda")}}
    write_step(tiny_run, Progress(update=20), lambda file: save_model(model, file), state)
    loaded = load_run(tiny_run, device="cpu", checkpoint="last")
    assert {p.device for p in loaded.model.parameters()} == {CPU}
    assert read_training_state(tiny_run, CPU)[1]["optimizer"]["exp_avg"].device == CPU
    source = torch.tensor([[5, 6, 3]])
    on_gpu = model(source.cuda(), source.cuda()).cpu()
    assert torch.allclose(loaded.model(source, source), on_gpu, atol=1e-4)

"""Run folders of models without some heads: what is in them, and how training goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from training_samples import configuration, tokenizer, trained, trainer

from seq2seq.analysis.intervene import HeadId, attentions, switched_off
from seq2seq.choices import Sharding
from seq2seq.cli.average import average
from seq2seq.config_file import load_config, save_config
from seq2seq.data.batching import make_batch
from seq2seq.errors import UserError
from seq2seq.model.pruning import remove
from seq2seq.model.transformer import parameter_count
from seq2seq.run_folder import CONFIG, load_run
from seq2seq.training.averaging import average_checkpoints
from seq2seq.training.distributed import World
from seq2seq.training.parallel import insist_on_heads
from seq2seq.training.pruned_run import Resumption, write_pruned_run

GONE = [HeadId("enc", 0, 0), HeadId("dec", 0, 1), HeadId("cross", 0, 0), HeadId("cross", 0, 1)]
# Dropout must not depend on how many heads there are, or the two ways could not be compared.
PLAIN = {"validate_every": 3, "keep_last": 3}


def made(run: Path, **options):
    """A run of six updates, with checkpoints after 3 and 6."""
    config = configuration(max_updates=6, **{**PLAIN, **options})
    trained(run, config)
    tokenizer().save(run)
    save_config(config, run / CONFIG)
    return run


def batch():
    words = tokenizer()
    return make_batch(words.encode_source(["1 7 1", "3 1 9"]), words.encode_target(["1 1", "9 3"]))


def logits(model):
    one = batch()
    with torch.no_grad():
        return model(one.source, one.target_in)


def test_the_folder_holds_the_smaller_model(tmp_path):
    run = load_run(made(tmp_path / "run"), device="cpu", checkpoint="last")
    found = write_pruned_run(run, GONE, tmp_path / "new" / "small", which="last")
    small = load_run(found.path, device="cpu")
    assert torch.equal(logits(small.model), logits(remove(run.model, GONE)))
    with switched_off(run.model, GONE):
        assert logits(small.model) == pytest.approx(logits(run.model), abs=1e-5)
    assert small.step == 6
    assert small.config.model.removed_heads == [str(head) for head in GONE]
    assert (small.config.name, small.config.runs) == ("small", str(tmp_path / "new"))
    assert found.before - found.after == 4 * (2 * 17 * 8 + 17 * 8 + 16 * 8)  # D = 16, Dk = Dv = 8
    assert parameter_count(small.model) == found.after
    origin = json.loads((found.path / "pruned.json").read_text("utf-8"))
    assert origin["run"] == str(tmp_path / "run")
    assert origin["checkpoint"] == "step-6"
    assert origin["removed_heads"] == [str(head) for head in GONE]
    assert origin["parameters"] == [found.before, found.after]
    names = {path.name for path in found.path.iterdir()}
    assert names == {"config.json", "tokenizer.model", "step-6", "best.json", "last.json",
                     "pruned.json"}  # fmt: skip
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["small"]


@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_training_goes_on_as_with_the_heads_at_0(tmp_path, ema):
    """Three more updates of the smaller run, and of the whole one with those heads held at 0.

    Adam's moments of what is left must be those of before: with others, weights would differ.
    """
    config = configuration(max_updates=9, ema=ema, **PLAIN)
    run = made(tmp_path / "run", ema=ema)
    loaded = load_run(run, device="cpu", checkpoint="last")
    small = write_pruned_run(loaded, GONE, tmp_path / "small", which="last")
    assert small.resumption is Resumption.moments
    with trainer(run, config) as whole:
        whole.resume()
        with switched_off(whole.model, GONE):
            whole.run()
    smaller = configuration(max_updates=9, ema=ema, **PLAIN)
    smaller.model = load_config(small.path / CONFIG).model
    result = trained(small.path, smaller, resume=True)
    assert result.progress.update == 9
    expected = remove(load_run(run, device="cpu", checkpoint="step-9").model, GONE)
    found = load_run(small.path, device="cpu", checkpoint="step-9").model
    for (name, one), other in zip(expected.named_parameters(), found.parameters(), strict=True):
        if name.endswith("w_k.bias"):
            continue  # softmax ignores it, so that Adam blows up a gradient of rounding errors
        assert one.detach().numpy() == pytest.approx(other.detach().numpy(), abs=2e-5), name
    start = load_run(tmp_path / "run", device="cpu", checkpoint="step-6").model
    moved = attentions(found)["enc", 0].w_q.weight - attentions(start)["enc", 0].w_q.weight[8:]
    assert moved.abs().max() > 1e-3  # far more than the tolerance


def test_the_first_validation_of_the_smaller_model_is_its_best(tmp_path):
    """What the whole model reached is no measure for the smaller one."""
    from training_samples import Scripted

    run = tmp_path / "run"
    config = configuration(max_updates=6, **PLAIN)
    trained(run, config, Scripted([80.0, 90.0]))
    tokenizer().save(run)
    save_config(config, run / CONFIG)
    loaded = load_run(run, device="cpu", checkpoint="last")
    small = write_pruned_run(loaded, GONE, tmp_path / "small", which="last").path
    assert json.loads((small / "best.json").read_text("utf-8"))["step"] == 6
    smaller = configuration(max_updates=12, **PLAIN)
    smaller.model = load_config(small / CONFIG).model
    result = trained(small, smaller, Scripted([20.0, 10.0]), resume=True)
    assert (result.progress.best_step, result.progress.best_value) == (9, 20.0)
    assert load_run(small, device="cpu").step == 9


def test_an_earlier_checkpoint_begins_with_new_moments(tmp_path):
    run = load_run(made(tmp_path / "run", ema=0.5), device="cpu", checkpoint="step-3")
    found = write_pruned_run(run, GONE, tmp_path / "small", which="step-3")
    assert found.resumption is Resumption.anew
    state = torch.load(found.path / "step-3" / "training.pt", weights_only=True)
    assert state["optimizer"]["state"] == {}
    assert "raw_weights" not in state
    smaller = configuration(max_updates=6, ema=0.5, **PLAIN)
    smaller.model = load_config(found.path / CONFIG).model
    assert trained(found.path, smaller, resume=True).progress.update == 6


def test_an_average_goes_on_from_the_last_update(tmp_path):
    path = made(tmp_path / "run")
    average(path, 2, "mean")
    run = load_run(path, device="cpu", checkpoint="mean")
    found = write_pruned_run(run, GONE, tmp_path / "small", which="mean")
    assert found.resumption is Resumption.anew
    small = load_run(found.path, device="cpu")
    assert small.step == 6
    assert torch.equal(logits(small.model), logits(remove(run.model, GONE)))


def test_a_run_without_training_state_gives_one_without(tmp_path):
    path = made(tmp_path / "run")
    (path / "step-6" / "training.pt").unlink()
    run = load_run(path, device="cpu")
    found = write_pruned_run(run, GONE, tmp_path / "small")
    assert found.resumption is Resumption.never
    assert torch.equal(logits(load_run(found.path).model), logits(remove(run.model, GONE)))
    smaller = load_config(found.path / CONFIG)
    with trainer(found.path, smaller) as it, pytest.raises(UserError, match="cannot be resumed"):
        it.resume()


def test_again_from_the_smaller_run(tmp_path):
    run = load_run(made(tmp_path / "run"), device="cpu", checkpoint="last")
    once = write_pruned_run(run, GONE[:1], tmp_path / "once", which="last")
    again = write_pruned_run(load_run(once.path, device="cpu"), GONE, tmp_path / "again")
    assert again.resumption is Resumption.moments
    assert again.before == once.after
    model = load_run(again.path, device="cpu").model
    assert torch.equal(logits(model), logits(remove(run.model, GONE)))
    assert attentions(model)["dec", 0].head_ids == [0]
    assert attentions(model)["cross", 0].head_ids == []
    smaller = configuration(max_updates=7, **PLAIN)
    smaller.model = load_config(again.path / CONFIG).model
    assert trained(again.path, smaller, resume=True).progress.update == 7


def test_nothing_is_written_over_and_nothing_half_done_is_left(tmp_path, monkeypatch):
    run = load_run(made(tmp_path / "run"), device="cpu")
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="there exists already: choose another folder"):
        write_pruned_run(run, GONE, tmp_path / "there")
    with pytest.raises(UserError, match=r"but the heads of this model are enc\.0\.0 to"):
        write_pruned_run(run, ["enc.0.2"], tmp_path / "small")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--out .*file/small: "):
        write_pruned_run(run, GONE, tmp_path / "file" / "small")

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr("seq2seq.training.pruned_run.checkpoint.write_step", fail)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(OSError, match="full"):
        write_pruned_run(run, GONE, tmp_path / "small")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_only_a_model_in_pieces_needs_heads_everywhere():
    two = World()
    two.size = 2
    config = configuration(sharding="full")
    config.model.removed_heads = [str(head) for head in GONE]
    with pytest.raises(UserError, match=r"any head, here cross\.0: use train\.sharding=none"):
        insist_on_heads(config, two)
    insist_on_heads(config, World())
    config.train.sharding = Sharding.none
    insist_on_heads(config, two)
    config.train.sharding = Sharding.full
    config.model.removed_heads = [str(head) for head in GONE[:3]]
    insist_on_heads(config, two)


class TestAverages:
    def steps(self, tmp_path, *choices):
        run = load_run(made(tmp_path / "run"), device="cpu", checkpoint="last")
        return [
            write_pruned_run(run, heads, tmp_path / f"small-{i}", which="last").path / "step-6"
            for i, heads in enumerate(choices)
        ]

    def test_models_without_different_heads_are_refused(self, tmp_path):
        """Both have weights of one shape."""
        one, other = self.steps(tmp_path, ["enc.0.0"], ["enc.0.1"])
        with pytest.raises(
            UserError, match=r"lacks enc\.0\.1, but .* lacks enc\.0\.0: models with different heads"
        ):
            average_checkpoints([one, other])
        with pytest.raises(UserError, match=r"lacks no head, but .* lacks enc\.0\.0: models with"):
            average_checkpoints([one, tmp_path / "run" / "step-6"])

    def test_an_average_of_a_smaller_run(self, tmp_path):
        (step,) = self.steps(tmp_path, GONE)
        run = step.parent
        smaller = configuration(max_updates=9, **PLAIN)
        smaller.model = load_config(run / CONFIG).model
        trained(run, smaller, resume=True)
        average(run, 2, "mean")
        loaded = load_run(run, device="cpu", checkpoint="mean")
        assert attentions(loaded.model)["cross", 0].head_ids == []
        files = [
            safetensors.torch.load_file(run / f"step-{n}" / "model.safetensors") for n in (6, 9)
        ]
        for name, weight in files[0].items():
            mean = (weight + files[1][name]) / 2
            assert loaded.model.state_dict()[name] == pytest.approx(mean, abs=1e-6)

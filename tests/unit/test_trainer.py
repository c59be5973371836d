"""Training: what one update does, when it stops, what it keeps, and that resuming is exact."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from training_samples import Scripted, configuration, metrics, trained, trainer

from seq2seq.choices import Metric, Schedule
from seq2seq.config import ModelConfig
from seq2seq.errors import UserError
from seq2seq.run_folder import TRAINING, WEIGHTS, step_folders
from seq2seq.training.optim import learning_rate


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(run / f"step-{step}" / WEIGHTS)


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    for name, weight in one.items():
        assert torch.equal(weight, other[name]), name


def training_state(run: Path, step: int) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(run / f"step-{step}" / TRAINING, weights_only=True)
    state["progress"].pop("seconds")
    return state


def pair_log(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The pairs of every batch, as they are loaded."""
    from seq2seq.data.batching import BatchPlan

    seen: list[list[int]] = []
    load = BatchPlan.load
    monkeypatch.setattr(
        BatchPlan, "load", lambda plan, pairs: seen.append(pairs.tolist()) or load(plan, pairs)
    )
    return seen


EPOCH = 7  # batches


def test_an_epoch_of_the_samples(tmp_path: Path) -> None:
    with trainer(tmp_path / "run", configuration()) as it:
        assert len(it.plan.epoch(0)) == EPOCH


RESUMES = {
    "in the middle of an epoch and of warm-up": {"max_updates": 6, "warmup": 100},
    "in the middle of accumulation's epoch": {"max_updates": 6, "accumulate": 3},
    "across the end of an epoch": {"max_updates": 14},
    "at the end of an epoch": {"max_updates": 2 * EPOCH},
    "with a moving average": {"max_updates": 6, "ema": 0.9, "accumulate": 2},
    "falling to 0 at the end": {"max_updates": 6, "schedule": Schedule.linear},
    "by epochs": {"max_epochs": 3, "schedule": Schedule.linear},
}


@pytest.mark.parametrize("name", RESUMES)
def test_half_and_half_equals_the_whole_bit_for_bit(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout; weights, optimizer, position, learning rates and losses."""
    options = RESUMES[name]
    seen = pair_log(monkeypatch)
    whole = trained(tmp_path / "whole", configuration(**options))
    end = whole.progress.update
    uninterrupted = seen.copy()
    seen.clear()

    with trainer(tmp_path / "half", configuration(**options)) as it:
        update = it._update
        monkeypatch.setattr(it, "_update", lambda b: (update(b), stop_at(it, end // 2)))
        result = it.run()
    assert (result.reason, result.progress.update) == ("interrupted", end // 2)
    torch.manual_seed(99)  # whatever the state of the generators is now
    result = trained(tmp_path / "half", configuration(**options), resume=True)
    assert (result.reason, result.progress.update) == ("finished", end)

    assert seen == uninterrupted
    assert_equal(weights(tmp_path / "whole", end), weights(tmp_path / "half", end))
    one, other = (training_state(tmp_path / run, end) for run in ("whole", "half"))
    assert one["progress"] == other["progress"]
    for index, moments in one["optimizer"]["state"].items():
        for moment, value in moments.items():
            assert torch.equal(value, other["optimizer"]["state"][index][moment])
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "half")
    assert len(metrics(tmp_path / "whole")) == end


def stop_at(it: Any, update: int) -> None:
    if it.progress.update == update:
        it.stop()


def test_dropout_differs_between_updates(tmp_path: Path) -> None:
    """Each update has random numbers of its own, though resuming stores none."""
    config = configuration(max_updates=1)
    with trainer(tmp_path / "run", config) as it:
        batch = [it.plan.load(it.plan.epoch(0)[0])]
        losses = []
        for update in (1, 2, 1):
            it.progress.update = update - 1
            it.model.train()
            torch.manual_seed(config.seed * 1_000_003 + update)
            losses.append(float(it._backward(batch[0], 1)))
    assert losses[0] == losses[2] != losses[1]


def test_two_equal_runs_are_equal_and_another_seed_is_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained(tmp_path / name, configuration(max_updates=5, seed=seed))
    assert_equal(weights(tmp_path / "a", 5), weights(tmp_path / "b", 5))
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    assert metrics(tmp_path / "a") != metrics(tmp_path / "c")


def test_training_longer_than_planned_goes_on_the_same_way(tmp_path: Path) -> None:
    """A larger max_updates on resume: the rates are those of a run that was longer at once."""
    trained(tmp_path / "long", configuration(max_updates=10, warmup=20))
    trained(tmp_path / "twice", configuration(max_updates=4, warmup=20))
    trained(tmp_path / "twice", configuration(max_updates=10, warmup=20), resume=True)
    assert_equal(weights(tmp_path / "long", 10), weights(tmp_path / "twice", 10))
    assert metrics(tmp_path / "long") == metrics(tmp_path / "twice")


@pytest.mark.parametrize("schedule", list(Schedule))
def test_the_logged_rate_is_the_formula_s(tmp_path: Path, schedule: Schedule) -> None:
    config = configuration(max_updates=12, schedule=schedule, warmup=4)
    trained(tmp_path / "run", config)
    logged = [line["lr"] for line in metrics(tmp_path / "run")]
    formula = [learning_rate(config.optim, 16, u, (u - 1) / 12) for u in range(1, 13)]
    assert logged == formula
    assert min(logged) > 0


@pytest.mark.parametrize("warmup", [0, 1, 500])
def test_any_warm_up_trains(tmp_path: Path, warmup: int) -> None:
    trained(tmp_path / "run", configuration(max_updates=3, warmup=warmup, schedule=Schedule.linear))
    assert all(0 < line["lr"] <= 3e-3 for line in metrics(tmp_path / "run"))
    assert weights(tmp_path / "run", 3).keys()


def test_a_single_epoch_of_a_single_batch_learns(tmp_path: Path) -> None:
    """Its only update is not the end of the schedule, but its beginning."""
    options = {"max_epochs": 1, "max_tokens": 10_000, "warmup": 0, "schedule": Schedule.linear}
    result = trained(tmp_path / "run", configuration(**options))
    assert result.progress.update == 1
    assert [line["lr"] for line in metrics(tmp_path / "run")] == [3e-3]


def test_linear_by_the_clock_reaches_0_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that advances by one second at every update, of one minute in all."""
    now = [100.0]
    monkeypatch.setattr("seq2seq.training.trainer.time.perf_counter", lambda: now[0])
    config = configuration(max_minutes=1, schedule=Schedule.linear, warmup=1, lr=1.0)
    with trainer(tmp_path / "run", config) as it:
        backward = it._backward

        def slow(batch: Any, tokens: int) -> torch.Tensor:
            now[0] += 1.0
            return backward(batch, tokens)

        monkeypatch.setattr(it, "_backward", slow)
        result = it.run()
    assert result.progress.update == 60
    rates = [line["lr"] for line in metrics(tmp_path / "run")]
    assert rates == pytest.approx([1 - n / 60 for n in range(60)])


def test_accumulation_is_one_update_of_all_its_batches(tmp_path: Path) -> None:
    """Its gradient equals that of one batch of all the pairs, and so do Adam's moments."""
    config = configuration(max_updates=1, accumulate=EPOCH, clip_norm=0.0)
    config.model.dropout = config.model.embedding_dropout = 0.0
    trained(tmp_path / "parts", config)
    config = configuration(max_updates=1, max_tokens=100_000, clip_norm=0.0)
    config.model.dropout = config.model.embedding_dropout = 0.0
    trained(tmp_path / "whole", config)
    parts, whole = (training_state(tmp_path / run, 1) for run in ("parts", "whole"))
    assert parts["progress"]["tokens"] == whole["progress"]["tokens"]
    assert (parts["progress"]["epoch"], parts["progress"]["batch"]) == (1, 0)
    for index, moments in parts["optimizer"]["state"].items():
        expected = whole["optimizer"]["state"][index]["exp_avg"]
        assert torch.allclose(moments["exp_avg"], expected, rtol=1e-3, atol=1e-7)
    (one,), (other,) = metrics(tmp_path / "parts"), metrics(tmp_path / "whole")
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
    assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)


def test_the_gradient_is_clipped(tmp_path: Path) -> None:
    """Adam's first moment after one update is a tenth of the clipped gradient."""
    trained(tmp_path / "run", configuration(max_updates=1, clip_norm=0.01))
    moments = training_state(tmp_path / "run", 1)["optimizer"]["state"].values()
    norm = math.sqrt(sum(float(m["exp_avg"].double().square().sum()) for m in moments))
    assert norm == pytest.approx(0.001, rel=1e-3)
    assert metrics(tmp_path / "run")[0]["gradient_norm"] > 0.01  # logged before clipping


def poison(it: Any, monkeypatch: pytest.MonkeyPatch, bad: range, value: float = math.nan) -> None:
    """Let the gradients of some updates not be finite."""
    backward = it._backward

    def poisoned(batch: Any, tokens: int) -> torch.Tensor:
        plain = backward(batch, tokens)
        if it.progress.update + 1 in bad:
            next(iter(it.model.parameters())).grad[0, 0] = value
            return plain * value
        return plain

    monkeypatch.setattr(it, "_backward", poisoned)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_update_that_is_not_finite_is_skipped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    with trainer(tmp_path / "run", configuration(max_updates=9, max_skips=3, ema=0.5)) as it:
        poison(it, monkeypatch, range(4, 6), value)
        update, states = it._update, []

        def watched(batches: Any) -> None:
            update(batches)
            states.append(
                [*(p.detach().clone() for p in it.model.parameters()), *it.average.shadow]  # type: ignore[union-attr]
            )
            states[-1] = [tensor.clone() for tensor in states[-1]]

        monkeypatch.setattr(it, "_update", watched)
        result = it.run()
    assert result.progress.skipped == 2
    assert result.progress.update == 9
    for before, after in ((2, 3), (3, 4)):  # updates 4 and 5
        assert all(map(torch.equal, states[before], states[after]))
    assert not all(map(torch.equal, states[4], states[5]))
    assert all(bool(t.isfinite().all()) for t in states[-1])
    lines = metrics(tmp_path / "run")  # which refuses NaN
    assert lines[3]["loss"] is None
    assert lines[3]["gradient_norm"] is None
    assert lines[5]["loss"] > 0
    assert [line["skipped"] for line in lines] == [0, 0, 0, 1, 2, 2, 2, 2, 2]


def test_too_many_in_a_row_stop_training_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configuration(max_updates=20, max_skips=3, validate_every=4)
    with trainer(tmp_path / "run", config) as it:
        poison(it, monkeypatch, range(6, 99))
        with pytest.raises(UserError, match=r"3 updates in a row \(the last is 8\): lower optim"):
            it.run()
    assert [step.name for step in step_folders(tmp_path / "run")] == ["step-4"]
    assert all(bool(w.isfinite().all()) for w in weights(tmp_path / "run", 4).values())


def test_skips_must_be_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trainer(tmp_path / "run", configuration(max_updates=12, max_skips=2)) as it:
        poison(it, monkeypatch, range(1, 99, 2))
        result = it.run()
    assert (result.reason, result.progress.skipped) == ("finished", 6)


@pytest.mark.parametrize("metric", [Metric.bleu, Metric.loss])
def test_a_model_that_is_not_a_number_is_never_the_best(tmp_path: Path, metric: Metric) -> None:
    """Such a model translates into something, and that something may even score."""
    broken = {"bleu": 50.0, "loss": math.nan}
    script = [broken, {"bleu": 1.0, "loss": 3.0}, broken, {"bleu": 9.0, "loss": math.inf}]
    run = tmp_path / "run"
    config = configuration(max_updates=4, validate_every=1, metric=metric)
    result = trained(run, config, Scripted(script))
    assert result.progress.best_step == 2
    assert json.loads((run / "best.json").read_text())["step"] == 2
    assert [line["loss"] for line in metrics(run, "dev")] == [None, 3.0, None, None]


SCRIPTS = {  # metric, values of the validations, patience → best step, last step
    "ties do not reset": (Metric.bleu, [3, 2, 2, 2, 9], 2, 1, 3),
    "an equal best is no better": (Metric.bleu, [3, 3, 3, 9], 2, 1, 3),
    "the best resets": (Metric.bleu, [1, 0, 2, 1, 3, 2, 2, 9], 2, 5, 7),
    "smaller losses are better": (Metric.loss, [3, 2, 2, 2, 1], 2, 2, 4),
    "losses that only fall": (Metric.loss, [5, 4, 3, 2, 1, 0.5], 2, 6, 6),
    "no patience set": (Metric.bleu, [3, 2, 2, 2, 2, 1], None, 1, 6),
}


@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("name", SCRIPTS)
def test_early_stopping_counts_validations(tmp_path: Path, name: str, schedule: Schedule) -> None:
    metric, values, patience, best, end = SCRIPTS[name]
    script = [{"bleu": 1.0, "loss": 1.0, metric.value: float(value)} for value in values]
    run = tmp_path / "run"
    config = configuration(
        max_updates=2 * len(values),
        validate_every=2,
        metric=metric,
        patience=patience,
        schedule=schedule,
    )
    result = trained(run, config, Scripted(script))
    assert result.progress.update == 2 * end
    assert result.progress.best_step == 2 * best
    expected = f"no better {metric} for {patience} validations" if end < len(values) else "finished"
    assert result.reason == expected
    pointer = json.loads((run / "best.json").read_text())
    assert pointer == {
        "step": 2 * best,
        "value": float(values[best - 1]),  # as it was measured, not with its sign turned
        "metric": metric.value,
    }
    assert (run / f"step-{2 * best}" / WEIGHTS).exists()  # with keep_last=1
    assert len(step_folders(run)) == (1 if best == end else 2)


def test_patience_is_restored_on_resume(tmp_path: Path) -> None:
    def config(updates: int) -> Any:
        return configuration(max_updates=updates, validate_every=1, patience=3)

    result = trained(tmp_path / "run", config(3), Scripted([5.0, 4.0, 4.0]))
    assert (result.reason, result.progress.worse) == ("finished", 2)
    result = trained(tmp_path / "run", config(9), Scripted([4.0, 9.0]), resume=True)
    assert (result.progress.update, result.progress.best_step) == (4, 1)
    assert "3 validations" in result.reason
    assert (tmp_path / "run" / "step-1" / WEIGHTS).exists()


def test_among_equals_the_smaller_loss_is_kept_without_counting_as_progress(
    tmp_path: Path,
) -> None:
    """BLEU of one-word lines is 0 for ever, yet the first model is not the best."""
    script = [{"bleu": 0.0, "loss": loss} for loss in (3.0, 2.0, 2.5, 1.0, 1.5)]
    config = configuration(max_updates=5, validate_every=1, patience=4)
    result = trained(tmp_path / "run", config, Scripted(script))
    assert result.progress.best_step == 4
    assert result.progress.worse == 4
    assert result.reason == "no better bleu for 4 validations"


def test_another_metric_on_resume_starts_a_new_comparison(tmp_path: Path) -> None:
    trained(tmp_path / "run", configuration(max_updates=1), Scripted([{"bleu": 30.0, "loss": 4.0}]))
    result = trained(
        tmp_path / "run",
        configuration(max_updates=2, metric=Metric.loss),
        Scripted([{"bleu": 20.0, "loss": 5.0}]),
        resume=True,
    )
    assert result.progress.best_step == 2  # 5.0 is no loss above "30.0"
    assert result.progress.best_value == 5.0


@pytest.mark.parametrize("before", [0.0, 0.9])
@pytest.mark.parametrize("after", [0.0, 0.9])
def test_a_moving_average_may_be_switched_on_resume(
    tmp_path: Path, before: float, after: float
) -> None:
    """The weights that Adam goes on with are the raw ones, whatever the file holds."""
    run = tmp_path / "run"
    with trainer(run, configuration(max_updates=4, ema=before)) as it:
        it.run()
        raw = [p.detach().clone() for p in it.model.parameters()]
        shadow = [s.clone() for s in it.average.shadow] if it.average else raw
    with trainer(run, configuration(max_updates=8, ema=after)) as it:
        it.resume()
        assert all(map(torch.equal, it.model.parameters(), raw))
        if it.average:
            assert all(map(torch.equal, it.average.shadow, shadow))
        it.run()


def test_validation_and_checkpoints_see_the_average(tmp_path: Path) -> None:
    validator = Scripted()
    with trainer(tmp_path / "run", configuration(max_updates=3, ema=0.9), validator) as it:
        it.run()
        assert it.average is not None
        assert all(map(torch.equal, validator.seen[0], it.average.shadow))
        saved = weights(tmp_path / "run", 3)
        for name, parameter in it.model.named_parameters():
            if name in saved:
                assert not torch.equal(saved[name], parameter)


def test_settings_of_the_optimizer_may_change_on_resume(tmp_path: Path) -> None:
    trained(tmp_path / "run", configuration(max_updates=2))
    changed = configuration(max_updates=3, weight_decay=0.5, beta2=0.9)
    with trainer(tmp_path / "run", changed) as it:
        it.resume()
        assert it.optimizer.param_groups[0]["weight_decay"] == 0.5
        assert it.optimizer.param_groups[0]["betas"] == (0.9, 0.9)
        assert all(state["step"] == 2 for state in it.optimizer.state.values())


@pytest.mark.parametrize("budget", [30, 10_000])
def test_other_batches_on_resume_begin_a_new_epoch_and_say_so(tmp_path: Path, budget: int) -> None:
    """The position in an epoch means nothing to other batches; there may even be fewer of them."""
    trained(tmp_path / "run", configuration(max_updates=EPOCH - 2))
    config = configuration(max_updates=EPOCH, max_tokens=budget)
    with trainer(tmp_path / "run", config) as it:
        it.resume()
        assert (it.progress.epoch, it.progress.batch) == (1, 0)
        assert "train.max_tokens or the filters have changed" in it.reporter.console.file.getvalue()  # type: ignore[attr-defined]
        assert it.run().progress.update == EPOCH


def test_a_finished_run_resumed_does_nothing(tmp_path: Path) -> None:
    trained(tmp_path / "run", configuration(max_updates=3))
    before = weights(tmp_path / "run", 3)
    validator = Scripted()
    result = trained(tmp_path / "run", configuration(max_updates=3), validator, resume=True)
    assert (result.reason, result.progress.update) == ("finished", 3)
    assert validator.given == []
    assert_equal(before, weights(tmp_path / "run", 3))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_after_the_running_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with trainer(tmp_path / "run", configuration(max_updates=99)) as it:
        update = it._update
        monkeypatch.setattr(
            it,
            "_update",
            lambda b: (it.progress.update == 4 and os.kill(os.getpid(), number), update(b)),
        )
        result = it.run()
    assert result.interrupted
    assert result.progress.update == 5
    assert training_state(tmp_path / "run", 5)["progress"]["update"] == 5
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_a_second_signal_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trainer(tmp_path / "run", configuration(max_updates=99)) as it:
        monkeypatch.setattr(
            it, "_update", lambda _: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)]
        )
        with pytest.raises(KeyboardInterrupt):
            it.run()
    assert step_folders(tmp_path / "run") == []


def test_a_signal_in_the_last_update_does_not_lose_the_validation(tmp_path: Path) -> None:
    validator = Scripted([7.0])
    with trainer(tmp_path / "run", configuration(max_updates=2), validator) as it:
        it.stop()
        it.progress.update = 1
        result = it.run()
    assert result.reason == "finished"
    assert result.progress.best_value == 7.0


def test_an_interrupted_run_with_a_nearer_end_is_validated(tmp_path: Path) -> None:
    """Interrupted before its first validation, then told that this is the end."""
    with trainer(tmp_path / "run", configuration(max_updates=9)) as it:
        it.stop()
        assert it.run().progress.update == 1
    result = trained(tmp_path / "run", configuration(max_updates=1), Scripted([4.0]), resume=True)
    assert (result.reason, result.progress.best_step) == ("finished", 1)


def test_a_huge_learning_rate_ends_in_advice_or_in_finite_weights(tmp_path: Path) -> None:
    config = configuration(max_updates=40, lr=1e30, warmup=0, max_skips=3, clip_norm=0.0)
    validator = Scripted([{"bleu": 1.0, "loss": math.nan}] * 40)
    with pytest.raises(UserError, match="not finite in 3 updates in a row"):
        trained(tmp_path / "run", config, validator)
    assert not (tmp_path / "run" / "best.json").exists()


def test_one_seed_for_the_first_weights(tmp_path: Path) -> None:
    torch.manual_seed(5)
    with trainer(tmp_path / "a", configuration()) as one:
        torch.manual_seed(6)
        with trainer(tmp_path / "b", configuration()) as other:
            assert all(map(torch.equal, one.model.parameters(), other.model.parameters()))
    assert isinstance(one.model.config, ModelConfig)

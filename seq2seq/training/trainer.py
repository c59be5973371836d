"""Training: from a configuration to a run folder.

The way of the data: `open_corpus` → filters → `Tokenizer` → `build_store` → `BatchPlan` →
`Transformer.forward` → `summed_loss` → Adam.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from seq2seq.choices import Metric, Precision
from seq2seq.config import RunConfig
from seq2seq.data.batching import Batch, BatchPlan
from seq2seq.device import autocast
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import WEIGHTS, load_weights
from seq2seq.training import checkpoint, parallel
from seq2seq.training.averaging import MovingAverage, averaged
from seq2seq.training.checkpoint import Progress, TrainResult
from seq2seq.training.distributed import World
from seq2seq.training.interrupt import stop_on_signals
from seq2seq.training.loading import BatchLoader
from seq2seq.training.log import Reporter, Window
from seq2seq.training.loss import summed_loss
from seq2seq.training.optim import build_optimizer, learning_rate
from seq2seq.training.validation import Validator
from seq2seq.training.watch import Watcher, is_early


class Trainer:
    """One training run.

    Args:
        config: of the run, vocabulary sizes filled in and precision resolved.
        run_dir: its folder, with config.json and tokenizer in place.
        plan: the training batches.
        validator: measures on the dev set.
        reporter: told of everything.
        device: where the model computes.
        watcher: looks at the model early on and at every validation.
        world: all processes that train it; default: this one.
    """

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        plan: BatchPlan,
        validator: Validator,
        reporter: Reporter,
        device: torch.device,
        watcher: Watcher | None = None,
        world: World | None = None,
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.plan = plan
        self.validator = validator
        self.reporter = reporter
        self.device = device
        self.watcher = watcher
        self.world = world or World()
        torch.manual_seed(config.seed % (1 << 63))
        self.model = Transformer(config.model)
        self.replica = parallel.parallelise(self.model, device, self.world, config.train.sharding)
        self.optimizer = build_optimizer(self.model, config.optim)
        self.average = MovingAverage(self.model, config.train.ema) if config.train.ema else None
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision is Precision.fp16)
        self.progress = Progress()
        self.stopping = False
        self._epoch_batches = 1
        self._skips = 0  # in a row
        self._window = Window()
        self._clock_start = time.perf_counter()

    def resume(self) -> None:
        """Go on from the last checkpoint, as if training had never stopped.

        Settings of the optimizer come from the configuration, its moments from the checkpoint.
        """
        self.progress, state, folder = checkpoint.read_training_state(self.run_dir, "cpu")
        saved = Transformer(self.config.model)
        load_weights(saved, folder / WEIGHTS)
        parallel.fill(self.model, saved.parameters())
        self._resume_average(state.get("raw_weights"))
        parallel.fill_optimizer(self.optimizer, state["optimizer"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        if self.world.is_main:
            checkpoint.tidy(self.run_dir, self.progress, state["metric"])
            self.reporter.rewind(self.progress.update)
            if self.watcher:
                self.watcher.rewind(self.progress.update)
        if state["metric"] != self.config.train.metric.value:
            self.progress.best_value = self.progress.best_loss = None
            self.progress.worse = 0
        if state["plan"] != self.plan.identity:
            self.reporter.say(
                "note: train.max_tokens or the filters have changed, so the batches are not those "
                "of before: going on with the next epoch."
            )
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
        self._clock_start -= self.progress.seconds

    def _resume_average(self, raw: list[torch.Tensor] | None) -> None:
        """Tell weights and average apart: a run with an average saves it as its weights."""
        if raw:
            average = self.average or MovingAverage(self.model, 0.0)
            average.restore(
                [parallel.piece(w, p) for w, p in zip(raw, average.parameters, strict=True)]
            )
        elif self.average:  # switched on now: it starts from the weights as they are
            self.average = MovingAverage(self.model, self.config.train.ema)

    def run(self) -> TrainResult:
        """Train to the end or until the user stops it; leaves a checkpoint in every case."""
        self.model.train()
        progress, every = self.progress, self.config.train.validate_every
        reason = None
        with stop_on_signals(self.stop):
            if progress.validated == progress.update or is_early(progress.update, every):
                self._look()
            for batches in self._updates():
                self._update(batches)
                if self._told_to_stop() and self._share() < 1.0:
                    self._save(is_best=False)
                    reason = "interrupted"
                elif progress.update % every == 0:
                    reason = self._validate()
                elif is_early(progress.update, every):
                    self._look()
                if reason:
                    return TrainResult(self.run_dir, reason, progress)
            if progress.validated < progress.update:
                reason = self._validate()
        return TrainResult(self.run_dir, reason or "finished", progress)

    def stop(self) -> None:
        """Let training end after the running update."""
        self.stopping = True

    def _told_to_stop(self) -> bool:
        """Whether any rank was; and sets the clock of all to that of rank 0, which decides ends."""
        seconds = self.progress.seconds if self.world.is_main else 0.0
        stopping, self.progress.seconds = self.world.sum(self.stopping, seconds)
        return stopping > 0

    def _updates(self) -> Iterator[list[Batch]]:
        """The batches of this rank for one update after another, from where `progress` stands."""
        progress = self.progress
        loader = BatchLoader(self.plan, self.config.train.accumulate, self.world, self.device)
        while True:
            self._epoch_batches = loader.length(progress.epoch)
            updates = loader.epoch(progress.epoch, progress.batch)
            while progress.batch < self._epoch_batches:
                if self._share() >= 1.0:
                    return
                yield next(updates)
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _share(self) -> float:
        return self.progress.share(self.config.train, self._epoch_batches)

    def _update(self, batches: list[Batch]) -> None:
        config, progress = self.config, self.progress
        update = progress.update + 1
        # Every update has random numbers of its own, so that resuming needs to store none.
        own = self.world.rank << 40  # and every rank
        torch.manual_seed((config.seed * 1_000_003 + update + own) % (1 << 63))
        rate = learning_rate(config.optim, config.model.d_model, update, self._share())
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        done = self.world.sum(sum(b.tokens for b in batches), sum(b.tokens > 0 for b in batches))
        tokens, used = int(done[0]), int(done[1])
        plain = []
        for batch in batches:
            with parallel.sharing_gradients(self.replica, now=batch is batches[-1]):
                plain.append(self._backward(batch, tokens))
        norm = self._step()
        progress.update, progress.tokens = update, progress.tokens + tokens
        progress.batch += used
        if self.average and math.isfinite(norm):
            self.average.update(update)
        self._count_skips(norm)
        self._window.add(self.world.sum(float(sum(plain)))[0], tokens, norm)
        progress.seconds = time.perf_counter() - self._clock_start
        self._report(rate)

    def _backward(self, batch: Batch, tokens: int) -> torch.Tensor:
        """Add the gradient of one batch in an update of `tokens`; returns its plain loss."""
        with autocast(self.device, self.config.precision):
            logits = self.replica(batch.source, batch.target_in)
        smoothing = self.config.optim.label_smoothing
        smoothed, plain = summed_loss(logits, batch.target_out, smoothing)
        # Ranks average their gradients; what is wanted is the sum.
        torch.autograd.backward(self.scaler.scale(smoothed / (tokens / self.world.size)))
        return plain

    def _step(self) -> float:
        """Clip and step, unless the gradient is not finite; returns its norm before clipping."""
        self.scaler.unscale_(self.optimizer)
        limit = self.config.optim.clip_norm or math.inf
        norm = float(parallel.whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)))
        if math.isfinite(norm):
            self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def _count_skips(self, norm: float) -> None:
        if math.isfinite(norm):
            self._skips = 0
            return
        self._skips += 1
        self.progress.skipped += 1
        if self._skips >= self.config.train.max_skips:
            rate = self.optimizer.param_groups[0]["lr"]
            raise UserError(
                f"The gradient was not finite in {self._skips} updates in a row (the last is "
                f"{self.progress.update}): lower optim.lr (now {rate:.2g}), raise optim.warmup, or "
                "use precision=fp32. Checkpoints written before are untouched."
            )

    def _report(self, rate: float) -> None:
        update = self.progress.update
        line = update % self.config.train.log_every == 0 or update == 1
        self.reporter.trained(self.progress, self._window, rate, self._share(), line=line)
        if line:
            self._window = Window()

    def _look(self) -> None:
        """Let the watcher see what would be saved now; its time does not count as training."""
        if self.watcher is None:
            return
        begin = time.perf_counter()
        with averaged(self.average):
            model = parallel.whole_model(self.model)
            if self.world.is_main and (note := self.watcher(model, self.progress.update)):
                self.reporter.say(note)
        spent = time.perf_counter() - begin
        self._clock_start += spent
        self._window.begin += spent

    def _validate(self) -> str | None:
        """Measure, save, show; returns why to stop, if so."""
        with averaged(self.average):
            result = self.validator(parallel.whole_model(self.model))
        progress, train = self.progress, self.config.train
        progress.validated = progress.update
        better = result.better_than(progress.best_value, train.metric)
        progress.worse = 0 if better else progress.worse + 1
        # BLEU of a few short lines hardly moves: among equals, the smaller loss is kept. It does
        # not count as progress, or training would never stop.
        equal = result.values[train.metric.value] == progress.best_value
        is_best = better or (equal and result.better_than(progress.best_loss, Metric.loss))
        if is_best:
            progress.best_value = result.values[train.metric.value]
            progress.best_loss = result.values["loss"]
            progress.best_step = progress.update
        progress.seconds = self.world.same(time.perf_counter() - self._clock_start)
        self._save(is_best=is_best)
        self.reporter.validated(progress, result, is_best=is_best)
        self._look()
        self._window = Window()
        if train.patience is not None and progress.worse >= train.patience:
            return f"no better {train.metric} for {progress.worse} validations"
        return None

    def _save(self, *, is_best: bool) -> None:
        state: dict[str, Any] = {
            "optimizer": parallel.whole_optimizer(self.optimizer, self.world),
            "scaler": self.scaler.state_dict(),
            "metric": self.config.train.metric.value,
            "plan": self.plan.identity,
        }
        with averaged(self.average):
            if self.average:
                state["raw_weights"] = [parallel.saved(w, self.world) for w in self.average.shadow]
            model = parallel.whole_model(self.model)
            if self.world.is_main:
                self._write(partial(checkpoint.save_model, model), state, is_best=is_best)

    def _write(self, save: Callable[[Path], None], state: dict[str, Any], *, is_best: bool) -> None:
        checkpoint.write_step(self.run_dir, self.progress, save, state)
        if is_best:
            checkpoint.point_at_best(self.run_dir, self.progress, state["metric"])
        checkpoint.prune_steps(self.run_dir, self.config.train.keep_last, self.progress.best_step)

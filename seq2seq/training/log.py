"""What training tells: metrics.jsonl always, a progress line or bar, TensorBoard if installed."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from seq2seq.run_folder import METRICS
from seq2seq.training.checkpoint import Progress as State
from seq2seq.training.validation import Validation


class Window:
    """Sums since the last log line."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self.loss = 0.0
        self.tokens = 0
        self.norm = 0.0

    def add(self, loss: float, tokens: int, norm: float) -> None:
        """Count one update: its summed loss, its target tokens, its gradient's norm."""
        self.loss += loss
        self.tokens += tokens
        self.norm = norm


class Reporter:
    """The one place to which training reports; a context manager that closes its files.

    Args:
        run: the run folder.
        console: where people look; a bar on a terminal, plain lines elsewhere.
    """

    def __init__(self, run: Path, console: Console | None = None) -> None:
        self.run = run
        self.console = console or Console(stderr=True)
        self.metrics = (run / METRICS).open("a", encoding="utf-8", newline="\n")
        self.tensorboard = _tensorboard(run)
        self.bar = Progress(
            TextColumn("training"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=1.0)

    def __enter__(self) -> Reporter:
        """Show the bar."""
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hide the bar and close the files."""
        self.bar.stop()
        self.metrics.close()
        if self.tensorboard:
            self.tensorboard.close()

    def say(self, text: str) -> None:
        """One line for people."""
        # Sentences hold [brackets] and :names: that mean nothing to us.
        self.console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def rewind(self, update: int) -> None:
        """Forget the lines of updates after `update`, which will be done again.

        A line torn by a kill in the middle of writing goes too.
        """
        self.metrics.close()
        path = self.run / METRICS
        kept = [line for line in _lines(path) if _update_of(line) <= update]
        replacement = path.with_suffix(".new")
        replacement.write_text("".join(kept), encoding="utf-8", newline="\n")
        replacement.replace(path)
        self.metrics = path.open("a", encoding="utf-8", newline="\n")

    def record(self, kind: str, update: int, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl, and its numbers to TensorBoard.

        Args:
            kind: train or dev.
            update: number of the update.
            values: JSON-ready; NaN and infinity become null.
        """
        safe = {k: None if _is_odd(v) else v for k, v in values.items()}
        line = {"kind": kind, "update": update, **safe}
        self.metrics.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        self.metrics.flush()
        if self.tensorboard:
            for name, value in safe.items():
                if isinstance(value, int | float):
                    self.tensorboard.add_scalar(f"{kind}/{name}", value, update)

    def trained(
        self, progress: State, window: Window, rate: float, share: float, *, line: bool
    ) -> None:
        """Tell of an update: the bar always, and if `line` the means since the last line.

        Args:
            progress: where training stands.
            window: sums since the last line.
            rate: learning rate of the update.
            share: of training done, from 0 to 1.
            line: whether to keep the numbers.
        """
        left = clock(progress.seconds * (1 - share) / share) if share else "?"
        speed = window.tokens / max(time.perf_counter() - window.begin, 1e-9)
        loss = window.loss / window.tokens
        text = (
            f"update {progress.update}  epoch {progress.epoch + 1}  loss {loss:.3f}  "
            f"lr {rate:.2e}  {speed:,.0f} tokens/s  {left} left"
        )
        self.advance(share, text, line=line)
        if line:
            values = {
                "loss": loss,
                "lr": rate,
                "gradient_norm": window.norm,
                "tokens_per_second": speed,
                "tokens": progress.tokens,
                "epoch": progress.epoch,
                "seconds": progress.seconds,
                "skipped": progress.skipped,
            }
            self.record("train", progress.update, values)

    def validated(self, progress: State, result: Validation, *, is_best: bool) -> None:
        """Tell of a validation: one line, sample translations, advice; all kept in files."""
        self.record("dev", progress.update, {**result.values, "seconds": progress.seconds})
        numbers = "  ".join(f"{name} {value:.2f}" for name, value in result.values.items())
        best = "  (best so far)" if is_best else ""
        self.say(f"update {progress.update}: dev {numbers}{best}")
        lines = []
        for source, reference, translation in result.samples:
            lines += [f"source      {source}", f"reference   {reference}"]
            lines += [f"translation {translation}", ""]
        text = "\n".join(lines)
        self.say("  " + text.replace("\n", "\n  ").rstrip() if text else "")
        for warning in result.warnings:
            self.say(f"warning: {warning}")
        folder = self.run / "samples"
        folder.mkdir(exist_ok=True)
        (folder / f"step-{progress.update}.txt").write_text(text, encoding="utf-8")

    def advance(self, share: float, text: str, *, line: bool) -> None:
        """Move the bar; without a terminal, print `text` if `line`."""
        self.bar.update(self.task, completed=share, description=text)
        if line and not self.console.is_terminal:
            self.say(f"{share:4.0%}  {text}")


class Mute(Reporter):
    """For the processes besides the first: tells nothing and touches no file."""

    def __init__(self) -> None: ...

    def __enter__(self) -> Mute:
        """Nothing to show."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to close."""

    def say(self, text: str) -> None:
        """Leave it to rank 0, as all below."""

    def trained(self, *values: Any, line: bool) -> None: ...  # noqa: D102

    def validated(self, *values: Any, is_best: bool) -> None: ...  # noqa: D102


def _lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        return list(file)


def _update_of(line: str) -> float:
    """The number of the update that a line of metrics.jsonl tells of; ∞ if it is torn."""
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and value - value != 0.0  # NaN or infinite


def _tensorboard(run: Path) -> Any:
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter  # optional, and slow to import

    return SummaryWriter(str(run / "tensorboard"))


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss.

    >>> clock(75)
    '1:15'
    """
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""What the scripts of the peers share. It runs in each peer's own environment: no imports of ours.

A peer's script has `prepare` (its copy of the data, and a checkpoint to decode with), `train` and
`decode`; `main` calls one of them and prints what it measured as one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAYERS, D_MODEL, HEADS, D_FF, DROPOUT, SMOOTHING = 3, 256, 4, 1024, 0.3, 0.1
MAX_TOKENS, RATE, WARM_UP_UPDATES, CLIP = 4096, 1e-3, 100, 1.0
LENGTH = 16  # pieces of every output, so that all do the same work
BEAM_BATCH, GREEDY_BATCH = 64, 256  # sentences, where a system counts those
PAD, UNK, BOS, EOS = 0, 1, 2, 3
MEASURED = "measured"

# Some peers' checkpoints hold more than tensors, which PyTorch since 2.6 does not read unasked.
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"


@dataclass
class Job:
    """One measurement, and the folder of the data that all share."""

    work: Path
    name: str
    precision: str = "fp32"
    threads: int = 2
    seconds: float = 20.0  # measured, after the first update and warm-up
    warm_up: float = 4.0
    beam: int = 1
    sentences: int = 1000

    @property
    def own(self) -> Path:
        """The folder of what `prepare` makes for this system."""
        folder = self.work / self.name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def batch(self) -> int:
        return GREEDY_BATCH if self.beam == 1 else BEAM_BATCH

    @property
    def vocabulary(self) -> list[str]:
        """All pieces, in the order of their ids."""
        return (self.work / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]

    def text(self, part: str, language: str) -> Path:
        """The file of raw sentences: part is train, dev or test."""
        return self.work / f"{part}.raw.{language}"

    def pieces(self, part: str, language: str) -> Path:
        """The file of the same sentences as pieces separated by spaces."""
        return self.work / f"{part}.{language}"

    def test_pieces(self) -> list[list[str]]:
        lines = self.pieces("test", "en").read_text(encoding="utf-8").split("\n")
        return [line.split(" ") for line in lines[: self.sentences]]

    def ids(self, part: str, language: str) -> list[list[int]]:
        number = {piece: i for i, piece in enumerate(self.vocabulary)}
        lines = self.pieces(part, language).read_text(encoding="utf-8").split("\n")[:-1]
        return [[number.get(piece, UNK) for piece in line.split(" ")] for line in lines]


class Meter:
    """Target tokens a second that are not padding, from the end of warm-up until time is up.

    Args:
        job: says how long.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.first: float | None = None  # end of the first update
        self.begin = 0.0  # end of warm-up
        self.updates = self.tokens = self.positions = 0

    def update(self, tokens: int, positions: int) -> None:
        """Count an update that has just ended; ends the process when time is up."""
        now = time.perf_counter()
        if self.first is None:
            self.first = now
        if not self.begin:
            if now - self.first >= self.job.warm_up:
                self.begin = now
            return
        self.updates += 1
        self.tokens += int(tokens)
        self.positions += int(positions)
        if now - self.begin >= self.job.seconds:
            self.finish(now)

    def finish(self, now: float) -> None:
        # Training itself would go on, and save, and validate: nothing of it is wanted.
        tell(
            {
                "tokens_per_second": round(self.tokens / (now - self.begin), 1),
                "padding_efficiency": round(self.tokens / self.positions, 4),
                "tokens_per_update": round(self.tokens / self.updates),
                "updates": self.updates,
                "peak_mb": peak_mb(),
            }
        )
        os._exit(0)

    def watch(self, owner: Any, name: str, count: Callable[..., tuple[Any, Any]]) -> None:
        """Count an update after each call of `owner.name`.

        `count` gets the arguments of the call; it returns target tokens and target positions.
        """
        original = getattr(owner, name)

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self.update(*count(*args, **kwargs))
            return result

        setattr(owner, name, counted)


def timed(job: Job, translate: Callable[[int], list[int]]) -> dict[str, Any]:
    """Measure decoding; `translate` takes a number of sentences, returns the output lengths.

    What a slow system would not do in `job.seconds` is left out.
    """
    begin = time.perf_counter()
    few = len(translate(min(job.batch, job.sentences)))  # warms up, too
    fitting = round(few * job.seconds / (time.perf_counter() - begin))
    count = min(job.sentences, max(fitting, few))
    begin = time.perf_counter()
    lengths = translate(count)
    seconds = time.perf_counter() - begin
    return {
        "sentences_per_second": round(len(lengths) / seconds, 2),
        "sentences": len(lengths),
        "pieces": [min(lengths), max(lengths)],
        "peak_mb": peak_mb(),
    }


def peak_mb() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def tell(figures: dict[str, Any]) -> None:
    """Print the result, the last line of output that run.py reads."""
    if "torch" in sys.modules:
        figures["threads"] = sys.modules["torch"].get_num_threads()
    sys.stdout.flush()
    os.write(1, f"\n{json.dumps({MEASURED: figures})}\n".encode())


def run_cli(main: Callable[[], object], *arguments: Any) -> None:
    """Call the entry point of a command in this process, with these command-line arguments."""
    sys.argv = [sys.argv[0], *map(str, arguments)]
    main()


def main(
    prepare: Callable[[Job], None],
    train: Callable[[Job], None] | None,
    decode: Callable[[Job], dict[str, Any]],
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["prepare", "train", "decode"])
    parser.add_argument("work", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=4.0)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[5, 1])
    options = vars(parser.parse_args())
    what, beams = options.pop("what"), options.pop("beams")
    if what == "prepare":
        prepare(Job(**options))
    elif what == "train" and train is not None:
        train(Job(**options))  # ends in Meter
    else:
        tell({str(beam): decode(Job(**options, beam=beam)) for beam in beams})

"""What an evaluation found: records, the lines to print, the JSON, and saving without overwriting.

Stands apart from `seq2seq.evaluation` so that reading and printing scores does not need sacreBLEU.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.errors import UserError

METRICS = ("bleu", "chrf", "ter")
LABELS = {"bleu": "BLEU", "chrf": "chrF++", "ter": "TER"}
COMPARE_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Score:
    """One metric in percent and what must stand beside it.

    ``low`` and ``high`` bound the bootstrap percentile interval; None without resampling.
    """

    value: float
    signature: str
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """Value, interval and signature: never printed one without the other."""
        interval = "" if self.low is None else f" [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.value:.1f}{interval}  {self.signature}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The evaluation of one list of hypotheses.

    ``exact_match`` is the share (0 to 1) of hypotheses equal to the first reference, blanks at the
    end of the line aside. ``perplexity`` is for the caller to add with `dataclasses.replace`.
    """

    metrics: dict[str, Score]
    n: int
    exact_match: float
    confidence: float
    resamples: int
    seed: int
    tokenizer: str
    notes: list[str] = field(default_factory=list)
    perplexity: float | None = None

    @property
    def bleu(self) -> Score:
        """BLEU; a KeyError where it was not asked for, and so for the others."""
        return self.metrics["bleu"]

    @property
    def chrf(self) -> Score:
        """The chrF++ score: character 6-grams and word bigrams."""
        return self.metrics["chrf"]

    @property
    def ter(self) -> Score:
        """Translation edit rate: lower is better."""
        return self.metrics["ter"]

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of ``seq2seq evaluate --json``, but for the seconds it took."""
        found: dict[str, Any] = {
            name: {"score": s.value, "signature": s.signature, "low": s.low, "high": s.high}
            for name, s in self.metrics.items()
        }
        found["signatures"] = {name: score.signature for name, score in self.metrics.items()}
        found |= {"confidence": self.confidence, "n": self.n, "exact_match": self.exact_match}
        if self.perplexity is not None:  # JSON knows no infinity
            found["perplexity"] = self.perplexity if math.isfinite(self.perplexity) else None
        found |= {"tokenizer": self.tokenizer, "resamples": self.resamples, "seed": self.seed}
        return found | {"notes": list(self.notes)}

    def __str__(self) -> str:
        """Give the lines to print: scores with signatures, then the notes."""
        lines = [f"{LABELS[name]} = {score}" for name, score in self.metrics.items()]
        lines.append(f"exact match = {100 * self.exact_match:.1f} % of {self.n}")
        if self.perplexity is not None:
            lines.append(f"perplexity = {self.perplexity:.3f}")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


@dataclass(frozen=True, slots=True)
class Difference:
    """Systems a and b by one metric; ``delta`` is b - a, ``low`` to ``high`` its 95 % interval."""

    a: float
    b: float
    delta: float
    low: float
    high: float
    p_value: float
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What sets system b apart from system a, and how likely chance alone does as much."""

    metrics: dict[str, Difference]
    n: int
    resamples: int
    seed: int
    tokenizer: str
    notes: list[str] = field(default_factory=list)

    def better(self, metric: str) -> str | None:
        """Name the better system, ``"a"`` or ``"b"``; None where p is 0.05 or more."""
        found = self.metrics[metric]
        if found.delta == 0 or found.p_value >= 0.05:
            return None
        return "b" if (found.delta > 0) != (metric == "ter") else "a"

    def to_dict(self) -> dict[str, Any]:
        """Give a JSON object: per metric a, b, delta, low, high, p_value, signature, better."""
        found: dict[str, Any] = {}
        for name, d in self.metrics.items():
            found[name] = {"a": d.a, "b": d.b, "delta": d.delta, "low": d.low, "high": d.high}
            found[name] |= {"p_value": d.p_value, "signature": d.signature}
            found[name]["better"] = self.better(name)
        found |= {"confidence": COMPARE_CONFIDENCE, "n": self.n, "tokenizer": self.tokenizer}
        return found | {"resamples": self.resamples, "seed": self.seed, "notes": list(self.notes)}

    def __str__(self) -> str:
        """Give the lines to print: differences with signatures, then the notes."""
        lines = [
            f"{LABELS[name]}: a = {d.a:.1f}, b = {d.b:.1f}, b - a = {d.delta:+.2f} "
            f"[{d.low:+.2f}, {d.high:+.2f}], p = {d.p_value:.4f}  {d.signature}"
            for name, d in self.metrics.items()
        ]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


class SavedEvaluation(NamedTuple):
    """The two files of one evaluation: the lines as scored, and the JSON beside them."""

    hypotheses: Path
    scores: Path


def save_evaluation(
    folder: str | Path,
    name: str,
    hypotheses: Sequence[str],
    scores: Scores,
    extra: Mapping[str, Any] | None = None,
) -> SavedEvaluation:
    """Write NAME.hyp.txt and NAME.json; NAME-2 and so on where another evaluation has the name.

    The same evaluation (the same lines and, time aside, the same JSON) keeps its name, so that a
    command run twice leaves one pair of files. Each file appears whole or not at all.

    Args:
        folder: made where it is missing.
        name: such as ``test`` or ``test.beam5``; no path.
        hypotheses: the lines that were scored.
        scores: what `evaluate` found.
        extra: more keys for the JSON (``seconds``, split, beam, checkpoint, …).

    Raises:
        UserError: the name is a path, a line holds a line break, the lines are not those scored,
            or the folder cannot be written.
    """
    if not name or name.startswith(".") or Path(name).name != name or "\\" in name:
        raise UserError(f"An evaluation's name must be a plain file name, but it is {name!r}.")
    if len(hypotheses) != scores.n:
        raise UserError(
            f"The scores are of {scores.n} hypotheses, but {len(hypotheses)} were given to save; "
            "give the same list to both."
        )
    broken = next((i for i, line in enumerate(hypotheses, 1) if "\n" in line), None)
    if broken is not None:
        raise UserError(
            f"Hypothesis {broken} holds a line break, which would shift every line after it in "
            "the saved file; replace it by a space."
        )
    text = "".join(f"{line}\n" for line in hypotheses).encode()
    document = json.dumps(scores.to_dict() | dict(extra or {}), ensure_ascii=False, indent=2)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        stems = chain([name], (f"{name}-{number}" for number in count(2)))
        places = (
            SavedEvaluation(Path(folder, f"{stem}.hyp.txt"), Path(folder, f"{stem}.json"))
            for stem in stems
        )
        files = next(place for place in places if _is_free_or_same(place, text, document))
        _write_whole(files.hypotheses, text)
        _write_whole(files.scores, f"{document}\n".encode())
    except OSError as error:
        raise UserError(f"The evaluation cannot be saved in {folder}: {error}.") from error
    return files


def _is_free_or_same(files: SavedEvaluation, text: bytes, document: str) -> bool:
    if files.hypotheses.exists() and files.hypotheses.read_bytes() != text:
        return False
    return not files.scores.exists() or _timeless(files.scores.read_bytes()) == _timeless(document)


def _timeless(document: str | bytes) -> object:
    try:
        found = json.loads(document)
    except ValueError:
        return None  # equal to no evaluation, so never overwritten
    return {k: v for k, v in found.items() if k != "seconds"} if isinstance(found, dict) else found


def _write_whole(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

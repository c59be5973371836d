"""Finished runs side by side: quality, loss, time, and what their heads do.

Every run is measured anew on the same sentence pairs; only the time of an update is from its log.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.analysis.roles import COLUMN, NONE, main_role
from seq2seq.analysis.similarity import Distances
from seq2seq.analysis.survey import survey, usable
from seq2seq.analysis.tables import HeadTable
from seq2seq.choices import DataKind
from seq2seq.config import RunConfig
from seq2seq.config_file import to_dict
from seq2seq.data.corpus import named_split
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.evaluation import evaluate
from seq2seq.model.transformer import parameter_count
from seq2seq.run_folder import METRICS, LoadedRun, load_run, trained_on, weights_hash
from seq2seq.scores import Score

Pair = tuple[str, str]
MOST_TOKENS = 150  # longer pairs are left out
HEAD_SETTINGS = ("model.encoder_heads", "model.decoder_heads", "model.d_k", "model.d_v")


@dataclass(frozen=True)
class Measured:
    """What one run is worth, and what its heads do.

    Attributes:
        name: of the run's folder.
        config: of the run.
        facts: run, checkpoint, weights.
        parameters: trained numbers.
        update: of the checkpoint.
        seconds: median time of an update in training, validation left out; None if not logged.
        bleu: greedy translations, with interval and signature.
        loss: nats per target token of the references.
        table: a row for each head.
        distances: divergence of every pair of heads, by kind.
        curve: (update, dev BLEU) during training.
        outputs: the translations.
    """

    name: str
    config: RunConfig
    facts: str
    parameters: int
    update: int
    seconds: float | None
    bleu: Score
    loss: float
    table: HeadTable
    distances: Mapping[str, Distances]
    curve: Sequence[tuple[int, float]]
    outputs: Sequence[str]

    @property
    def heads(self) -> str:
        """Number of heads, "1" or "2/4" where encoder and decoder differ."""
        model = self.config.model
        if model.encoder_heads == model.decoder_heads:
            return str(model.encoder_heads)
        return f"{model.encoder_heads}/{model.decoder_heads}"

    @property
    def width(self) -> int:
        """d_k of the encoder's heads."""
        model = self.config.model
        return model.d_k or model.d_model // model.encoder_heads

    def mean(self, column: str) -> float | None:
        """Mean of a column over all heads."""
        values = list(self.table.values(column).values())
        return float(np.mean(values)) if values else None

    def mean_js(self) -> float | None:
        """Mean divergence of two heads of one layer and kind; None if each layer has one head."""
        pairs = [
            found.matrix[i, j]
            for found in self.distances.values()
            for i, a in enumerate(found.heads)
            for j, b in enumerate(found.heads[:i])
            if a.place == b.place
        ]
        return float(np.mean(pairs)) if pairs else None

    def roles(self) -> Counter[str]:
        """How many heads have each role."""
        return Counter(main_role(text) for text in self.table.texts(COLUMN.name).values())

    def roles_in_words(self) -> str:
        """Roles with counts, "previous 3, broad 1, none 8"."""
        found = self.roles()
        order = sorted(found, key=lambda role: (role == NONE, -found[role], role))
        return ", ".join(f"{role} {found[role]}" for role in order)


@dataclass(frozen=True)
class Compared:
    """Several runs, measured on the same pairs."""

    runs: Sequence[Measured]
    pairs: Sequence[Pair]
    facts: Sequence[str]


def load_runs(paths: Sequence[str | Path], *, device: str = "auto") -> list[LoadedRun]:
    """The best checkpoints of several runs.

    Raises:
        UserError: no run folder, the same one twice, or runs on different text.
    """
    folders = [Path(path).resolve() for path in paths]
    if len(set(folders)) < len(folders):
        raise UserError("--runs names one run twice: name different ones.")
    runs = [load_run(path, device=device) for path in paths]
    texts = {trained_on(run.path) for run in runs}
    if len(texts) > 1:
        names = ", ".join(run.path.name for run in runs)
        raise UserError(
            f"The runs {names} were trained on different text (or on different parts of it), so "
            "their scores cannot be compared: train them with the same data options."
        )
    return runs


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, and where they are from, for people."""

    pairs: Sequence[Pair]
    name: str


def split_of(run: LoadedRun, split: str) -> Pairs:
    """The pairs of a split of a run's corpus.

    Raises:
        UserError: no such split.
    """
    data = run.config.data
    synthetic = " (synthetic)" if data.kind is DataKind.grammar else ""
    return Pairs(named_split(data, split, trained_on(run.path)), split + synthetic)


def compare(runs: Sequence[LoadedRun], on: Pairs) -> Compared:
    """Measure runs on the same pairs.

    Raises:
        UserError: no usable pair.
    """
    pairs = list(on.pairs)
    limits = [run.model.position_limit or MOST_TOKENS for run in runs]
    left_out: list[str] = []
    for run, most in zip(runs, limits, strict=True):  # each tokenizer has pieces of its own
        pairs, notes = usable(run.tokenizer, pairs, min(MOST_TOKENS, most))
        left_out += notes
    facts = [f"{len(pairs)} sentence pairs of {on.name}, greedy search", *left_out]
    measured = [measure(run, pairs, name) for run, name in zip(runs, names(runs), strict=True)]
    facts += [run.facts for run in measured]
    facts.append(f"BLEU: {measured[0].bleu.signature}")
    return Compared(measured, pairs, facts)


def names(runs: Sequence[LoadedRun]) -> list[str]:
    """What to call runs: their folders' names, or whole paths where these are not enough."""
    short = [run.path.resolve().name for run in runs]
    return short if len(set(short)) == len(short) else [str(run.path) for run in runs]


def provenance(run: LoadedRun, name: str, checkpoint: str = "best") -> str:
    """Which run, which checkpoint, which weights."""
    weights = weights_hash(run.path, checkpoint)
    return f"run {name} · checkpoint step {run.step} · weights {weights}"


def measure(run: LoadedRun, pairs: Sequence[Pair], name: str) -> Measured:
    """Measure one run."""
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    translator = Translator(run.model, run.tokenizer, run.config.decode)
    outputs = [found.text for found in translator.translate(sources, beam=1, n_best=1)]
    scores = evaluate(
        outputs, [references], target_lang=run.config.data.target_lang, metrics=("bleu",)
    )
    scored = translator.score(sources, references)
    found = survey(run.model, run.tokenizer, pairs)
    log = read_log(run.path)
    return Measured(
        name=name,
        config=run.config,
        facts=provenance(run, name),
        parameters=parameter_count(run.model),
        update=run.step,
        seconds=seconds_per_update(log),
        bleu=scores.bleu,
        loss=-sum(pair.score for pair in scored) / sum(len(pair.tokens) for pair in scored),
        table=found.table,
        distances=found.distances,
        curve=[
            (int(line["update"]), float(line["bleu"]))
            for line in log
            if line.get("kind") == "dev" and line.get("bleu") is not None
        ],
        outputs=outputs,
    )


def read_log(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; those that cannot be read, and a missing file, are left out."""
    lines = []
    try:
        text = (run / METRICS).read_text(encoding="utf-8")
    except OSError:
        return []
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            lines.append(found)
    return lines


def seconds_per_update(log: Sequence[Mapping[str, Any]]) -> float | None:
    """Median time of an update between two neighbouring lines of training.

    Stretches with a validation in between do not count.

    >>> line = lambda kind, update, seconds: {"kind": kind, "update": update, "seconds": seconds}
    >>> seconds_per_update([line("train", 1, 5.0), line("train", 11, 10.0), line("dev", 11, 90.0),
    ...                     line("train", 21, 99.0)])
    0.5
    """
    found = []
    for before, after in pairwise(log):
        if before.get("kind") == after.get("kind") == "train":
            updates = after["update"] - before["update"]
            if updates > 0:
                found.append((after["seconds"] - before["seconds"]) / updates)
    return statistics.median(found) if found else None


def differences(configs: Sequence[RunConfig]) -> list[str]:
    """The settings in which runs differ, other than names, folders and devices."""
    ignored = ("name", "runs", "resume", "device", "threads", "data.cache", "data.root")
    flat = [dict(_flat(to_dict(config))) for config in configs]
    return [
        key
        for key in flat[0]
        if key not in ignored and any(other[key] != flat[0][key] for other in flat)
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((prefix + key, value))
    return found

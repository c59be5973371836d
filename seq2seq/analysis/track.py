"""Track: what every head looks at, again and again while the model learns.

Training calls the tracker (it knows nothing of attention); the tracker writes snapshots. It looks
in evaluation mode and without gradients, and draws no random number, so that the weights of a run
that is tracked equal those of one that is not, bit for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seq2seq.analysis import similarity
from seq2seq.analysis.capture import capture
from seq2seq.analysis.snapshots import FOLDER, Snapshots
from seq2seq.analysis.survey import patterns, usable
from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import AttentionMaps
from seq2seq.config import TrainConfig
from seq2seq.data.lines import is_blank, read_lines
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.version import __version__

Pair = tuple[str, str]

LEGIBLE = 50  # tokens; longer dev sentences are left to the statistics
LONGEST = 150  # tokens of the user's own sentences, and of dev pairs in the statistics
POOL = 4000  # dev pairs among which legible ones are looked for


class Sentence(NamedTuple):
    """A sentence to keep the maps of; without a translation, of the encoder only."""

    source: str
    target: str | None
    by: str = ""  # who translated it; empty: the target was given


class Tracker:
    """Writes a snapshot of a model whenever it is called: maps of sentences, numbers of heads.

    Args:
        folder: for the snapshots.
        tokenizer: the model's.
        sentences: whose maps are kept.
        pairs: over which every head is measured, targets given.
        name: of the run, for provenance.
        notes: what people should know beforehand.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        sentences: Sequence[Sentence],
        pairs: Sequence[Pair],
        *,
        name: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self.snapshots = Snapshots(folder)
        self.tokenizer = tokenizer
        self.sentences = list(sentences)
        self.pairs = list(pairs)
        self.name = name
        self.notes = list(notes)
        self._told = False

    def __call__(self, model: Transformer, update: int) -> str:
        """Write the snapshot of `update` unless there is one; the first time, say how large it is.

        What cannot be looked at or written (weights that are not finite, a full disk) is told and
        left out: training is worth more than its pictures.
        """
        if update in self.snapshots.updates:
            return ""
        try:
            size = self._write(model, update)
        except UserError as error:
            return f"warning: attention after update {update} is not kept: {error}"
        if self._told:
            return ""
        self._told = True
        return f"attention is kept in {self.snapshots.folder}: {size / 1e6:.2f} MB each time"

    def rewind(self, update: int) -> None:
        """Forget the snapshots of updates after `update`, which will be done again."""
        self.snapshots.forget_after(update)

    def _write(self, model: Transformer, update: int) -> int:
        records = maps_of(model, self.tokenizer, self.sentences, run=self.name, step=update)
        facts = [
            f"run {self.name} · update {update} of its training",
            f"{len(self.pairs)} dev pairs, targets given · pieces · rows of words "
            "(not of <s>, </s>)",
            f"seq2seq {__version__} · torch {torch.__version__}",
        ]
        table = numbers_of(model, self.tokenizer, self.pairs, facts)
        return self.snapshots.write(update, records, table)


def maps_of(
    model: Transformer, tokenizer: Tokenizer, sentences: Sequence[Sentence], **meta: Any
) -> list[AttentionMaps]:
    """The maps of every sentence, led along its translation; see `Sentence` for those without.

    Raises:
        UserError: a sentence is too long for the model.
    """
    records = capture(
        model,
        tokenizer,
        [sentence.source for sentence in sentences],
        [sentence.target or "" for sentence in sentences],
    )
    found = []
    for maps, sentence in zip(records, sentences, strict=True):
        how = {"how": "decoded", "decode": f"target by {sentence.by}"} if sentence.by else {}
        kept = maps if sentence.target is not None else _encoder_only(maps)
        found.append(replace(kept, meta={**kept.meta, **how, **meta}))
    return found


def _encoder_only(maps: AttentionMaps) -> AttentionMaps:
    """Without what belongs to the empty target that the pass was given."""
    meta = {name: value for name, value in maps.meta.items() if name != "alternatives"}
    return replace(maps.select(["enc"]), logprob=None, meta=meta)


def numbers_of(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[Pair], facts: Sequence[str]
) -> HeadTable:
    """Roles, statistics and likeness of every head over sentence pairs.

    Raises:
        UserError: no pairs, or one that is too long for the model.
    """
    found = patterns(model, tokenizer, pairs)
    joined = found.table.joined(similarity.table(found.distances))
    return replace(joined, facts=list(facts))


def tracker(
    config: TrainConfig,
    run: Path,
    tokenizer: Tokenizer,
    dev: Sequence[Pair],
    *,
    limit: int | None = None,
) -> Tracker:
    """The tracker that a configuration asks for.

    Args:
        config: its options that begin with "snapshot".
        run: the run folder.
        tokenizer: the run's.
        dev: pairs of the dev set.
        limit: longest sequence that the model takes.

    Raises:
        UserError: a file of sentences that cannot be used, or no usable dev pair.
    """
    most = min(LONGEST, limit or LONGEST)
    own = read_sentences(config.snapshot_file, tokenizer, most) if config.snapshot_file else []
    some = list(islice(dev, max(POOL, config.snapshot_pairs)))
    pairs = usable(tokenizer, some, most)[0]
    shown: list[Pair] = []
    with contextlib.suppress(UserError):  # none is short enough: said below
        shown = usable(tokenizer, some, min(LEGIBLE, most))[0][: config.snapshots]
    notes = []
    if len(shown) < config.snapshots:
        notes.append(
            f"train.snapshots={config.snapshots}, but only {len(shown)} dev pairs have at most "
            f"{LEGIBLE} tokens."
        )
    if single := sum(sentence.target is None for sentence in own):
        notes.append(
            f"{config.snapshot_file}: {single} of {len(own)} sentences without a translation "
            "behind a TAB; of them, only the encoder's attention is kept."
        )
    return Tracker(
        run / FOLDER,
        tokenizer,
        [*own, *(Sentence(*pair) for pair in shown)],
        pairs[: config.snapshot_pairs],
        name=run.resolve().name,
        notes=notes,
    )


def read_sentences(
    path: str | Path, tokenizer: Tokenizer, most: int, option: str = "train.snapshot_file"
) -> list[Sentence]:
    """Sentences of a file, one a line, each with its translation behind a TAB or without.

    Blank lines are left out; a sentence may have at most `most` tokens.

    Raises:
        UserError: the file cannot be read, holds no sentence, or has a line that cannot be used.
    """
    found = list(_sentences(read_lines(path, option), f"{option}: {path}"))
    if not found:
        raise UserError(f"{option}: {path} holds no sentence.")
    for number, sentence in found:
        check_length(sentence, tokenizer, most, f"{option}: {path}, line {number}")
    return [sentence for _, sentence in found]


def check_length(sentence: Sentence, tokenizer: Tokenizer, most: int, where: str) -> None:
    """Refuse a sentence of more than `most` tokens; `where` it stands is for the message.

    Raises:
        UserError: it is too long.
    """
    ids = tokenizer.encode_source([sentence.source])
    ids += tokenizer.encode_target([sentence.target or ""])
    if (length := 1 + max(map(len, ids))) > most:
        raise UserError(f"{where} has {length} tokens, more than {most}: split it.")


def _sentences(lines: Iterable[str], where: str) -> Iterator[tuple[int, Sentence]]:
    for number, line in enumerate(lines, start=1):
        source, *targets = line.split("\t")
        if is_blank(line):
            continue
        if len(targets) > 1 or is_blank(source):
            raise UserError(
                f"{where}, line {number} must be a sentence, or a sentence, a TAB and its "
                "translation."
            )
        target = targets[0] if targets and not is_blank(targets[0]) else None
        yield number, Sentence(source, target)

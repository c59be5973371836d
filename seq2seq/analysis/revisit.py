"""Revisit: the snapshots that training could have kept, made afterwards from its step folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from seq2seq.analysis.survey import usable
from seq2seq.analysis.tables import HeadTable
from seq2seq.analysis.track import (
    LEGIBLE,
    LONGEST,
    POOL,
    Pair,
    Sentence,
    check_length,
    maps_of,
    numbers_of,
    read_sentences,
)
from seq2seq.attention_maps import AttentionMaps
from seq2seq.data.corpus import named_split
from seq2seq.decoding.lines import Progress, report
from seq2seq.decoding.translator import Translator
from seq2seq.run_folder import load_run, step_folders, trained_on, weights_hash
from seq2seq.version import __version__


class Look(NamedTuple):
    """What was seen after some updates."""

    update: int
    records: list[AttentionMaps]
    table: HeadTable


def revisit(
    run: Path,
    sentences: Sequence[Sentence],
    pairs: Sequence[Pair],
    *,
    device: str = "auto",
    progress: Progress | None = None,
) -> Iterator[Look]:
    """Look at every step folder of a run, oldest first; one model is in memory at a time.

    Args:
        run: the run folder.
        sentences: whose maps are wanted.
        pairs: over which every head is measured, targets given.
        device: where the models compute.
        progress: told how many folders are done.

    Raises:
        UserError: a folder that cannot be read, or a sentence that is too long for the model.
    """
    folders = step_folders(run)
    for done, folder in enumerate(folders, start=1):
        loaded = load_run(run, device=device, checkpoint=folder.name)
        meta = {
            "run": run.resolve().name,
            "step": loaded.step,
            "weights_hash": weights_hash(run, folder.name),
        }
        facts = [
            f"run {meta['run']} · checkpoint step {loaded.step} · weights {meta['weights_hash']}",
            f"{len(pairs)} sentence pairs, targets given · pieces · rows of words "
            "(not of <s>, </s>)",
            f"seq2seq {__version__}",
        ]
        records = maps_of(loaded.model, loaded.tokenizer, sentences, **meta)
        table = numbers_of(loaded.model, loaded.tokenizer, pairs, facts)
        yield Look(loaded.step, records, table)
        report(progress, done, len(folders))


def translated(
    sentences: Sequence[Sentence], translate: Callable[[list[str]], Sequence[str]], by: str
) -> list[Sentence]:
    """Sentences without a translation get the one that `translate` finds, by the model `by`.

    All checkpoints are then led along the same words, so that their maps can be compared.
    """
    missing = [s.source for s in sentences if s.target is None]
    found = iter(translate(missing) if missing else ())
    return [s if s.target is not None else s._replace(target=next(found), by=by) for s in sentences]


def chosen(
    run: Path,
    *,
    text: str | None,
    target: str | None,
    file: str | None,
    split: str,
    count: int,
    limit: int,
    device: str,
) -> tuple[list[Sentence], list[Pair]]:
    """The sentences to look at and the pairs to measure on, read with the last checkpoint.

    Args:
        run: the run folder.
        text: a sentence, or None.
        target: its translation; None: as the last checkpoint translates it.
        file: of sentences, as in `read_sentences`, or None; with neither, the first of the corpus.
        split: of the run's corpus, such as "dev".
        count: sentences of the corpus.
        limit: pairs to measure on.
        device: where the last checkpoint computes.

    Raises:
        UserError: text that cannot be used, or no such split.
    """
    last = load_run(run, device=device, checkpoint=step_folders(run)[-1].name)
    most = min(LONGEST, last.model.position_limit or LONGEST)
    corpus = named_split(last.config.data, split, trained_on(run))
    pairs = usable(last.tokenizer, corpus[: max(POOL, limit)], most)[0]
    if text is not None:
        sentences = [Sentence(text, target)]
        check_length(sentences[0], last.tokenizer, most, "--text")
    elif file is not None:
        sentences = read_sentences(file, last.tokenizer, most, "--input")
    else:
        legible = usable(last.tokenizer, pairs, min(LEGIBLE, most))[0]
        sentences = [Sentence(*pair) for pair in legible[:count]]
    translator = Translator(last.model, last.tokenizer, last.config.decode)

    def translate(texts: list[str]) -> list[str]:
        return [translation.text for translation in translator.translate(texts)]

    return translated(sentences, translate, f"step {last.step}"), pairs[:limit]

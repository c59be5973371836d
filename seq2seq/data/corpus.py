"""Where sentence pairs come from: the embedded grammar, the user's files, or Multi30k.

Training pairs are streamed and may be re-read at will; dev and test pairs are lists. Nothing is
filtered here: blank lines of dev and test files stay, so that outputs line up with references.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from itertools import islice
from typing import Any

from seq2seq.choices import DataKind
from seq2seq.config import DataConfig
from seq2seq.data import grammar, multi30k
from seq2seq.data.lines import Pair, PairFiles, count_lines, read_lines
from seq2seq.data.splits import Split, scan, split_off
from seq2seq.errors import UserError

__all__ = ["Corpus", "Pair", "count_lines", "named_split", "open_corpus", "read_lines"]

FORMAT_VERSION = 1  # part of the fingerprint; raised when the same files yield other pairs
FILE_OPTIONS = tuple(
    f"{part}_{kind}" for part in ("train", "dev", "test") for kind in ("source", "target", "tsv")
)


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs (source, target) for training, validation and test.

    Attributes:
        dev: validation pairs.
        test: test pairs; empty if there are none.
        size: number of training pairs that `train` yields.
        description: one line for the user.
        fingerprint: changes with the training pairs, and with nothing else than them, the options
            that choose among them, and the format version.
        notes: what the user should know about the data.
    """

    dev: list[Pair]
    test: list[Pair]
    size: int
    description: str
    fingerprint: str
    notes: list[str] = field(default_factory=list)
    _pairs: Callable[[], Iterator[Pair]] = field(kw_only=True, repr=False)

    def train(self) -> Iterator[Pair]:
        """Stream the training pairs, from the first, in the order of the text."""
        return self._pairs()


def open_corpus(config: DataConfig) -> Corpus:
    """Check, measure and open the corpus that the configuration names.

    The training text is read through once or twice before this returns, so that a bad line
    near its end is reported now rather than after an epoch.

    Raises:
        UserError: options that contradict each other or are missing, or unreadable text.
    """
    _refuse_idle_options(config)
    if config.kind is DataKind.grammar:
        return _grammar_corpus(config)
    if config.kind is DataKind.multi30k:
        train, dev, test = multi30k.standard_splits(config)
        return _file_corpus(config, train, dev, test, multi30k.deviations(config))
    given = [_pair_files(config, part) for part in ("train", "dev", "test")]
    if given[0] is None:
        raise UserError(
            "data=files needs the training text: give data.train_source and data.train_target "
            "(--train-source, --train-target), or data.train_tsv (--train-tsv)."
        )
    return _file_corpus(config, given[0], given[1], given[2], [])


def named_split(config: DataConfig, name: str, trained_on: str | None = None) -> list[Pair]:
    """The pairs of one split by name: train, dev, test, or a file stem of Multi30k.

    Args:
        config: which corpus.
        name: of the split.
        trained_on: the fingerprint of the corpus that a model was trained on. A dev or test set
            that is no file of its own but held out of another corpus may hold pairs that the
            model knows, and is refused.

    Raises:
        UserError: no such split, or it is empty, or held out of another corpus.
    """
    extra = multi30k.SPLITS if config.kind is DataKind.multi30k else ()
    names = ["test", "dev", "train", *(split for split in extra if split != "train")]
    if name not in names:
        raise UserError(f"There is no split {name!r} in this corpus; choose {', '.join(names)}.")
    if name in extra:
        return list(multi30k.split_files(config, name))
    if name != "train" and config.kind is DataKind.files:
        files = _pair_files(config, name)
        if files is not None:  # needs no look at the training text
            files.check()
            return list(files)
    corpus = open_corpus(config)
    held_out = name != "train" and config.kind is not DataKind.multi30k
    if held_out and trained_on is not None and corpus.fingerprint != trained_on:
        what = "embedded grammar" if config.kind is DataKind.grammar else "training text"
        raise UserError(
            f"The {what}, or an option that divides it, is not what this run was trained with, so "
            f"its {name} set might hold pairs that the model has seen: put back the {what} and the "
            "options, or name files to evaluate on."
        )
    pairs = {"test": corpus.test, "dev": corpus.dev}.get(name)
    pairs = list(corpus.train()) if pairs is None else pairs
    if not pairs:
        raise UserError(
            f"This corpus has no {name} pairs: name files of them with data.{name}_source and "
            f"data.{name}_target."
        )
    return pairs


def first_pairs(config: DataConfig, count: int) -> list[Pair]:
    """The first training pairs, or all if there are fewer; nothing behind them is read.

    Raises:
        UserError: the text is missing, or no text is named.
    """
    if config.kind is DataKind.grammar:
        made = grammar.generate(
            min(count, config.grammar_pairs), split="train", seed=config.grammar_seed
        )
        return [(pair.source, pair.target) for pair in made]
    if config.kind is DataKind.multi30k:
        return list(islice(multi30k.standard_splits(config)[0], count))
    files = _pair_files(config, "train")
    if files is None:
        raise UserError("No training text is named.")
    return list(islice(files, count))


def _refuse_idle_options(config: DataConfig) -> None:
    """An option that this kind of corpus would ignore is a misunderstanding, so say so."""
    idle = [] if config.kind is DataKind.files else list(FILE_OPTIONS)
    if config.kind is not DataKind.multi30k:
        idle.append("root")
    for name in idle:
        if getattr(config, name) is not None:
            owner = "multi30k" if name == "root" else "files"
            raise UserError(
                f"data.{name} has no effect with data={config.kind}: use data={owner}, or leave "
                f"data.{name} out."
            )


def _pair_files(config: DataConfig, part: str) -> PairFiles | None:
    """The files of "train", "dev" or "test", or None if the configuration names none."""
    source, target, tsv = (
        getattr(config, f"{part}_{kind}") for kind in ("source", "target", "tsv")
    )
    options = tuple(f"data.{part}_{kind} (--{part}-{kind})" for kind in ("source", "target", "tsv"))
    if tsv is not None:
        if source is not None or target is not None:
            raise UserError(
                f"{options[2]} already holds both sides: leave out data.{part}_source and "
                f"data.{part}_target, or the TSV."
            )
        return PairFiles(tsv, None, options[2:])
    if source is None and target is None:
        return None
    if source is None or target is None:
        given, missing = (options[1], options[0]) if source is None else options[:2]
        raise UserError(f"{given} is given without {missing}: sentence pairs need both sides.")
    return PairFiles(source, target, options[:2])


def _file_corpus(
    config: DataConfig,
    train: PairFiles,
    dev: PairFiles | None,
    test: PairFiles | None,
    notes: list[str],
) -> Corpus:
    for files in (train, dev, test):
        if files is not None:
            files.check()
    given_dev = None if dev is None else list(dev)
    given_test = None if test is None else list(test)
    found = scan(train, frozenset((given_dev or []) + (given_test or [])))
    if not found.usable:
        raise UserError(f"{train} holds no pair with text on both sides, so nothing can be learnt.")
    sizes = {
        "dev_size": config.dev_size if given_dev is None else 0,
        "test_size": config.test_size if given_dev is None and given_test is None else 0,
    }
    split = Split()
    if any(sizes.values()):
        split = split_off(train, found, **sizes, seed=config.split_seed)
    held_out = split.held_out

    def pairs() -> Iterator[Pair]:
        return islice((pair for pair in train if pair not in held_out), config.limit)

    left = found.pairs - split.removed
    return Corpus(
        dev=split.dev if given_dev is None else given_dev,
        test=split.test if given_test is None else given_test,
        size=left if config.limit is None else min(left, config.limit),
        description=f"sentence pairs of {train}",
        fingerprint=_fingerprint(
            found.digest, config, split=[*sizes.values(), config.split_seed] if held_out else None
        ),
        notes=notes + _file_notes(split, found.distinct, found.known),
        _pairs=pairs,
    )


def _file_notes(split: Split, distinct: int, known: int) -> list[str]:
    notes = []
    if split.memory:
        notes.append(
            f"dev set = training set: {distinct} different pair{'' if distinct == 1 else 's'} are "
            "too few to split, so dev scores show what was memorised."
        )
    elif split.removed:
        repeats = split.removed - len(split.held_out)
        notes.append(
            f"{len(split.dev)} dev and {len(split.test)} test pairs split off the training text"
            + (f"; {repeats} more training pairs equal to them left out." if repeats else ".")
        )
    if known:
        notes.append(
            f"{known} training pair{'' if known == 1 else 's'} also stand in the dev or test text, "
            "so scores on it flatter a little."
        )
    return notes


def _grammar_corpus(config: DataConfig) -> Corpus:
    if (config.source_lang, config.target_lang) != ("en", "de"):
        raise UserError(
            f"data=grammar is English to German, not {config.source_lang} to "
            f"{config.target_lang}: set data.source_lang=en and data.target_lang=de."
        )

    def pairs(count: int, split: grammar.Split) -> Iterator[Pair]:
        made = grammar.generate(count, split=split, seed=config.grammar_seed)
        return ((pair.source, pair.target) for pair in made)

    size = config.grammar_pairs if config.limit is None else min(config.grammar_pairs, config.limit)
    # The lexicon and the rules decide the pairs, so their text stands for them in the fingerprint.
    digest = sha256()
    for file in sorted(resources.files("seq2seq.data").iterdir(), key=lambda file: file.name):
        if file.is_file() and file.name.startswith(("grammar", "lexicon")):
            digest.update(file.read_bytes())
    return Corpus(
        dev=list(pairs(config.dev_size, "dev")),
        test=list(pairs(config.test_size, "test")),
        size=size,
        description=f"{size} en→de sentence pairs of the embedded grammar (synthetic)",
        fingerprint=_fingerprint(
            digest.hexdigest(), config, grammar=[config.grammar_pairs, config.grammar_seed]
        ),
        _pairs=lambda: islice(pairs(config.grammar_pairs, "train"), size),
    )


def _fingerprint(content: str, config: DataConfig, **options: Any) -> str:
    parts = {"format": FORMAT_VERSION, "content": content, "limit": config.limit, **options}
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

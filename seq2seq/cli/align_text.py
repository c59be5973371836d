"""What `seq2seq align` aligns: sentence pairs, and their gold alignment where it is known."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from seq2seq.analysis.align import Gold, check_range, parse_gold, split_words
from seq2seq.choices import DataKind
from seq2seq.config_file import load_config
from seq2seq.data import grammar
from seq2seq.data.corpus import named_split
from seq2seq.data.lines import PairFiles, read_lines
from seq2seq.errors import UserError

GRAMMAR_MARKS = ".,?"  # words of their own in the embedded grammar's gold alignment


@dataclass(frozen=True)
class AlignText:
    """What is aligned.

    Attributes:
        name: of the file or split.
        pairs: source and target sentences.
        gold: the right alignments, one for each pair; None: not known.
        marks: characters that are words of their own.
    """

    name: str
    pairs: list[tuple[str, str]]
    gold: list[Gold] | None
    marks: str = ""

    def word_counts(self, number: int) -> tuple[int, int]:
        """How many words the sentences of a pair have, source and target."""
        source, target = self.pairs[number]
        return len(split_words(source, self.marks)), len(split_words(target, self.marks))


def read_text(args: argparse.Namespace) -> AlignText:
    """The sentence pairs that the options name, with their gold alignment if there is one.

    Raises:
        UserError: unreadable files, files of different lengths, gold links to words that are not
            there, or no such split.
    """
    text = _split(args) if args.split is not None else _files(args)
    for number, gold in enumerate(text.gold or []):
        check_range(gold, text.word_counts(number), f"{args.gold or text.name}, line {number + 1}")
    return text


def _files(args: argparse.Namespace) -> AlignText:
    files = PairFiles(args.source, args.target, ("--source", "--target"))
    pairs = list(islice(files, args.limit))
    if not pairs:
        raise UserError(f"--source {args.source} holds no sentence.")
    if args.gold is None:
        return AlignText(args.source, pairs, None)
    lines = list(read_lines(args.gold, "--gold"))
    if len(lines) < len(pairs) or (args.limit is None and len(lines) > len(pairs)):
        raise UserError(
            f"{args.gold} has {len(lines)} lines but there are {len(pairs)} sentence pairs: it "
            "needs one line for each."
        )
    gold = [
        parse_gold(line, f"{args.gold}, line {number}", one_indexed=args.one_indexed)
        for number, line in enumerate(lines[: len(pairs)], start=1)
    ]
    return AlignText(args.source, pairs, gold)


def _split(args: argparse.Namespace) -> AlignText:
    """A split of the run's corpus; the embedded grammar makes its gold anew, with the pairs."""
    from seq2seq.run_folder import CONFIG, trained_on

    data = load_config(Path(args.run) / CONFIG).data
    pairs = named_split(data, args.split, trained_on(Path(args.run)))[: args.limit]
    if data.kind is not DataKind.grammar:
        return AlignText(args.split, pairs, None)
    made = list(grammar.generate(len(pairs), split=args.split, seed=data.grammar_seed))
    gold = [Gold.exact(pair.alignment) for pair in made]
    return AlignText(args.split, [(pair.source, pair.target) for pair in made], gold, GRAMMAR_MARKS)

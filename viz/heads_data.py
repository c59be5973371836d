"""What `seq2seq heads` knows besides the pairs: grammatical links, and how common words are."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seq2seq.cli.evaluate import EvaluateConfig, TestSet
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.analysis.links import LinkCounts
    from seq2seq.analysis.syntax import Annotate
    from seq2seq.run_folder import LoadedRun

SAMPLE = 10_000  # training sentences whose words are counted


def add_knowledge_options(parser: argparse.ArgumentParser) -> None:
    """Add --deps and --freq."""
    add = parser.add_argument_group("what is known of the source").add_argument
    add(
        "--deps",
        metavar="FILE",
        help="dependency trees of the source sentences (CoNLL-U), for syntactic roles; "
        "of the embedded grammar they are known",
    )
    add(
        "--freq",
        metavar="FILE",
        help="words with their counts, for the role of rare words; else the training text counts",
    )


def annotation(args: argparse.Namespace, config: EvaluateConfig, test: TestSet) -> Annotate | None:
    """The grammatical links of the sentences, from a file or the grammar itself.

    Raises:
        UserError: the file is no CoNLL-U.
    """
    from seq2seq.analysis.syntax import from_grammar, from_trees

    if args.deps:
        from seq2seq.data.conllu import read_trees

        return from_trees(read_trees(args.deps, "--deps"))
    if test.synthetic:
        from seq2seq.data.grammar import generate

        count = len(test.sources or [])
        return from_grammar(generate(count, split=args.split, seed=config.data.grammar_seed))
    return None


def check_annotated(args: argparse.Namespace, links: LinkCounts, pairs: int) -> list[str]:
    """A line on how many sentences had trees.

    Raises:
        UserError: there are trees, but of none of the sentences.
    """
    if not args.deps:
        return [f"links of {links.sentences} sentences by the grammar"] * bool(links.sentences)
    if not links.sentences:
        raise UserError(
            f"--deps: {args.deps} holds no tree of any of the {pairs} sentences: parse the very "
            "source lines, without changing their characters."
        )
    return [f"links of {links.sentences} of {pairs} sentences by {args.deps}"]


def rarity(
    args: argparse.Namespace, run: LoadedRun, config: EvaluateConfig
) -> tuple[Mapping[str, int] | None, str]:
    """Ranks of source pieces by frequency, and where they come from.

    Raises:
        UserError: --freq names no list of words.
    """
    from seq2seq.analysis.frequency import count_pieces, ranks, read_frequencies
    from seq2seq.data.corpus import first_pairs

    if args.freq:
        return ranks(read_frequencies(args.freq, run.tokenizer, "--freq")), f"rarity by {args.freq}"
    try:
        sources = [source for source, _ in first_pairs(config.data, SAMPLE)]
    except UserError:  # the training text has gone, or is elsewhere
        return None, "rarity by place in the vocabulary: the training text is not here"
    counts = count_pieces(run.tokenizer, sources)
    return ranks(counts), f"rarity by the first {len(sources):,} training sentences"

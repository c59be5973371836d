"""What can be said of all heads of a model without switching any off: one pass over a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import tee

from seq2seq.analysis import similarity
from seq2seq.analysis.capture import capture_each
from seq2seq.analysis.importance import importance
from seq2seq.analysis.intervene import all_heads
from seq2seq.analysis.links import LinkCounts
from seq2seq.analysis.norms import contribution_sizes
from seq2seq.analysis.roles import Thresholds, with_roles
from seq2seq.analysis.rollout_shares import RolloutShares
from seq2seq.analysis.similarity import Distances, Similarity
from seq2seq.analysis.statistics import HeadStatistics
from seq2seq.analysis.syntax import Annotate, syntactic_roles, syntax_table
from seq2seq.analysis.tables import HeadTable
from seq2seq.data.lines import is_blank
from seq2seq.data.tokenizer import CONTROL, Tokenizer
from seq2seq.decoding.lines import Progress, encode_lines, report
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

Pair = tuple[str, str]


@dataclass(frozen=True)
class Options:
    """How to survey.

    Attributes:
        special_rows: also count the rows of control tokens.
        ranks: source piece → how many are more common, for the role of rare tokens; None: by their
            place in the tokenizer's vocabulary.
        annotate: from a source sentence to its words and grammatical links, for syntactic roles;
            None: no such roles.
        thresholds: of the roles.
        alike: nats; heads of one group differ on average by less.
    """

    special_rows: bool = False
    ranks: Mapping[str, int] | None = None
    annotate: Annotate | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    alike: float = similarity.ALIKE


@dataclass(frozen=True)
class Survey:
    """What was found.

    Attributes:
        table: a row for each head.
        distances: the divergences, by kind.
        shares: what positions may hold after each layer (rollout).
        links: which heads look along which grammatical links, where these were annotated.
    """

    table: HeadTable
    distances: dict[str, Distances]
    shares: RolloutShares = field(default_factory=RolloutShares)
    links: LinkCounts = field(default_factory=LinkCounts)


def survey(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Survey:
    """Statistics, roles, sizes, divergence and gradient importance of every head.

    Args:
        model: a Transformer; left as it was.
        tokenizer: the model's.
        pairs: sentences and their translations, along which the model is led.
        options: choices other than the usual ones.
        progress: told how many pairs are captured.

    Raises:
        UserError: no pairs, or one that is too long for the model.
    """
    options = options or Options()
    found = patterns(model, tokenizer, pairs, options, progress=progress)
    table = found.table.joined(
        contribution_sizes(model, tokenizer, pairs),
        similarity.table(found.distances, options.alike),
        importance(model, tokenizer, pairs),
    )
    return replace(found, table=table)


def patterns(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Survey:
    """Roles and statistics of every head, and their divergences: what the weights alone say.

    The maps of one sentence are forgotten before the next ones are made.

    Args:
        model: a Transformer; left as it was.
        tokenizer: the model's.
        pairs: sentences and their translations, along which the model is led.
        options: choices other than the usual ones.
        progress: told how many pairs are captured.

    Raises:
        UserError: no pairs, or one that is too long for the model.
    """
    if not pairs:
        raise UserError("There is no sentence pair to survey heads on.")
    if not all_heads(model):
        raise UserError("All heads of this model are removed, so there is nothing to look at.")
    options = options or Options()
    ranks = piece_ranks(tokenizer) if options.ranks is None else options.ranks
    statistics = HeadStatistics(special_rows=options.special_rows, ranks=ranks)
    compared, shares, links = Similarity(), RolloutShares(), LinkCounts(itself=True)
    sources, targets = tee(pairs)
    records = capture_each(model, tokenizer, (s for s, _ in sources), (t for _, t in targets))
    for done, maps in enumerate(records, start=1):
        statistics.add(maps)
        compared.add(maps)
        shares.add(maps)
        annotation = options.annotate(maps.text["source"]) if options.annotate else None
        if annotation:
            links.add(maps, annotation)
        report(progress, done, len(pairs))
    limits = options.thresholds
    table = with_roles(statistics.table(), limits, syntactic_roles(links, limits.syntactic))
    if links.sentences:
        table = table.joined(syntax_table(links))
    return Survey(table, compared.distances(), shares, links)


def piece_ranks(tokenizer: Tokenizer) -> dict[str, int]:
    """Source piece → its place in the vocabulary, where common pieces come first.

    A unigram vocabulary is in order of probability, a BPE vocabulary in order of merges.
    """
    ids = [number for number in range(tokenizer.source_vocab) if number not in CONTROL]
    return {piece: rank for rank, piece in enumerate(tokenizer.source_pieces(ids))}


def usable(tokenizer: Tokenizer, pairs: Sequence[Pair], most: int) -> tuple[list[Pair], list[str]]:
    """The pairs with text on both sides and at most `most` tokens, and what was left out, in words.

    Raises:
        UserError: none is left.
    """
    filled = [pair for pair in pairs if not any(map(is_blank, pair))]
    kept = list(_short(tokenizer, filled, most))
    counts = (
        (len(pairs) - len(filled), "with a blank side"),
        (len(filled) - len(kept), f"longer than {most} tokens"),
    )
    if not kept:
        raise UserError(
            f"None of the {len(pairs)} sentence pairs has text on both sides and at most {most} "
            "tokens."
        )
    return kept, [f"left out: {count} {what}" for count, what in counts if count]


def _short(tokenizer: Tokenizer, pairs: Sequence[Pair], most: int) -> Iterator[Pair]:
    sources = encode_lines(tokenizer.encode_source, [source for source, _ in pairs])
    targets = encode_lines(tokenizer.encode_target, [target for _, target in pairs])
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        if max(len(source), len(target)) < most:  # and the end of sentence
            yield pair

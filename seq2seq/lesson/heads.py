"""What the heads of a trained run have become: different, alike, dispensable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.analysis.ablation import ablate_loss
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.similarity import ALIKE
from seq2seq.analysis.survey import Survey, survey, usable
from seq2seq.analysis.tables import Column, HeadTable, Value
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KIND_NAMES, AttentionMaps
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.lesson.part import Claim, Part, Table, Verdict, check, table
from seq2seq.lesson.runs import MOST_TOKENS, Pairs
from seq2seq.run_folder import LoadedRun

SENTENCE = "The developer deployed the application because it was ready."
PRONOUN = "it"
LEVEL = 0.05  # of the significance of a loss change
COLUMNS = ("roles", "entropy", "confidence", "nearest", "nearest_js", "loss_change", "loss_p_holm")


@dataclass(frozen=True)
class Heads:
    """What was found over some sentences, and one sentence to look at."""

    table: HeadTable
    survey: Survey
    maps: AttentionMaps
    facts: Sequence[str]


def study(run: LoadedRun, on: Pairs, maps: AttentionMaps, facts: Sequence[str] = ()) -> Heads:
    """Survey the heads of a run, and switch each off.

    Args:
        run: a trained run.
        on: sentences and their translations.
        maps: the record of the sentence to look at.
        facts: where the run comes from.

    Raises:
        UserError: no pair is usable.
    """
    most = min(MOST_TOKENS, run.model.position_limit or MOST_TOKENS)
    kept, left_out = usable(run.tokenizer, on.pairs, most)
    found = survey(run.model, run.tokenizer, kept)
    translator = Translator(run.model, run.tokenizer, run.config.decode)
    joined = found.table.joined(ablate_loss(translator, kept))
    about = [*facts, f"{len(kept)} sentence pairs of {on.name}", *left_out]
    return Heads(joined, found, maps, about)


def part(found: Heads) -> Part:
    """The claims on trained heads."""
    columns = [Column("head"), *(found.table.column(name) for name in COLUMNS)]
    rows: list[list[Value]] = [
        [str(head), *(found.table.rows[head].get(name) for name in COLUMNS)]
        for head in found.table.heads
    ]
    tables = [table("heads", "Every head", columns, rows)]
    claims = [*_differ(found), *_alike(found), *_dispensable(found)]
    pronoun = _pronoun(found.maps)
    if pronoun is not None:
        tables.append(pronoun)
        claims.append(_reference(pronoun))
    return Part(
        "heads",
        "What the heads of a trained model have become",
        "Where heads look, by weights; what is lost without them, by switching each off.",
        claims,
        tables,
        found.facts,
    )


def _differ(found: Heads) -> list[Claim]:
    means = {
        kind: float(d.matrix[np.triu_indices(len(d.heads), 1)].mean())
        for kind, d in found.survey.distances.items()
        if len(d.heads) > 1
    }
    if not means:
        return []
    return [
        Claim(
            "Heads read the same sentence and look at different things.",
            "mean divergence of two heads: "
            + ", ".join(f"{KIND_NAMES[kind]} {js:.3f}" for kind, js in means.items())
            + " nats, of at most 0.693",
            check(min(means.values()) > 0.01),
            "Thumbnails of one sentence: stripes, columns, blurs.",
        )
    ]


def _alike(found: Heads) -> list[Claim]:
    values = found.table.values("nearest_js")
    if not values:
        return []
    head = min(values, key=lambda h: values[h])
    other = found.table.rows[head].get("nearest")
    return [
        Claim(
            "Heads may resemble each other: separate weights do not promise separate work.",
            f"the most alike are {head} and {other}, {values[head]:.4f} nats apart",
            check(values[head] < ALIKE, Verdict.open),
            "Columns “nearest” and “nearest_js”.",
        )
    ]


def _dispensable(found: Heads) -> list[Claim]:
    changes, p = found.table.values("loss_change"), found.table.values("loss_p_holm")
    idle = [head for head, value in changes.items() if p[head] >= LEVEL or value <= 0]
    most = max(changes, key=lambda h: changes[h])
    least = min(changes, key=lambda h: abs(changes[h]))
    return [
        Claim(
            "Some heads can be switched off at little cost.",
            f"without {least} the loss changes by {changes[least]:+.4f} nats per token, without "
            f"{most} by {changes[most]:+.4f}; {len(idle)} of {len(changes)} heads are not missed "
            "beyond chance",
            check(abs(changes[least]) < 0.1 * abs(changes[most])),
            "Column “loss_change”. One at a time, while all others help out.",
        )
    ]


def _pronoun(maps: AttentionMaps) -> Table | None:
    """Where each encoder head looks from "it", by words; None without the word."""
    try:
        words = to_words(maps)
    except UserError:
        return None
    if PRONOUN not in words.src:
        return None
    row = words.src.index(PRONOUN)
    rows: list[list[Value]] = []
    for layer, ids, weights in zip(
        words.layer_ids["enc"], words.head_ids["enc"], words.enc, strict=True
    ):
        for head, matrix in zip(ids, weights, strict=True):
            order = np.argsort(-matrix[row], kind="stable")[:2]
            line: list[Value] = [str(HeadId("enc", layer, head))]
            for key in order:
                line += [words.src[key], float(matrix[row, key])]
            rows.append(line)
    columns = [
        Column("head"),
        Column("looks at"),
        Column("weight", "", "", 3),
        Column("then at"),
        Column("weight of it", "", "", 3),
    ]
    return table("heads_it", f"From “{PRONOUN}” in “{maps.text['source']}”", columns, rows)


def _reference(found: Table) -> Claim:
    places = [str(row[1]) for row in found.listing.rows]
    different = list(dict.fromkeys(places))
    return Claim(
        "From one word, heads look at different words.",
        f"from “{PRONOUN}”, {len(places)} encoder heads look most at {', '.join(different)}",
        check(len(different) > 1),
        "A bright cell is not a proof: seq2seq trace swaps heads and sees what turns.",
    )

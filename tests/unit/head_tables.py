"""Tables of heads that the tests of pictures and reports share."""

from __future__ import annotations

import numpy as np
from figure_geometry import assert_tidy as assert_tidy
from figure_geometry import drawn_texts as drawn_texts

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.similarity import Distances
from seq2seq.analysis.tables import Column, HeadTable

SELF_ONLY = ("distance", "previous")
ROLES = ("previous 0.97", "none", "separator 0.71; broad 0.91", "offset −3 0.94")


def heads_of(layers: int, heads: int) -> list[HeadId]:
    return [
        HeadId(kind, layer, head)
        for kind in ("enc", "dec", "cross")
        for layer in range(layers)
        for head in range(heads)
    ]


def make_table(layers: int = 2, heads: int = 4, *, seed: int = 0) -> HeadTable:
    """Random numbers; cross-attention has no distances, as ever."""
    rng = np.random.default_rng(seed)
    columns = [
        Column("roles", "", "what for"),
        Column("entropy", "nats", "how broad", 2),
        Column("uniform_entropy", "nats", "the broadest", 2),
        Column("confidence", "weight", "largest weight", 2),
        Column("distance", "tokens", "how far", 1),
        Column("previous", "of rows", "the token before", 2),
        Column("importance", "nats/token", "slope of the loss", 4),
        Column("bleu_change", "BLEU", "without the head", 2),
    ]
    rows = {}
    for place, head in enumerate(heads_of(layers, heads)):
        row = {
            "roles": ROLES[place % len(ROLES)],
            "entropy": rng.uniform(0, 2.5),
            "uniform_entropy": 2.6,
            "confidence": rng.uniform(0.1, 1),
            "distance": rng.uniform(0, 9),
            "previous": rng.uniform(0, 1),
            "importance": rng.uniform(0, 0.02),
            "bleu_change": rng.normal(-2, 5),
        }
        if head.kind == "cross":
            row = {name: value for name, value in row.items() if name not in SELF_ONLY}
        rows[head] = row
    return HeadTable(columns, rows, ["run demo · checkpoint step 7", "12 sentence pairs"])


def make_distances(layers: int = 2, heads: int = 4, *, seed: int = 0) -> dict[str, Distances]:
    """Distances of random points; those of one layer lie near each other."""
    rng = np.random.default_rng(seed)
    found = {}
    for kind in ("enc", "dec", "cross"):
        own = [head for head in heads_of(layers, heads) if head.kind == kind]
        points = rng.normal(scale=0.05, size=(len(own), 3))
        points += np.array([[0.15 * head.layer, 0, 0] for head in own])
        matrix = np.sqrt(((points[:, None] - points) ** 2).sum(-1)).clip(0, 0.69)
        found[kind] = Distances(own, matrix)
    return found

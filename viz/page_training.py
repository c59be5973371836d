"""What a page with a slider through training knows: which records are one sentence, by update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import AttentionMaps
from seq2seq.errors import UserError
from viz.page_tables import of_heads

CORPUS = (
    "roles",
    "entropy",
    "confidence",
    "distance",
    "previous",
    "itself",
    "next",
    "special_mass",
    "mean_js",
)
"""The columns of the tables that a page carries for every update."""


def training(
    records: Sequence[AttentionMaps], tables: Mapping[int, HeadTable] | None = None
) -> dict[str, Any]:
    """JSON-ready: {"series": [{"updates": […], "records": […]}, …], "tables": {update: …}}.

    A series is one sentence pair; its records are places in `records`, in order of updates.

    Args:
        records: snapshots; the meta of each says after which update ("step") it was made.
        tables: numbers of heads over many sentences, by update.

    Raises:
        UserError: a record that does not say its update, or one sentence twice at one update.
    """
    found: dict[tuple[str, str], dict[int, int]] = {}
    for place, maps in enumerate(records):
        update = maps.meta.get("step")
        text = maps.text.get("source", ""), maps.text.get("target", "")
        if not isinstance(update, int):
            raise UserError(f"The record of {text[0][:40]!r} does not say after which update.")
        places = found.setdefault(text, {})
        if places.setdefault(update, place) != place:
            raise UserError(f"The sentence {text[0][:40]!r} comes twice after update {update}.")
    return {
        "series": [
            {"updates": sorted(places), "records": [places[update] for update in sorted(places)]}
            for places in found.values()
        ],
        "tables": {str(update): _numbers(table) for update, table in (tables or {}).items()},
    }


def _numbers(table: HeadTable) -> dict[str, Any]:
    found: dict[str, Any] = of_heads(table.only(CORPUS))
    rounded = {
        name: {head: round(value, 4) for head, value in values.items()}
        for name, values in found["statistics"].items()
    }
    return {**found, "statistics": rounded}

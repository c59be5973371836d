"""The files of a report on heads: its pictures, page and tables, and where they may lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from matplotlib.figure import Figure

from seq2seq.analysis.findings import findings
from seq2seq.analysis.roles import main_role
from seq2seq.analysis.rollout_shares import RolloutShares
from seq2seq.analysis.similarity import Distances
from seq2seq.analysis.tables import HeadTable
from seq2seq.errors import UserError
from seq2seq.whole_file import write_whole
from viz import likeness, summary
from viz.bright import bright
from viz.report import Picture, html
from viz.rollout_bars import rollout_bars
from viz.sheet import heading
from viz.style import render

UNIT_SCALE = ("entropy_share", "confidence", "previous", "special_mass")  # colours from 0 to 1
EFFECTS = ("loss_change", "bleu_change", "importance")  # the first there is stands against looks
GRIDS = ("importance", "loss_change", "bleu_change", *UNIT_SCALE, "distance")


def figures(
    table: HeadTable,
    distances: dict[str, Distances],
    also: Sequence[str] = (),
    shares: RolloutShares | None = None,
) -> Iterator[tuple[str, Figure, str]]:
    """The pictures of the report: name, figure, and a sentence on how to read it."""
    effect = next(name for name in ("effect", *reversed(also), *EFFECTS) if table.has(name))
    yield (
        "bright",
        bright(table, effect),
        "How hard each head looks, and how much depends on it: bright heads at the bottom are "
        "the ones that weights alone would overrate.",
    )
    for name in dict.fromkeys([*GRIDS, *also]):
        if table.has(name):
            column = table.column(name)
            figure = summary.stat_grid(table, name, most=1.0 if name in UNIT_SCALE else None)
            meaning = f": {column.meaning}" if column.meaning else ""
            yield name, figure, f"{column.title}{meaning}. Rows are layers, columns are heads."
    yield (
        "layers",
        summary.layers(table),
        "Entropy, confidence and distance by layer; a dot is a head, the line their mean, the "
        "dashed line the entropy of a head that looks at everything alike.",
    )
    if shares is not None:
        yield (
            "rollout",
            rollout_bars(shares.shares(), table.facts),
            "What positions may hold after each layer, if only attention and the residual "
            "connection are followed (rollout): of the source in the encoder, and of the target "
            "and the source in the decoder.",
        )
    roles = {head: main_role(text) for head, text in table.texts("roles").items()}
    yield (
        "map",
        likeness.head_map(distances, roles, table.facts),
        "Heads as points, near where they attend alike; the share says how much of the "
        "distances a plane can show.",
    )
    for kind, found in distances.items():
        yield (
            f"similarity_{kind}",
            likeness.similarity(found, table.facts),
            f"{heading(kind)}: Jensen-Shannon divergence of every pair of heads; bright "
            "where two attend alike, with the tree of average linkage.",
        )


def files(
    table: HeadTable,
    distances: dict[str, Distances],
    *,
    title: str,
    formats: Sequence[str] = (),
    also: Sequence[str] = (),
    shares: RolloutShares | None = None,
) -> dict[str, bytes]:
    """All files of the report, by name.

    Args:
        table: a row for each head.
        distances: the divergence of heads, by kind.
        title: of the page.
        formats: of "png", "svg", "pdf"; in each, the pictures are files too.
        also: columns to show and draw beside the usual ones.
        shares: what positions may hold after each layer.

    Raises:
        UserError: an unknown format.
    """
    drawn = list(figures(table, distances, also, shares))
    pictures = [Picture(name, render(figure, "svg"), text) for name, figure, text in drawn]
    page = html(table, title=title, findings=findings(table), pictures=pictures, also=also)
    content = {
        "heads.html": page,
        "heads.csv": table.to_csv(),
        "heads.md": table.to_markdown(),
        **{f"similarity_{k}.csv": d.to_csv(table.facts) for k, d in distances.items()},
    }
    if shares is not None:
        content["rollout.csv"] = shares.to_csv(table.facts)
    found = {name: text.encode("utf-8") for name, text in content.items()}
    for name, figure, _ in drawn:
        for extension in formats:
            found[f"heads_{name}.{extension}"] = render(figure, extension)
    return found


def place(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into the first of folder, folder-2, … that holds no other report.

    Raises:
        UserError: the folder cannot be made or written.
    """
    places = (folder if n == 1 else folder.with_name(f"{folder.name}-{n}") for n in count(1))
    chosen = next(path for path in places if _is_free(path, files))
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {chosen}: {error.strerror}.") from None
    for name, content in files.items():
        if not (chosen / name).exists():
            write_whole(content, chosen / name)
    return chosen


def _is_free(folder: Path, files: dict[str, bytes]) -> bool:
    present = [folder / name for name in files if (folder / name).exists()]
    return all(path.read_bytes() == files[path.name] for path in present)

"""A pruning curve in words and numbers: one sentence, CSV for programs, Markdown for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import pairwise

from seq2seq.analysis.prune import IMPORTANCE, ORDERS, RANDOM, Curve, Removal

HEADER = (
    "order",
    "seed",
    "heads_removed",
    "share",
    "bleu",
    "bleu_p",
    "loss [nats/token]",
    "parameters",
    "removed_here",
)


def finding(curve: Curve) -> str:
    """How much can go, in one sentence; nothing where heads did not go by importance."""
    paths = curve.of(IMPORTANCE)
    if not paths:
        return ""
    whole, count = paths[0].points[0], curve.dispensable()
    place = list(paths[0].counts).index(count)
    found = paths[0].points[place]
    if count == curve.total:
        return (
            f"All {count} heads can go before BLEU falls by more than chance ({whole.bleu:.2f} to "
            f"{found.bleu:.2f}): these sentences need no attention, or are too few to show it."
        )
    worse = paths[0].points[place + 1]
    return (
        f"{count} of {curve.total} heads ({count / curve.total:.0%}) can go, least important "
        f"first, before BLEU falls by more than chance: {whole.bleu:.2f} with all, "
        f"{found.bleu:.2f} without these, {worse.bleu:.2f} at the next point (p = {worse.p:.3f})."
    )


def to_csv(curve: Curve) -> str:
    """The facts as lines of "# …", a header, and a row for each point of each path."""
    out = io.StringIO()
    out.writelines(f"# {fact}\n" for fact in _facts(curve))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for path in curve.paths:
        for count, found, names in zip(path.counts, path.points, _removed(path), strict=True):
            writer.writerow(
                [
                    path.order,
                    "" if path.seed is None else path.seed,
                    count,
                    f"{count / curve.total:.9g}",
                    f"{found.bleu:.9g}",
                    f"{found.p:.9g}",
                    f"{found.loss:.9g}",
                    found.parameters,
                    names,
                ]
            )
    return out.getvalue()


def to_markdown(curve: Curve) -> str:
    """The facts, the sentence, BLEU and loss by share for each order, and which heads went when."""
    orders = list(dict.fromkeys(path.order for path in curve.paths))
    first = curve.paths[0]
    headers = ["heads removed", "share"]
    columns = [list(map(str, first.counts)), [f"{n / curve.total:.0%}" for n in first.counts]]
    for order in orders:
        headers += [f"BLEU, {_name(curve, order)}", "loss"]
        columns += [_cells(curve, order, "bleu", 2), _cells(curve, order, "loss", 3)]
        if order != RANDOM:
            headers[-1:-1] = ["p"]
            columns[-1:-1] = [[f"{found.p:.3f}" for found in curve.of(order)[0].points]]
    headers += ["parameters left" if len(orders) == 1 else f"parameters left, {ORDERS[orders[0]]}"]
    columns += [[f"{found.parameters:,}" for found in first.points]]
    rows = ["| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True)]
    lines = [f"{fact}  " for fact in _facts(curve)]
    lines += ["", finding(curve), ""] if finding(curve) else [""]
    lines += ["| " + " | ".join(headers) + " |", "|" + "---:|" * len(headers), *rows, ""]
    lines += [
        "- **p**: chance of such a difference from the whole model, paired approximate "
        "randomisation.",
        "- **loss**: of the given translations, nats for each target token.",
        *(f"- **removed, {_name(curve, path.order, path.seed)}**: {_sequence(path)}"
          for path in curve.paths),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def _facts(curve: Curve) -> list[str]:
    return [*curve.facts, f"BLEU {curve.signature}"]


def _name(curve: Curve, order: str, seed: int | None = None) -> str:
    if seed is not None:
        return f"{ORDERS[order]}, seed {seed}"
    count = len(curve.of(order))
    return f"{ORDERS[order]} (mean ± sd of {count})" if count > 1 else ORDERS[order]


def _cells(curve: Curve, order: str, name: str, digits: int) -> list[str]:
    several = len(curve.of(order)) > 1
    return [
        f"{mean:.{digits}f} ± {spread:.{digits}f}" if several else f"{mean:.{digits}f}"
        for mean, spread in curve.spread(order, name)
    ]


def _removed(path: Removal) -> Iterator[str]:
    """At each point, the heads that went since the one before."""
    yield ""
    for before, now in pairwise(path.counts):
        yield " ".join(map(str, path.heads[before:now]))


def _sequence(path: Removal) -> str:
    return " | ".join(names for names in _removed(path) if names)

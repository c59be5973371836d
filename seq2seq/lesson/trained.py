"""One head against many, and how many: what finished runs say (paper, Table 3 row A)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from seq2seq import evaluation
from seq2seq.analysis.roles import NONE
from seq2seq.analysis.tables import Column, Value
from seq2seq.analysis.trace import Listing
from seq2seq.errors import UserError
from seq2seq.lesson.part import NOISE, Claim, Part, Table, Verdict, check, table
from seq2seq.lesson.runs import HEAD_SETTINGS, Compared, Measured, differences

RUN_COLUMNS = (
    Column("run"),
    Column("heads"),
    Column("d_k"),
    Column("parameters"),
    Column("updates", "", "of the checkpoint that was measured"),
    Column("time", "s/update", "median, validations left out", 3),
    Column("BLEU", "", "greedy; the signature stands below", 1),
    Column("low", "", "end of its 95 % interval", 1),
    Column("high", "", "end of its 95 % interval", 1),
    Column("loss", "nats/token", "of the references", 3),
    Column("entropy", "nats", "mean of all heads", 2),
    Column("JS", "nats", "mean divergence of two heads of one layer", 3),
)
HEAD_COLUMNS = ("roles", "entropy", "confidence", "nearest", "nearest_js")


def single_part(found: Compared) -> Part:
    """The claims on a single head against several, of the same width.

    Raises:
        UserError: all runs have as many heads, or the model is not equally wide.
    """
    few, many = _extremes(found)
    columns = [Column("run"), Column("head")]
    columns += [many.table.column(name) for name in HEAD_COLUMNS]
    return Part(
        "single",
        "One head against many, trained",
        f"{_heads(few)} against {_heads(many)}, both {few.config.model.d_model} wide, on the same "
        "sentences.",
        [*_quality(found, few, many), *_patterns(few, many), *_price(few, many)],
        [
            Table("single_runs", "The runs", _listing(found.runs)),
            table("single_heads", "What their heads do", columns, _head_rows(found.runs)),
        ],
        [*found.facts, *cautions(found.runs)],
    )


def sweep_part(found: Compared) -> Part:
    """The claims on the number of heads at a fixed width.

    Raises:
        UserError: all runs have as many heads, or the model is not equally wide.
    """
    _extremes(found)
    runs = sorted(found.runs, key=_order)
    best, most = max(runs, key=lambda run: run.bleu.value), runs[-1]
    overlap = _low(best) <= _high(most)
    entropies = ", ".join(f"{run.heads}: {run.mean('entropy') or 0:.2f}" for run in runs)
    apart = ", ".join(f"{r.heads}: {js:.3f}" for r in runs if (js := r.mean_js()) is not None)
    return Part(
        "sweep",
        "How many heads?",
        f"Runs of one width, {most.config.model.d_model}, by number of heads.",
        [
            Claim(
                "At a fixed width, more heads are narrower heads.",
                "; ".join(f"h = {run.heads}: d_k = {run.width}" for run in runs),
                check(all(_is_divided(run) for run in runs), Verdict.partly),
                "Column d_k.",
            ),
            Claim(
                "More heads are not better without end.",
                f"best BLEU {best.bleu.value:.1f} with {_heads(best)}; with {_heads(most)} "
                f"{most.bleu.value:.1f}{' (the intervals overlap)' if overlap else ''}",
                _fewer_is_better(best, most, overlap),
                "Where the BLEU curve has its top.",
            ),
            Claim(
                "How broadly heads look, and how much they differ, changes with their number.",
                f"mean entropy {entropies} nats; mean divergence {apart or 'of no pair'} nats",
                check(_spread(runs) > 0.01),
                "The two other curves; a run with one head in each layer has no divergence.",
            ),
        ],
        [Table("sweep", "By number of heads", _listing(runs))],
        [*found.facts, *cautions(found.runs)],
    )


def cautions(runs: Sequence[Measured], expected: Collection[str] = HEAD_SETTINGS) -> list[str]:
    """What else differs between runs than the `expected` settings, and so may be the reason."""
    others = [d for d in differences([run.config for run in runs]) if d not in expected]
    found = []
    if others:
        found.append(f"caution: the runs also differ in {', '.join(others)}")
    if len({run.update for run in runs}) > 1:
        counts = ", ".join(f"{run.name} {run.update:,}" for run in runs)
        found.append(f"updates of the measured checkpoints: {counts}")
    return found


def _extremes(found: Compared) -> tuple[Measured, Measured]:
    """The runs with the fewest and the most heads."""
    runs = sorted(found.runs, key=_order)
    few, many = runs[0], runs[-1]
    if _order(few) == _order(many):
        raise UserError(
            f"All runs have {few.heads} heads: name runs with different numbers of heads "
            "(model.encoder_heads, model.decoder_heads)."
        )
    widths = sorted({run.config.model.d_model for run in runs})
    if len(widths) > 1:
        raise UserError(
            f"The runs are {' and '.join(map(str, widths))} wide (model.d_model): only models of "
            "the same width show what the number of heads does."
        )
    return few, many


def _order(run: Measured) -> tuple[int, int]:
    return run.config.model.encoder_heads, run.config.model.decoder_heads


def _heads(run: Measured) -> str:
    return f"{run.heads} head{'s' * (run.heads != '1')}"


def _quality(found: Compared, few: Measured, many: Measured) -> list[Claim]:
    test = evaluation.compare(
        few.outputs,
        many.outputs,
        [[target for _, target in found.pairs]],
        target_lang=few.config.data.target_lang,
        metrics=("bleu",),
    )
    p, better = test.metrics["bleu"].p_value, test.better("bleu")
    verdict = {"b": Verdict.holds, "a": Verdict.fails, None: Verdict.open}[better]
    reason = {"b": "", "a": "; the other way round", None: ": no more than chance would do"}[better]
    return [
        Claim(
            "With the same width and training, several heads translate better than one.",
            f"BLEU {_bleu(few)} with {_heads(few)}, {_bleu(many)} with {_heads(many)} "
            f"(p = {p:.3f}{reason}); loss {few.loss:.3f} and {many.loss:.3f} nats per token",
            verdict,
            "One pair of runs on one corpus; other seeds and texts may say otherwise.",
        )
    ]


def _patterns(few: Measured, many: Measured) -> list[Claim]:
    js = many.mean_js()
    named = [len([r for r in run.roles().elements() if r != NONE]) for run in (few, many)]
    claims = [
        Claim(
            "Trained heads take on different patterns, though nobody assigns them.",
            f"{_heads(few)}: {few.roles_in_words()}; {_heads(many)}: {many.roles_in_words()} "
            f"({named[0]} and {named[1]} heads with a role)",
            check(len(many.roles()) > 1, Verdict.open),
            "Column “roles”: the same names under other numbers in another run.",
        )
    ]
    if js is not None:
        few_js = few.mean_js()
        alone = "no second head to differ" if few_js is None else f"{few_js:.3f} nats"
        claims.insert(
            0,
            Claim(
                "Several heads give a token several distributions, and these differ.",
                f"mean divergence of two heads of one layer: {js:.3f} of at most 0.693 nats with "
                f"{_heads(many)}; {alone} with {_heads(few)}",
                check(js > 0.01),
                "0 would be heads that all look alike.",
            ),
        )
    return claims


def _price(few: Measured, many: Measured) -> list[Claim]:
    claims = [
        Claim(
            "It costs no parameters.",
            f"{few.parameters:,} and {many.parameters:,}",
            check(few.parameters == many.parameters),
            "Column “parameters”.",
        )
    ]
    if few.seconds and many.seconds:
        ratio = many.seconds / few.seconds
        claims.append(
            Claim(
                "It costs some time: the same operations in smaller pieces.",
                f"{few.seconds:.3f} and {many.seconds:.3f} seconds an update (×{ratio:.2f}), as "
                "the training logs say",
                check(ratio > NOISE, Verdict.fails if ratio < 1 / NOISE else Verdict.open),
                "Other work on the machine blurs this number.",
            )
        )
    return claims


def _fewer_is_better(best: Measured, most: Measured, overlap: bool) -> Verdict:
    if _order(best) == _order(most):
        return Verdict.fails
    return Verdict.open if overlap else Verdict.holds


def _spread(runs: Sequence[Measured]) -> float:
    """Largest difference of the runs' mean entropies, in nats."""
    means = [mean for run in runs if (mean := run.mean("entropy")) is not None]
    return max(means, default=0.0) - min(means, default=0.0)


def _is_divided(run: Measured) -> bool:
    model = run.config.model
    return model.d_k is None and model.encoder_heads == model.decoder_heads


def _low(run: Measured) -> float:
    return run.bleu.value if run.bleu.low is None else run.bleu.low


def _high(run: Measured) -> float:
    return run.bleu.value if run.bleu.high is None else run.bleu.high


def _bleu(run: Measured) -> str:
    return f"{run.bleu.value:.1f} [{_low(run):.1f}, {_high(run):.1f}]"


def _listing(runs: Sequence[Measured]) -> Listing:
    rows: list[list[Value]] = [
        [
            run.name,
            run.heads,
            run.width,
            run.parameters,
            run.update,
            run.seconds,
            run.bleu.value,
            _low(run),
            _high(run),
            run.loss,
            run.mean("entropy"),
            run.mean_js(),
        ]
        for run in runs
    ]
    return Listing(RUN_COLUMNS, rows)


def _head_rows(runs: Sequence[Measured]) -> list[list[Value]]:
    return [
        [run.name, str(head), *(run.table.rows[head].get(name) for name in HEAD_COLUMNS)]
        for run in runs
        for head in run.table.heads
    ]

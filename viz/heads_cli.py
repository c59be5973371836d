"""`seq2seq heads`: one report on what every attention head looks at and how much depends on it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.analysis.brightness import with_verdicts
from seq2seq.analysis.findings import findings
from seq2seq.analysis.roles import Thresholds
from seq2seq.analysis.tables import HeadTable
from seq2seq.cli.args import (
    Parser,
    add_heads_option,
    add_model_options,
    add_search_options,
    heads_off,
    progress_bar,
    show_warnings,
)
from seq2seq.cli.evaluate import EvaluateConfig, TestSet, configure, test_set
from seq2seq.errors import UserError
from viz.evidence import check_heads_off, measured_on, off_in, read
from viz.heads_data import add_knowledge_options, annotation, check_annotated, rarity
from viz.report_args import (
    add_pair_options,
    check_pair_options,
    facts,
    positive,
    some,
    usable_pairs,
)
from viz.report_files import files, place
from viz.style import FORMATS

if TYPE_CHECKING:
    from seq2seq.analysis.links import LinkCounts
    from seq2seq.analysis.survey import Survey
    from seq2seq.decoding.translator import Translator

METRICS = ("loss", "bleu")

DESCRIPTION = """\
Leads a trained model along sentence pairs and says of every attention head what it looks at
(entropy, confidence, distance, offsets, roles), which others it resembles (Jensen-Shannon
divergence, groups), and how much the loss listens to it (gradient importance). With --ablate, each
head is also switched off in turn, and the change of loss or BLEU is tested for significance.
Writes, into a folder,

  heads.html                what stands out, the table, and the pictures; needs no network
  heads.csv, heads.md       a row for each head; first lines say where the numbers come from
  similarity_KIND.csv       the divergence of every pair of heads
  rollout.csv               what positions may hold after each layer
  relations.csv             with trees: every head and kind of grammatical link
  heads_NAME.png            the pictures, for --format png (svg, pdf)

An earlier report is never written over: another one goes to heads-2 and so on; the same command
again finds its files there and changes nothing."""

EXAMPLES = """
seq2seq heads --run runs/demo
seq2seq heads --run runs/demo --ablate loss,bleu --limit 200 --beam 1
seq2seq heads --run runs/demo --source news.en --reference news.de --format pdf
seq2seq heads --run runs/demo --join runs/demo/trace/heads.csv
seq2seq heads --run runs/mine --deps dev.conllu --freq english.tsv
"""


def heads(argv: list[str]) -> int:
    """Run `seq2seq heads`; prints what stands out and where the files lie."""
    args = parser().parse(argv)
    show_warnings()
    joined = [read(path) for path in args.join]
    _check(args)
    config = configure(args)
    test = test_set(args, config.data)
    table, found = _measure(args, config, test)
    off = off_in(table)
    for path, other in zip(args.join, joined, strict=True):
        _same_weights(table, other, path)
        check_heads_off(other, off, path)
        table = table.joined(other)
    table = with_verdicts(table)
    content = files(
        table,
        found.distances,
        title=f"Heads of {Path(args.run).resolve().name}",
        formats=args.format,
        also=[name for other in joined for name in worth_showing(other)],
        shares=found.shares,
    )
    content |= _relations(args, table, found.links)
    folder = place(Path(args.out or Path(args.run) / "heads"), content)
    print(*findings(table), sep="\n")
    print(*(f"  {folder / name}" for name in content if not name.startswith("heads_")), sep="\n")
    return 0


def parser() -> Parser:
    """The options of `seq2seq heads`."""
    result = Parser("heads", DESCRIPTION, EXAMPLES, schema=EvaluateConfig, groups=("decode",))
    add_model_options(result)
    add_heads_option(result)
    add_pair_options(result)
    add_knowledge_options(result)
    what = result.add_argument_group("what is measured")
    add = what.add_argument
    add("--ablate", type=_metrics, default=(), metavar="M,M", help="switch heads off: loss,bleu")
    add(
        "--all-but-one",
        action="store_true",
        help="ablate all other heads of a layer instead of the head itself",
    )
    add(
        "--trials",
        type=positive,
        metavar="N",
        help="of significance tests (1000, or 50 times the number of heads)",
    )
    add("--special-rows", action="store_true", help="also count rows of <s> and </s> in the means")
    for name, value in vars(Thresholds()).items():
        text = f"least evidence for the role ({value:g})"
        add(f"--role-{name}", type=float, default=value, metavar="X", help=text)
    add("--target-lang", metavar="CODE", help="decides how BLEU splits words")
    out = result.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", help="folder of the report (RUN/heads)")
    out.add_argument(
        "--format",
        type=some(FORMATS),
        default=(),
        metavar="F,F",
        help="pictures as files: png,svg,pdf",
    )
    out.add_argument(
        "--join",
        action="append",
        default=[],
        metavar="CSV",
        help="set the columns of another table of heads beside these; repeatable",
    )
    add_search_options(result)
    return result


def _metrics(text: str) -> tuple[str, ...]:
    return () if text == "none" else some(METRICS)(text)


def _check(args: argparse.Namespace) -> None:
    check_pair_options(args)
    if args.all_but_one and not args.ablate:
        raise UserError("--all-but-one says what --ablate switches off: give --ablate loss, too.")


def worth_showing(table: HeadTable) -> list[str]:
    """Which columns of a joined table to show at first: of a trace, effects and looks."""
    names = [column.name for column in table.columns]
    effects = [name for name in names if name == "effect" or name.endswith("_effect")]
    if not effects:
        return names
    return [*effects, *(name for name in names if name == "right_pairs")]


def _same_weights(table: HeadTable, other: HeadTable, path: str) -> None:
    """Refuse to set numbers of one model beside those of another."""
    own, others = measured_on(table), measured_on(other)
    if own and others and own != others:
        raise UserError(
            f"--join: {path} is about other weights ({others}) than this report ({own}): "
            "make both from the same checkpoint."
        )


def _measure(
    args: argparse.Namespace, config: EvaluateConfig, test: TestSet
) -> tuple[HeadTable, Survey]:
    from seq2seq.analysis.survey import Options, survey
    from seq2seq.decoding.translator import Translator
    from seq2seq.run_folder import load_run

    run = load_run(args.run, device=args.device, checkpoint=args.checkpoint)
    pairs, left_out = usable_pairs(args, run, test)
    limits = Thresholds(**{name: getattr(args, f"role_{name}") for name in vars(Thresholds())})
    ranks, ranked = rarity(args, run, config)
    annotate = annotation(args, config, test)
    options = Options(
        special_rows=args.special_rows, ranks=ranks, annotate=annotate, thresholds=limits
    )
    with heads_off(run.model, args.without_heads) as off:
        with progress_bar("looking") as show:
            found = survey(run.model, run.tokenizer, pairs, options, progress=show)
        known = [*check_annotated(args, found.links, len(pairs)), ranked]
        translator = Translator(run.model, run.tokenizer, config.decode)
        ablations = list(_ablations(args, translator, pairs, test.target_lang))
    rows = "all rows" if args.special_rows else "rows of words (not of <s>, </s>)"
    more = [f"targets given · pieces · {rows}", *left_out, *known]
    more += [f"without {head}" for head in off]
    origin = facts(args, run, test, len(pairs), more)
    table = HeadTable(found.table.columns, found.table.rows, origin)
    return table.joined(*ablations), found


def _relations(args: argparse.Namespace, table: HeadTable, links: LinkCounts) -> dict[str, bytes]:
    """The file of every head and grammatical link, where these are known."""
    from seq2seq.analysis.syntax import relations

    if not links.sentences:
        return {}
    listing = relations(links, args.role_syntactic).with_facts(table.facts)
    return {"relations.csv": listing.to_csv().encode("utf-8")}


def _ablations(
    args: argparse.Namespace, translator: Translator, pairs: list[tuple[str, str]], lang: str
) -> Iterator[HeadTable]:
    from seq2seq.analysis.ablation import ALL_BUT_ONE, EACH, ablate_bleu, ablate_loss

    mode = ALL_BUT_ONE if args.all_but_one else EACH
    if "loss" in args.ablate:
        with progress_bar("heads off, loss") as show:
            yield ablate_loss(translator, pairs, mode=mode, trials=args.trials, progress=show)
    if "bleu" in args.ablate:
        with progress_bar("heads off, BLEU") as show:
            yield ablate_bleu(
                translator, pairs, target_lang=lang, mode=mode, trials=args.trials, progress=show
            )

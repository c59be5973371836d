"""`seq2seq history`: how the heads of a model came to look where they look."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from seq2seq.analysis.history import History, emergence
from seq2seq.analysis.roles import Thresholds
from seq2seq.analysis.snapshots import FOLDER, Snapshots
from seq2seq.analysis.tables import HeadTable
from seq2seq.attention_maps import KINDS, AttentionMaps
from seq2seq.cli.args import Parser, progress_bar, show_warnings
from seq2seq.data.lines import is_blank
from seq2seq.errors import UserError
from viz.attention_options import numbers
from viz.history_files import STATISTICS, Series, Strip, Wish, files, findings
from viz.report_args import positive, some
from viz.report_files import place
from viz.style import FORMATS

LIMIT, SENTENCES, FRAMES = 100, 3, 24
MOST = 64  # updates whose maps are held in memory

DESCRIPTION = """\
Shows what the heads of a model looked at while it learned: from the snapshots of a run that was
trained with train.snapshots=N or train.snapshot_file=FILE, or else from the step folders that the
run has kept (train.keep_last=N). Writes, into a folder,

  history.html              the page, with a slider through training; needs no network
  history_STATISTIC.png     a statistic of every head against the number of updates
  film_KIND_L1H2.png        the maps of one head (or film_KIND_L1: of a layer) at up to 8 updates
  history.csv               the numbers of all heads at all updates
  roles.csv, roles.md       since which update each head has had the role it has in the end

An earlier history is never written over: another one goes to history-2 and so on; the same command
again finds its files there and changes nothing."""

EXAMPLES = """
seq2seq history --run runs/demo
seq2seq history --run runs/demo --statistic entropy,previous --film cross.1.2,dec.0 --format pdf
seq2seq history --run runs/demo --checkpoints --text "It was slow." --out pictures
"""


def history(argv: list[str]) -> int:
    """Run `seq2seq history`; prints what roles began when, and where the files lie."""
    args = parser().parse(argv)
    show_warnings()
    limits = Thresholds(**{name: getattr(args, f"role_{name}") for name in vars(Thresholds())})
    found, sentences = _look(args)
    if not 1 <= args.sentence <= max(len(sentences), 1):
        raise UserError(f"--sentence {args.sentence}: there are sentences 1 to {len(sentences)}.")
    wish = Wish(
        statistics=args.statistic,
        strips=args.film,
        sentence=args.sentence - 1,
        level=args.level,
        formats=args.format,
        frames=0 if args.no_page else args.frames,
        kinds=args.kinds,
        layers=args.layers,
        heads=args.heads,
        limits=limits,
    )
    content = files(found, sentences, wish, _losses(Path(args.run)))
    folder = place(Path(args.out or Path(args.run) / "history"), content)
    print(*findings(found, emergence(found, limits)), sep="\n")
    print(*(f"  {folder / name}" for name in content), sep="\n")
    return 0


def parser() -> Parser:
    """The options of `seq2seq history`."""
    result = Parser("history", DESCRIPTION, EXAMPLES)
    result.add_argument("--run", required=True, metavar="RUN", help="folder of a training run")
    result.add_argument("--out", metavar="DIR", help="folder for the files (RUN/history)")
    look = result.add_argument_group("looking again, at the step folders")
    add = look.add_argument
    add("--checkpoints", action="store_true", help="even if the run has snapshots")
    own = look.add_mutually_exclusive_group()
    own.add_argument("--text", metavar="T", help="a sentence of your own")
    own.add_argument("--input", metavar="FILE", help="or several: source, or source TAB target")
    add("--target", metavar="T", help="the translation of --text (the last checkpoint's)")
    add("--sentences", type=positive, default=SENTENCES, metavar="N", help="or the first N (3)")
    add("--split", default="dev", help="of this part of the run's corpus (%(default)s)")
    add(
        "--limit",
        type=positive,
        default=LIMIT,
        metavar="N",
        help="pairs to measure heads on (100)",
    )
    add("--device", default="auto", help="auto (default: a GPU if there is one), cpu, cuda, cuda:1")
    draw = result.add_argument_group("what is drawn")
    add = draw.add_argument
    add(
        "--statistic",
        type=_words,
        default=(),
        metavar="S,S",
        help=f"columns of history.csv ({','.join(STATISTICS)})",
    )
    add(
        "--film",
        type=_strips,
        metavar="HEADS",
        help="heads such as cross.1.2 or layers such as cross.1, by comma; none (of each kind, "
        "the head that changes most)",
    )
    add("--sentence", type=positive, default=1, metavar="N", help="whose film, from 1 (1)")
    add("--level", choices=("piece", "word"), default="piece", help="of films")
    add("--format", type=some(FORMATS), default=("png",), metavar="F,F", help="png,svg,pdf (png)")
    for name, value in vars(Thresholds()).items():
        text = f"least evidence for the role ({value:g})"
        add(f"--role-{name}", type=float, default=value, metavar="X", help=text)
    page = result.add_argument_group("the page")
    add = page.add_argument
    add("--no-page", action="store_true", help="pictures and tables only")
    add("--frames", type=positive, default=FRAMES, metavar="N", help="at most N updates (24)")
    add("--kinds", type=some(KINDS), default=KINDS, help="of enc,dec,cross (all)")
    add("--layers", type=numbers, metavar="N,N", help="layers, counted from 0")
    add("--heads", type=numbers, metavar="N,N", help="heads, counted from 0")
    return result


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def _strips(text: str) -> tuple[Strip, ...]:
    found: list[Strip] = []
    for name in () if text == "none" else _words(text):
        parts = re.fullmatch(rf"({'|'.join(KINDS)})\.([0-9]+)(?:\.([0-9]+))?", name)
        if parts is None:
            raise argparse.ArgumentTypeError(
                f"{name!r} names no head and no layer: write cross.1.2, or cross.1"
            )
        found.append((parts[1], int(parts[2]), int(parts[3]) if parts[3] else None))
    return tuple(found)


def _look(args: argparse.Namespace) -> tuple[History, list[Series]]:
    """The numbers of heads and the maps of sentences, by update."""
    run = Path(args.run)
    if not run.is_dir():
        raise UserError(f"{run} is not a folder: give the run folder that training printed.")
    if args.target is not None and args.text is None:
        raise UserError("--target is the translation of --text: give both.")
    if args.text is not None and is_blank(args.text):
        raise UserError("--text is empty: give a sentence.")
    kept = Snapshots(run / FOLDER)
    own = args.text is not None or args.input is not None
    if kept.updates and not (args.checkpoints or own):
        return _from_snapshots(run, kept)
    from seq2seq.run_folder import step_folders

    if len(step_folders(run)) < 2:
        raise UserError(
            f"{run} has neither snapshots nor two step folders: train with train.snapshots=4, or "
            "keep step folders by train.keep_last=8."
        )
    return _from_checkpoints(args, run)


def _from_snapshots(run: Path, kept: Snapshots) -> tuple[History, list[Series]]:
    updates = kept.updates
    tables = {update: kept.table(update) for update in updates}
    some = updates if len(updates) <= MOST else _spaced(updates)
    if some is not updates:
        told = f"note: maps are taken from {len(some)} of the {len(updates)} snapshots"
        print(told, file=sys.stderr)
    return _history(run, tables), _series(maps for update in some for maps in kept.records(update))


def _spaced(updates: list[int]) -> list[int]:
    """Some of many updates, the first and the last among them, evenly by their place."""
    return [updates[round(i * (len(updates) - 1) / (MOST - 1))] for i in range(MOST)]


def _from_checkpoints(args: argparse.Namespace, run: Path) -> tuple[History, list[Series]]:
    from seq2seq.analysis.revisit import chosen, revisit

    sentences, pairs = chosen(
        run,
        text=args.text,
        target=args.target,
        file=args.input,
        split=args.split,
        count=args.sentences,
        limit=args.limit,
        device=args.device,
    )
    with progress_bar("looking") as show:
        looks = list(revisit(run, sentences, pairs, device=args.device, progress=show))
    found = _history(run, {look.update: look.table for look in looks})
    return found, _series(maps for look in looks for maps in look.records)


def _history(run: Path, tables: dict[int, HeadTable]) -> History:
    updates = sorted(tables)
    last = tables[updates[-1]]
    first = f"run {run.resolve().name} · updates {updates[0]} to {updates[-1]}"
    return History(updates, [tables[u] for u in updates], [first, *last.facts[1:]])


def _series(records: Iterable[AttentionMaps]) -> list[Series]:
    """Records of one sentence pair together, in the order in which they come."""
    found: dict[tuple[str, str], Series] = {}
    for maps in records:
        found.setdefault((maps.text["source"], maps.text["target"]), []).append(maps)
    return list(found.values())


def _losses(run: Path) -> list[tuple[int, float]]:
    """(update, training loss) as logged; nothing where the log is missing or torn."""
    from seq2seq.run_folder import METRICS

    found = []
    try:
        for line in (run / METRICS).read_text(encoding="utf-8").split("\n"):
            values = json.loads(line) if line else {}
            if values.get("kind") == "train" and values["loss"] is not None:
                found.append((int(values["update"]), float(values["loss"])))
    except (OSError, ValueError, KeyError, AttributeError):
        return found
    return found

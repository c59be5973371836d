"""`seq2seq attention`: pictures of what every attention head looks at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.analysis.tables import HeadTable
from seq2seq.cli.args import show_warnings
from seq2seq.errors import UserError
from viz.attention_options import NONE, check, parser, wish_of
from viz.gallery import files, place
from viz.sentences import records

if TYPE_CHECKING:
    from viz.binder import Binder


_STARTS = ("level", "special", "scale", "weight", "theme")  # options that pages open on, too


def attention(argv: list[str]) -> int:
    """Run `seq2seq attention`; prints each translation and where its files lie."""
    args = parser().parse(argv)
    show_warnings()
    check(args)
    wish, single = wish_of(args), args.text is not None
    binder = _binder(args)
    number, told, pages = 0, set[str](), list[Path]()
    for maps, *others in records(args):
        other = others[0] if others else None
        content, notes = files(maps, wish, single=single, other=other)
        number, paths = place(Path(args.out), number, content)
        number += 1
        for note in (n for n in [*notes, *maps.meta.get("notices", [])] if n not in told):
            told.add(note)
            print(f"note: {note}", file=sys.stderr)
        print(f"source: {maps.text['source']}\ntarget: {maps.text['target']}")
        print(*(f"  {path}" for path in paths), sep="\n")
        if binder is not None:
            kept = (one.select(args.kinds, args.layers, args.heads) for one in (maps, *others))
            pages += binder.add(*kept)
    if number == 0:
        raise UserError(f"--input {args.input} holds no sentence.")
    if binder is not None:
        pages += binder.finish()
        print(f"page{'s' * (len(pages) > 1)} to open in a browser:")
        print(*(f"  {path}" for path in pages), sep="\n")
    return 0


def _binder(args: argparse.Namespace) -> Binder | None:
    """What gathers the sentences for the page, unless none is wanted."""
    if args.no_page:
        return None
    from viz.binder import Binder

    table = _table(args)
    start = {name: getattr(args, name) for name in _STARTS}
    start["labels"] = "auto" if args.labels == "index" else args.labels
    return Binder(Path(args.out), paired=args.compare is not None, table=table, start=start)


def _heads_off(args: argparse.Namespace) -> set[str]:
    """The heads that --without-heads switches off; those removed before are off anyway."""
    from seq2seq.analysis.head_id import HeadId
    from seq2seq.config_file import load_config
    from seq2seq.run_folder import CONFIG

    names = (args.without_heads or "").replace(",", " ").split()
    removed = load_config(Path(args.run) / CONFIG).model.removed_heads or ()
    return {str(HeadId.parse(name)) for name in names} - set(removed)


def _table(args: argparse.Namespace) -> HeadTable | None:
    """Numbers of heads: what --join names, else what was measured on these weights."""
    from seq2seq.run_folder import weights_hash
    from viz.evidence import check_heads_off, gather, read

    if args.join == NONE:
        return None
    off = _heads_off(args)
    if args.join is not None:
        given = read(args.join)
        check_heads_off(given, off, args.join)
        return given
    table, notes = gather(Path(args.run), weights_hash(Path(args.run), args.checkpoint), off)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return table

"""`seq2seq score`: how likely a model holds given translations."""

from __future__ import annotations

import dataclasses
import json
import sys

from seq2seq.cli.args import (
    Parser,
    add_heads_option,
    add_model_options,
    heads_off,
    progress_bar,
    refuse_same_file,
    show_warnings,
    writing,
)

EXAMPLES = """
seq2seq score --run runs/demo --source text.en --target text.de
seq2seq score --run runs/demo --source text.en --target text.de --json
"""


def main(argv: list[str]) -> int:
    """Run `seq2seq score`."""
    parser = Parser(
        "score",
        "Prints a natural log-probability a line: of line i of the target as a translation of\n"
        "line i of the source, with its end of sentence. With --json one object a line: source,\n"
        "target, score, tokens, token_scores (one for each token), and cut (a side was too long\n"
        "and its end left out). The perplexity of all goes to stderr.",
        EXAMPLES,
    )
    add_model_options(parser)
    add_heads_option(parser)
    parser.add_argument("--source", required=True, metavar="FILE", help="text")
    parser.add_argument("--target", required=True, metavar="FILE", help="translations, by line")
    parser.add_argument("--output", metavar="FILE", help="appears when complete (default: stdout)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with tokens")
    args = parser.parse(argv)
    show_warnings()
    for path in (args.source, args.target):
        refuse_same_file(path, args.output)
    from seq2seq.data.lines import PairFiles
    from seq2seq.decoding.translator import Translator
    from seq2seq.evaluation import perplexity

    pairs = list(PairFiles(args.source, args.target, ("--source", "--target")))
    translator = Translator.from_pretrained(args.run, args.device, args.checkpoint)
    with heads_off(translator.model, args.without_heads), progress_bar("scoring") as show:
        scored = translator.score([s for s, _ in pairs], [t for _, t in pairs], progress=show)
    with writing(args.output) as out:
        for pair in scored:
            facts = dataclasses.asdict(pair)
            out.write(f"{json.dumps(facts, ensure_ascii=False) if args.json else pair.score}\n")
    tokens = sum(len(pair.tokens) for pair in scored)
    if tokens:
        value = perplexity(sum(pair.score for pair in scored), tokens)
        print(f"perplexity = {value:.3f} ({len(scored)} pairs)", file=sys.stderr)
    return 0

"""`seq2seq evaluate`: translate a test set and measure how good the translations are."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.choices import DataKind, Precision
from seq2seq.cli.args import (
    SEARCH_OPTIONS,
    Parser,
    add_backend_options,
    add_heads_option,
    add_model_options,
    add_precision_option,
    add_search_options,
    chosen,
    heads_off,
    make_translator,
    progress_bar,
    show_warnings,
)
from seq2seq.cli.compare import EVALUATIONS
from seq2seq.config import DataConfig, DecodeConfig, RunConfig
from seq2seq.config_file import load_config
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.evaluation import Scores

EXAMPLES = """
seq2seq evaluate --run runs/demo --split test
seq2seq evaluate --run runs/demo --source news.en --reference news.de --json
seq2seq evaluate --run runs/m30k --split test_2017_flickr data.root=multi30k
seq2seq evaluate --hypotheses mine.de --reference news.de --target-lang de
"""


@dataclass(kw_only=True, slots=True)
class EvaluateConfig:
    """What may be set when a trained model is evaluated."""

    data: DataConfig = field(default_factory=DataConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)


@dataclass(frozen=True, slots=True)
class TestSet:
    """What is translated and what it should become.

    Attributes:
        name: for the files of results.
        sources: lines to translate; None where only given translations are scored.
        references: a list of lines for each reference.
        target_lang: language code of the references.
        synthetic: whether the embedded grammar made it, so that scores say little about real text.
    """

    name: str
    sources: list[str] | None
    references: list[list[str]]
    target_lang: str
    synthetic: bool


def main(argv: list[str]) -> int:
    """Run `seq2seq evaluate`; with --json the last line printed is the JSON object."""
    begin = time.perf_counter()
    args = parser().parse(argv)
    show_warnings()
    _check(args)
    config = configure(args)
    test = test_set(args, config.data)
    facts: dict[str, Any] = {"split": test.name, "synthetic": test.synthetic}
    if args.hypotheses:
        hypotheses = _lines(args.hypotheses, "--hypotheses")
        scores = _measure(hypotheses, test)
        facts |= {"hypotheses": args.hypotheses}
    else:
        hypotheses, scores, model = _translate_and_measure(args, test, config.decode)
        facts |= {"run": args.run, "checkpoint": args.checkpoint, **model}
        facts |= {"decode": dataclasses.asdict(config.decode)}
    facts["seconds"] = round(time.perf_counter() - begin, 2)
    where = _save(args, test, hypotheses, scores, facts)
    if args.json:
        print(json.dumps(scores.to_dict() | facts, ensure_ascii=False))
    else:
        print(report(test, scores, facts, where))
    return 0


def parser() -> Parser:
    """The options of `seq2seq evaluate`."""
    result = Parser(
        "evaluate",
        "Translates a test set and scores the translations: BLEU, chrF++ and TER by sacreBLEU on\n"
        "detokenised text, each with signature and confidence interval, exact matches, and the\n"
        "perplexity of the first reference. Translations and scores are kept in RUN/evaluations.",
        EXAMPLES,
        schema=EvaluateConfig,
        groups=("decode",),
    )
    add_model_options(result, required=False)
    add_precision_option(result)
    add_backend_options(result)
    add_heads_option(result)
    test = result.add_argument_group("test set")
    test.add_argument(
        "--split", help="of the run's corpus: test (default), dev, or such as test_2017_flickr"
    )
    test.add_argument("--source", metavar="FILE", help="or your own text to translate")
    test.add_argument(
        "--reference", action="append", metavar="FILE", help="its translation; repeatable"
    )
    test.add_argument("--hypotheses", metavar="FILE", help="score these translations instead")
    test.add_argument("--target-lang", metavar="CODE", help="decides how BLEU splits words")
    add_search_options(result)
    result.add_argument("--json", action="store_true", help="print one JSON object")
    return result


def configure(args: argparse.Namespace) -> EvaluateConfig:
    """Start from the corpus and the search of the run; lay what the user says on top."""
    from seq2seq.cli.configure import compose

    run = load_config(Path(args.run) / "config.json") if args.run else RunConfig()
    return compose(
        "evaluate",
        EvaluateConfig,
        args.overrides,
        chosen(args, SEARCH_OPTIONS | {"target_lang": "data.target_lang"}),
        start=EvaluateConfig(data=run.data, decode=dataclasses.replace(run.decode, n_best=1)),
    )


def test_set(args: argparse.Namespace, data: DataConfig) -> TestSet:
    """Read the sources and references that the options name.

    Raises:
        UserError: unreadable files, or no such split.
    """
    from seq2seq.data.corpus import named_split

    if args.reference:
        references = [_lines(path, "--reference") for path in args.reference]
        sources = _lines(args.source, "--source") if args.source else None
        name = Path(args.source or args.reference[0]).name.lstrip(".")
        return TestSet(name, sources, references, data.target_lang, synthetic=False)
    from seq2seq.run_folder import trained_on

    name = args.split or "test"
    pairs = named_split(data, name, trained_on(Path(args.run)))
    return TestSet(
        name,
        [source for source, _ in pairs],
        [[target for _, target in pairs]],
        data.target_lang,
        synthetic=data.kind is DataKind.grammar,
    )


def report(test: TestSet, scores: Scores, facts: dict[str, Any], where: Path | None) -> str:
    """What people read: where the scores come from, the scores, and where they are kept."""
    made = (
        facts.get("hypotheses") or f"{facts['run']} ({facts['checkpoint']}, step {facts['step']})"
    )
    if "without_heads" in facts:
        made += f" without {', '.join(facts['without_heads'])}"
    kind = ", synthetic corpus" if test.synthetic else ""
    lines = [f"{made} on {test.name}{kind}: {scores.n} sentences, {facts['seconds']:.1f} s"]
    lines.append(str(scores))
    if where is not None:
        lines.append(f"kept: {where}")
    return "\n".join(lines)


def _check(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other, before anything is loaded."""
    if args.split and (args.source or args.reference):
        raise UserError("--split names a set of the run's corpus: leave out --source, --reference.")
    if args.source and not args.reference:
        raise UserError("--source needs --reference FILE: the right translation, line by line.")
    if args.run is None and not (args.hypotheses and args.reference):
        raise UserError("Give --run RUN, or --hypotheses FILE with --reference FILE.")
    if args.without_heads and args.hypotheses:
        raise UserError("--without-heads changes a model, but --hypotheses needs none.")
    if args.reference and not args.source and not args.hypotheses:
        raise UserError("--reference needs --source FILE (the text to translate) or --hypotheses.")


def _lines(path: str, option: str) -> list[str]:
    from seq2seq.data.lines import read_lines

    return list(read_lines(path, option))


def _measure(hypotheses: list[str], test: TestSet) -> Scores:
    from seq2seq.evaluation import evaluate

    return evaluate(hypotheses, test.references, target_lang=test.target_lang)


def _translate_and_measure(
    args: argparse.Namespace, test: TestSet, decode: DecodeConfig
) -> tuple[list[str], Scores, dict[str, Any]]:
    """Translations, scores with perplexity, and the model's step and heads switched off, if any."""
    from seq2seq.device import share_freed_memory
    from seq2seq.evaluation import check_counts, perplexity
    from seq2seq.run_folder import load_run

    sources = test.sources or []
    check_counts(sources, test.references)  # before the long part
    share_freed_memory()
    run = load_run(
        args.run, device=args.device, checkpoint=args.checkpoint, precision=args.precision
    )
    translator = make_translator(args, run, decode)
    with heads_off(run.model, args.without_heads) as off:
        with progress_bar("translating") as show:
            hypotheses = [t.text for t in translator.translate(sources, progress=show)]
        with progress_bar("scoring") as show:
            pairs = translator.score(sources, test.references[0], progress=show)
    scores = _measure(hypotheses, test)
    surprise = perplexity(sum(p.score for p in pairs), sum(len(p.tokens) for p in pairs))
    facts: dict[str, Any] = {"step": run.step}
    if args.precision != Precision.fp32:
        facts["precision"] = args.precision
    if args.backend != "pytorch":
        facts["backend"] = f"{args.backend} {args.compute_type or 'float32'}"
    if off:
        facts["without_heads"] = list(map(str, off))
    return hypotheses, dataclasses.replace(scores, perplexity=surprise), facts


def _save(
    args: argparse.Namespace,
    test: TestSet,
    hypotheses: list[str],
    scores: Scores,
    facts: dict[str, Any],
) -> Path | None:
    """Keep translations and scores in the run folder; a given file of translations stays alone."""
    if args.hypotheses:
        return None
    from seq2seq.evaluation import save_evaluation

    folder = Path(args.run) / EVALUATIONS
    name = f"{test.name}.without-heads" if "without_heads" in facts else test.name
    return save_evaluation(folder, name, hypotheses, scores, extra=facts).scores

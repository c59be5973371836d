"""Decoding throughput: sentences per second of a trained run, beam and greedy.

    .venv/bin/python benchmarks/decoding.py --run RUN --input FILE [--beams 1 5]
    .venv/bin/python benchmarks/decoding.py --run RUN --input FILE --length 16

`--length N` forces every output to N pieces, so that systems do the same work.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

from common import conditions, median, save

from seq2seq.data.corpus import read_lines
from seq2seq.decoding.translator import Translator
from seq2seq.device import share_freed_memory


def sentences_per_second(
    translator: Translator, lines: list[str], options: dict[str, Any], rounds: int
) -> list[float]:
    """Speed in each round of translating all lines."""
    speeds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        translator.translate(lines, **options)
        speeds.append(len(lines) / (time.perf_counter() - begin))
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--length", type=int, help="force every output to this many pieces")
    parser.add_argument("--precision", default="fp32", help="fp32, bf16, fp16 or auto")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    lines = list(read_lines(args.input))
    share_freed_memory()
    translator = Translator.from_pretrained(args.run, precision=args.precision)
    forced: dict[str, Any] = {}
    if args.length:
        forced = {"max_len_a": 0.0, "max_len_b": args.length, "min_len": args.length}
    print(conditions())
    figures: dict[str, Any] = {
        "sentences": len(lines),
        "length": args.length,
        "precision": args.precision,
    }
    for beam in args.beams:
        speeds = sentences_per_second(translator, lines, {"beam": beam} | forced, args.rounds)
        print(f"beam {beam}: {median(speeds):,.1f} sentences/s")
        figures[f"beam_{beam}"] = speeds
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {figures['peak_mb']:,.0f} MB")
    print(save("decoding", figures))


if __name__ == "__main__":
    main()

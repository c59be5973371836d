"""The attention page: capture, size, opening in a browser; and the memory of `seq2seq heads`.

    .venv/bin/python benchmarks/page.py
    .venv/bin/python benchmarks/page.py --tokens 150 --heads 500 4000

The model is the paper's base (6 + 6 layers, 8 heads, d_model 512) with random weights, already
loaded. A sentence pair of 60 tokens on either side is captured, all 144 heads, and its page is
written. Where Chromium and Playwright are there, the page is opened, and its kind of attention
changed.

`seq2seq heads` must not need more memory for more sentences: its survey runs in a process of its
own for each number of sentences, with a model of 2 + 2 layers.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common import conditions, median, save

from seq2seq.analysis.capture import capture
from seq2seq.analysis.survey import survey
from seq2seq.attention_maps import AttentionMaps
from seq2seq.config import ModelConfig, TokenizerConfig
from seq2seq.data.grammar import generate
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.model.transformer import Transformer
from viz.page import html

WISHES: dict[str, dict[str, bool]] = {
    "weights": {},
    "with norms": {"norms": True},
    "with norms, queries and keys": {"norms": True, "qk": True},
}
CHROMIUM = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
SWITCH = """async () => {
    const start = performance.now();
    await attention.change({ kind: "enc" });
    return performance.now() - start;
}"""


def pairs_of(count: int) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in generate(count, split="train")]


def setting(layers: int, width: int) -> tuple[Transformer, Tokenizer]:
    """A model of random weights, and a tokenizer of the grammar's words."""
    pairs = pairs_of(2000)
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    tokenizer = train_tokenizer(TokenizerConfig(vocab_size=1000), *sides)
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=width,
        d_ff=4 * width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_heads=8,
        decoder_heads=8,
        source_vocab=tokenizer.source_vocab,
        target_vocab=tokenizer.target_vocab,
    )
    return Transformer(config).eval(), tokenizer


def sentence_of(tokenizer: Tokenizer, tokens: int) -> tuple[str, str]:
    """A pair with so many tokens on either side, end of sentence included."""
    source, target = (" ".join(side) for side in zip(*pairs_of(tokens), strict=True))
    return (
        _cut(source, tokens, lambda text: len(tokenizer.encode_source([text])[0])),
        _cut(target, tokens, lambda text: len(tokenizer.encode_target([text])[0])),
    )


def _cut(text: str, tokens: int, length: Any) -> str:
    words = text.split(" ")
    count = next(n for n in range(len(words)) if length(" ".join(words[: n + 1])) >= tokens)
    return " ".join(words[:count])


def capturing(tokens: int, rounds: int, folder: Path) -> dict[str, Any]:
    model, tokenizer = setting(6, 512)
    source, target = sentence_of(tokenizer, tokens)
    seconds: dict[str, list[float]] = {name: [] for name in WISHES}
    maps: dict[str, AttentionMaps] = {}
    for number in range(rounds + 1):  # the first warms up
        for name, wish in WISHES.items():
            begin = time.perf_counter()
            (maps[name],) = capture(model, tokenizer, source, target, **wish)
            page = html([maps[name]])
            (folder / f"{name}.html").write_text(page, encoding="utf-8")
            if number:
                seconds[name].append(time.perf_counter() - begin)
    found = {}
    for name, record in maps.items():
        size = (folder / f"{name}.html").stat().st_size / 1e6
        npz = len(record.to_bytes()) / 1e6
        heads = sum(len(w) for kind in ("enc", "dec", "cross") for w in record.layers(kind))
        shape = f"{heads} heads, {len(record.src)} × {len(record.tgt_out)} tokens"
        took = f"{median(seconds[name]):.2f} s"
        print(f"{name} ({shape}): {took}, page {size:.2f} MB, .npz {npz:.2f} MB")
        found[name] = {"seconds": seconds[name], "page_mb": size, "npz_mb": npz, "shape": shape}
    return found


def opening(page: Path, rounds: int) -> dict[str, list[float]] | None:
    """Milliseconds until the page is ready, and until another kind is drawn."""
    path = next((p for name in ("chromium", "chromium-browser") if (p := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        print("no Chromium with Playwright: opening is not measured")
        return None
    ready, switch = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM))
        for _ in range(rounds):
            tab = browser.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_selector('html[data-ready="1"]')
            ready.append(tab.evaluate("performance.now()"))
            switch.append(tab.evaluate(SWITCH))
            tab.close()
        browser.close()
    print(f"{page.stem}: ready {median(ready):.0f} ms, another kind {median(switch):.0f} ms")
    return {"ready_ms": ready, "switch_ms": switch}


def surveying(counts: list[int]) -> dict[int, float]:
    """Peak memory in MB by number of sentences, each in a fresh process."""
    found = {}
    for count in counts:
        command = [sys.executable, __file__, "--survey", str(count)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[count] = float(output)
        print(f"heads, {count:,} sentences: peak memory {found[count]:,.0f} MB")
    return found


def survey_alone(count: int) -> None:
    model, tokenizer = setting(2, 64)
    survey(model, tokenizer, pairs_of(count))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--heads", nargs="*", type=int, default=[200, 1600], metavar="N")
    parser.add_argument("--survey", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.survey:
        survey_alone(args.survey)
        return
    print(conditions())
    with TemporaryDirectory() as folder:
        figures: dict[str, Any] = {
            "capture": capturing(args.tokens, args.rounds, Path(folder)),
            "browser": {
                name: opening(Path(folder) / f"{name}.html", args.rounds) for name in WISHES
            },
        }
    figures["heads_peak_mb"] = surveying(args.heads)
    print(save("page", figures))


if __name__ == "__main__":
    main()

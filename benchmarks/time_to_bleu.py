"""How soon a model is good: BLEU on test_2016_flickr by minutes of training.

    .venv/bin/python benchmarks/time_to_bleu.py --root MULTI30K_DIR [--minutes 9.5] [KEY=VALUE …]

Trains experiment=multi30k with the time that it has and other settings given, keeps every
checkpoint, and decodes the test set with each (beam 5). Minutes are those of training as its log
counts them: validation included, the test set decoded afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import conditions, save

TEST = "test_2016_flickr"


def seq2seq(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def curve(run: Path, root: str) -> list[dict[str, Any]]:
    """Minutes, updates and BLEU of every checkpoint."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    seconds = {entry["update"]: entry["seconds"] for entry in entries if "update" in entry}
    points = []
    for step in sorted(run.glob("step-*"), key=lambda step: int(step.name.split("-")[1])):
        update = int(step.name.split("-")[1])
        which = ("--run", str(run), "--checkpoint", step.name, "--split", TEST)
        report = json.loads(seq2seq("evaluate", *which, "--json", f"data.root={root}"))
        bleu = report["bleu"]
        minutes = round(seconds[update] / 60, 2)
        points.append({"minutes": minutes, "update": update, **bleu})
        print(f"{minutes:5.1f} minutes, update {update:5}: BLEU {bleu['score']:.1f}", flush=True)
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True, help="Multi30k folder")
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--every", type=int, default=500, help="updates between checkpoints")
    parser.add_argument("settings", nargs="*", help="of training, such as train.max_tokens=2048")
    args = parser.parse_args()
    print(conditions())
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        length = [f"train.max_minutes={args.minutes}", f"train.validate_every={args.every}"]
        seq2seq(
            *("train", "--run", str(run), "experiment=multi30k", f"data.root={args.root}"),
            *(*length, "train.keep_last=1000", *args.settings),
        )
        asked = {"minutes": args.minutes, "settings": args.settings}
        print(save("time_to_bleu", {**asked, "curve": curve(run, args.root)}))


if __name__ == "__main__":
    main()

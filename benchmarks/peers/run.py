"""Every peer beside this project, on the same work in one run, with the machine's own limit.

    .venv/bin/python benchmarks/peers/run.py --root MULTI30K_DIR [--only fairseq eole]
    .venv/bin/python benchmarks/peers/run.py --root MULTI30K_DIR --prepare-only

The first run makes an environment for each peer and its copy of the data, which takes minutes;
`--prepare-only` does no more than that. The systems are measured in turn, round after round, so
that other load on the machine hits all alike. The figures go to benchmarks/results/peers-DATE.json,
which table.py renders.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the other benchmarks are

import data
import limit
import torch
from common import save
from inside import MEASURED
from table import table
from venvs import PeerError, Venv, base_venv, telling_line

HERE = Path(__file__).parent
SCRIPTS = {
    "ours": "ours",
    "joeynmt": "peer_joeynmt",
    "plain": "peer_plain",
    "marian": "peer_marian",
    "sockeye": "peer_sockeye",
    "opennmt": "peer_opennmt",
    "eole": "peer_eole",
    "fairseq": "peer_fairseq",
    "ctranslate2": "peer_ctranslate2",
}


@dataclass
class System:
    """One of the systems, and what was measured of it."""

    name: str
    script: ModuleType
    python: str
    result: dict[str, Any] = field(default_factory=dict)

    def call(self, what: str, work: Path, *arguments: str, threads: int, limit_s: float) -> Any:
        """Run its script; returns what it measured.

        Raises:
            PeerError: it failed, or took too long.
        """
        file = HERE / f"{SCRIPTS[self.name]}.py"
        command = [self.python, str(file), what, str(work), "--name", self.name, *arguments]
        command += ["--threads", str(threads)]
        environment = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
            "CUDA_VISIBLE_DEVICES": "",
        }
        if self.name == "ours":
            environment["PYTHONPATH"] = str(HERE.parents[1])
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            raise PeerError(f"no result after {limit_s:.0f} s") from None
        for line in reversed(done.stdout.splitlines()):
            if line.startswith(f'{{"{MEASURED}"'):
                return json.loads(line)[MEASURED]
        if what == "prepare" and done.returncode == 0:
            return None
        raise PeerError(telling_line(done.stderr) or f"exit code {done.returncode}")


def ready(name: str, venvs: Path, work: Path) -> System:
    """A system, installed and prepared; its result tells what hindered that."""
    script = importlib.import_module(SCRIPTS[name])
    venv = Venv(venvs / name, base_venv(venvs))
    python = sys.executable if name == "ours" else str(venv.python)
    system = System(name, script, python, {"name": name, "title": script.TITLE})
    try:
        if name != "ours":
            venv.install_once(script.install)
            system.result["versions"] = venv.versions(*script.PACKAGES)
        mark = work / name / "prepared"
        if not mark.exists():
            print(f"preparing {name}", flush=True)
            shutil.rmtree(mark.parent, ignore_errors=True)  # of an attempt that did not end
            system.call("prepare", work, threads=1, limit_s=1200)
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
    except PeerError as error:
        print(f"{script.TITLE} is left out: {error}", flush=True)
        system.result["not_installed"] = str(error)
    return system


def measure_training(system: System, work: Path, args: argparse.Namespace) -> None:
    for precision in system.script.TRAINS:
        options = ["--precision", precision, "--seconds", str(args.train_seconds)]
        options += ["--warm-up", str(args.warm_up)]
        found = attempt(system, f"training {precision}", "train", work, options, args)
        if found:
            rounds = system.result.setdefault("training", {}).setdefault(precision, [])
            rounds.append(found)
            report(system, f"training {precision}", f"{found['tokens_per_second']:,.0f} tokens/s")


def measure_decoding(system: System, work: Path, args: argparse.Namespace) -> None:
    for precision, beams in system.script.BEAMS.items():
        # The beam first: greedy search has larger batches, and memory is counted by its peak.
        order = sorted(beams, reverse=True)
        options = ["--precision", precision, "--sentences", str(args.sentences)]
        options += ["--seconds", str(args.decode_seconds), "--beams", *map(str, order)]
        found = attempt(system, f"decoding {precision}", "decode", work, options, args)
        for beam in order if found else ():
            entry = {**found[str(beam)], **{k: v for k, v in found.items() if k == "threads"}}
            kept = system.result.setdefault("decoding", {}).setdefault(precision, {})
            kept.setdefault(str(beam), []).append(entry)
            speed = f"{entry['sentences_per_second']:,.1f} sentences/s"
            report(system, f"decoding {precision}, beam {beam}", speed)


def attempt(
    system: System,
    title: str,
    what: str,
    work: Path,
    options: list[str],
    args: argparse.Namespace,
) -> Any:
    """One measurement; None if it failed, which is kept, or if it failed before."""
    failed = system.result.setdefault("failed", {})
    if title in failed:
        return None
    try:
        return system.call(what, work, *options, threads=args.threads, limit_s=args.patience)
    except PeerError as error:
        failed[title] = str(error)
        report(system, title, f"failed: {error}")
        return None


def report(system: System, what: str, text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {system.script.TITLE:28} {what:24} {text}", flush=True)


def processor() -> str:
    """The name of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True, help="Multi30k folder")
    parser.add_argument(
        "--venvs",
        type=Path,
        default=Path.home() / ".cache" / "seq2seq-peers",
        help="folder of the peers' environments and data (default: %(default)s)",
    )
    parser.add_argument("--only", nargs="+", choices=[*SCRIPTS], help="beside ours")
    parser.add_argument("--prepare-only", action="store_true", help="install, measure nothing")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--train-seconds", type=float, default=60.0, help="measured, each time")
    parser.add_argument("--warm-up", type=float, default=4.0, help="seconds before that")
    parser.add_argument("--sentences", type=int, default=1000, help="to decode")
    parser.add_argument(
        "--decode-seconds", type=float, default=20.0, help="a slow system decodes what fits"
    )
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for a measurement")
    parser.add_argument("--minutes", type=float, help="begin no measurement after so many")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    end = time.monotonic() + 60 * args.minutes if args.minutes else float("inf")
    venvs = args.venvs.resolve()
    work = venvs / "work"
    text = data.prepare(args.root, work)
    chosen = [name for name in SCRIPTS if not args.only or name in {"ours", *args.only}]
    systems = [ready(name, venvs, work) for name in chosen]
    if args.prepare_only:
        return
    torch.set_num_threads(args.threads)
    lengths = limit.Work(text["source_length"], text["target_length"], text["test_source_length"])
    limits: dict[str, Any] = {}
    installed = [system for system in systems if "not_installed" not in system.result]
    for number in range(args.rounds):
        for name, dtype in limit.DTYPES.items():  # the best of all rounds: a limit is what can be
            found = limit.measure(lengths, dtype)
            limits[name] = max(limits.get(name, found), found, key=lambda one: one["gflops"])
        for measure in (measure_training, measure_decoding):
            for system in installed if number % 2 == 0 else reversed(installed):
                if time.monotonic() < end:
                    measure(system, work, args)
    settings = {
        "processor": processor(),
        "threads": args.threads,
        "rounds": args.rounds,
        "train_seconds": args.train_seconds,
        "sentences": args.sentences,
        **text,
    }
    results = {
        "settings": settings,
        "limit": limits,
        "systems": [system.result for system in systems],
    }
    file = save("peers", results)
    print(table(json.loads(file.read_text(encoding="utf-8"))))
    print(file)


if __name__ == "__main__":
    main()

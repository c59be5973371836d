"""`seq2seq average`: one model from the last checkpoints of a run (paper, section 6.1)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from seq2seq.cli.args import Parser
from seq2seq.errors import UserError

EXAMPLES = """
seq2seq train --name demo experiment=grammar train.keep_last=5
seq2seq average --run runs/demo --last 5
seq2seq evaluate --run runs/demo --checkpoint average-5
"""


def main(argv: list[str]) -> int:
    """Run `seq2seq average`; the last line printed is the new checkpoint's folder."""
    parser = Parser(
        "average",
        "Averages the weights of the last checkpoints of a run into one more checkpoint of it,\n"
        "which the other commands take by --checkpoint. Training must keep enough of them:\n"
        "train.keep_last=N.",
        EXAMPLES,
    )
    parser.add_argument("--run", required=True, metavar="RUN", help="folder of a training run")
    parser.add_argument("--last", type=int, default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument("--out", metavar="NAME", help="checkpoint name (default: average-N)")
    args = parser.parse(argv)
    folder = average(Path(args.run), args.last, args.out or f"average-{args.last}")
    print(folder)
    return 0


def average(run: Path, last: int, name: str) -> Path:
    """Write the mean of the last checkpoints of `run` to `run/name`.

    Raises:
        UserError: fewer checkpoints than asked for, or the name cannot be used.
    """
    from safetensors.torch import save_file

    from seq2seq.run_folder import REMOVED, WEIGHTS, removed_heads, step_folders
    from seq2seq.training.averaging import average_checkpoints

    if Path(name).name != name or name in ("best", "last") or name.startswith("step-"):
        raise UserError(f"--out {name!r} must be a plain name, other than best, last or step-N.")
    if not run.is_dir():
        raise UserError(f"--run {run} is not a folder.")
    target = run / name
    if target.exists():
        raise UserError(f"{target} exists already: remove it, or choose another --out.")
    steps = step_folders(run)
    if not 1 <= last <= len(steps):
        there = ", ".join(step.name for step in steps) or "none"
        raise UserError(
            f"--last {last}: {run} has {len(steps)} checkpoints ({there}); training keeps more of "
            "them with train.keep_last=N."
        )
    weights = average_checkpoints(steps[-last:])
    metadata = {"format": "pt"}
    if lacking := removed_heads(steps[-1] / WEIGHTS):
        metadata[REMOVED] = lacking
    building = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=run))
    try:
        save_file(weights, building / WEIGHTS, metadata=metadata)
        building.chmod(0o755)
        building.rename(target)  # whole or not at all
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return target

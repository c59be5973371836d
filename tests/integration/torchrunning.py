"""Starting torchrun in tests, and seeing that it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
Process = subprocess.Popen[str]


def torchrun(*command: str, processes: int = 2, place: Path | None = None) -> Process:
    """Start `torchrun COMMAND` in a folder."""
    paths = [str(HERE.parents[1]), str(HERE), str(HERE.parent / "unit")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [sys.executable, *launcher, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=place,
    )


def ended(process: Process, seconds: float = 200) -> tuple[int, str, str]:
    """Status, stdout and stderr of a process that ends by itself within some time."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # so that torchrun ends its own
        out, err = process.communicate()
        raise AssertionError(f"still running after {seconds} seconds: {err}") from None
    return process.returncode, out, err

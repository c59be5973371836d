"""What every benchmark shares: interleaved timing, and the conditions beside the figures."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch


def interleaved(
    candidates: dict[str, Callable[[], object]], repeats: int = 7
) -> dict[str, list[float]]:
    """Seconds of every candidate, run in turn so that other load on the machine hits all alike."""
    for run in candidates.values():
        run()  # warm up
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, run in candidates.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def conditions() -> dict[str, Any]:
    """Date, commit, versions, threads and load: without them a figure says nothing."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def save(name: str, figures: dict[str, Any]) -> Path:
    """Write benchmarks/results/NAME-DATE.json."""
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-{date.today().isoformat()}.json"
    content = {"conditions": conditions(), **figures}
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return file

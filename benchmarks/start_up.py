"""Start-up: seconds of `seq2seq --help`, of `train --help` and of `import seq2seq`.

.venv/bin/python benchmarks/start_up.py
"""

from __future__ import annotations

import subprocess
import sys

from common import conditions, interleaved, median, save

COMMANDS = {
    "seq2seq --help": ["-m", "seq2seq", "--help"],
    "seq2seq train --help": ["-m", "seq2seq", "train", "--help"],
    "import seq2seq": ["-c", "import seq2seq"],
    "python alone": ["-c", "pass"],
}


def main() -> None:
    print(conditions())
    runs = {
        name: lambda arguments=arguments: subprocess.run(
            [sys.executable, *arguments], check=True, capture_output=True
        )
        for name, arguments in COMMANDS.items()
    }
    figures = {name: median(seconds) for name, seconds in interleaved(runs).items()}
    for name, seconds in figures.items():
        print(f"{name}: {seconds:.3f} s")
    print(save("start_up", figures))


if __name__ == "__main__":
    main()

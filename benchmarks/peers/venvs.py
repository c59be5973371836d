"""An environment for each peer, outside the repository; PyTorch is installed once for all."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

PTH = "shared-torch.pth"


class PeerError(Exception):
    """A peer that cannot be installed, or failed; says why in one line."""


class Venv:
    """One environment.

    Args:
        folder: where it is or will be.
        base: the environment that has PyTorch, whose packages the others see.
    """

    def __init__(self, folder: Path, base: Venv | None = None) -> None:
        self.folder = folder
        self.base = base
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"

    def install_once(self, install: Callable[[Venv], None]) -> None:
        """Make the environment and fill it, unless that has been done to the end before."""
        mark = self.folder / "installed"
        if not mark.exists():
            print(f"installing {self.folder.name}", flush=True)
            _run(sys.executable, "-m", "venv", "--clear", str(self.folder))
            install(self)
            mark.touch()

    def pip(self, *arguments: str) -> None:
        """`pip install`, with these arguments."""
        _run(str(self.python), "-m", "pip", "install", "--quiet", *arguments)

    def use_torch(self) -> None:
        """See the packages of the base environment, behind one's own."""
        if self.base is None:
            raise ValueError("the base environment has no base")
        (self.site / PTH).write_text(f"{self.base.site}\n", encoding="utf-8")

    def edit(self, file: str, pattern: str, replacement: str) -> None:
        """Replace a regular expression in an installed file; it must occur."""
        path = self.site / file
        text, count = re.subn(pattern, replacement, path.read_text("utf-8"), flags=re.MULTILINE)
        if not count:
            raise PeerError(f"{file} is not what the patch expects")
        path.write_text(text, encoding="utf-8")

    def versions(self, *packages: str) -> dict[str, str]:
        """Version of each package, as this environment sees it."""
        code = (
            "import sys; from importlib.metadata import version; "
            "print(*(version(name) for name in sys.argv[1:]))"
        )
        found = _run(str(self.python), "-c", code, *packages).split()
        return dict(zip(packages, found, strict=True))


def base_venv(folder: Path) -> Venv:
    """The environment with the PyTorch that this process has too."""
    release = metadata.version("torch").split("+")[0]
    venv = Venv(folder / f"torch-{release}")
    venv.install_once(lambda new: new.pip(f"torch=={release}", "numpy"))
    return venv


def telling_line(errors: str) -> str:
    """The last line of an error output that tells something."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"[\w.]*(Error|error|ERROR)\b", line)]
    return (telling or lines or [""])[-1][:200]


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise PeerError(telling_line(result.stderr) or f"exit code {result.returncode}")
    return result.stdout

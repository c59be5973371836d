"""The wheel: a user who installs it has every file, and the command works away from the clone."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_PACKAGED = {".venv", ".git", "runs", "build", "dist", "tests", "docs", "benchmarks"}
DATA = {".yaml", ".toml", ".tsv", ".json", ".html", ".css", ".js", ".typed"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that nothing is left in the clone."""
    copy = tmp_path_factory.mktemp("copy") / "project"
    ignore = shutil.ignore_patterns(*NOT_PACKAGED, "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=ignore)
    output = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", output, copy]
    subprocess.run(build, check=True, timeout=300)
    [file] = output.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder that the wheel was installed into, alone."""
    target = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel]
    subprocess.run(install, check=True, timeout=300)
    return target


def command(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m seq2seq` with the installed copy before every other."""
    code = f"import sys; sys.path[:0] = [{str(installed)!r}]; sys.argv[1:] = {list(arguments)!r};"
    code += "import runpy; runpy.run_module('seq2seq', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        timeout=120,
    )


def test_the_wheel_is_pure_python(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_wheel_holds_every_module_and_data_file(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    for package in ("seq2seq", "viz", "conf"):
        for file in (ROOT / package).rglob("*"):
            if file.is_file() and file.suffix in DATA | {".py"}:
                place = file.relative_to(ROOT).as_posix()
                assert place.replace("conf/", "seq2seq/conf/", 1) in held or place in held


def test_the_wheel_holds_nothing_else(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"seq2seq", "viz"}


def test_the_command_works_elsewhere(installed, tmp_path):
    done = command(installed, tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: seq2seq" in done.stdout


def test_configuration_is_found_elsewhere(installed, tmp_path):
    done = command(installed, tmp_path, "train", "experiment=multi30k", "--cfg", "job")
    assert done.returncode == 0, done.stderr
    assert "kind: multi30k" in done.stdout


def test_it_is_the_installed_copy_that_was_tested(installed, tmp_path):
    shutil.copytree(installed, tmp_path / "copy")
    (tmp_path / "copy" / "seq2seq" / "conf" / "experiment" / "multi30k.yaml").unlink()
    done = command(tmp_path / "copy", tmp_path, "train", "experiment=multi30k", "--cfg", "job")
    assert done.returncode == 2
    assert "There is no experiment=multi30k" in done.stderr

"""The documentation speaks of what exists: commands, flags, settings, files."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from seq2seq.cli.main import COMMANDS, find_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> Iterator[list[str]]:
    """Every complete `seq2seq …` line of the page's code blocks, comments left out."""
    for block in re.findall(r"```(?:bash|sh|console)?\n(.*?)```", page.read_text("utf-8"), re.S):
        for line in block.replace("\\\n", " ").split("\n"):
            words = line.removeprefix("$ ").strip()
            if words.startswith("seq2seq ") and "…" not in words:
                yield shlex.split(words, comments=True)


@cache
def help_of(command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        find_command(command)(["--help"])
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_flags_exist(page: Path) -> None:
    for words in commands(page):
        if words[1].startswith("-"):
            continue
        assert words[1] in COMMANDS, words
        if words[1] == "corpus":  # has sub-commands with flags of their own
            continue
        for word in words[2:]:
            if word.startswith("--"):
                flag = word.split("=")[0]
                assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help_of(words[1])), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_has_no_figure_left_open() -> None:
    assert "@@" not in (ROOT / "README.md").read_text("utf-8")

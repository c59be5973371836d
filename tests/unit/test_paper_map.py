"""docs/paper_map.md points at what exists, and forgets no file of the model."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "paper_map.md"

ROW = re.compile(r"^\| (?P<paper>[^|]+) \| (?P<concept>[^|]+) \| (?P<code>[^|]+) \|$", re.MULTILINE)
PLACE = re.compile(r"^\[`(?P<file>[^`]+)`\]\((?P<link>[^)]+)\): (?P<names>`[^`]+`(?:, `[^`]+`)*)$")


def places():
    for row in ROW.finditer(MAP.read_text(encoding="utf-8")):
        if row["paper"] != "Paper" and not row["paper"].startswith("--"):
            for place in row["code"].split(" · "):
                match = PLACE.match(place)
                assert match, f"not FILE: NAMES: {place}"
                yield match["file"], match["link"], re.findall("`([^`]+)`", match["names"])


PLACES = list(places())


def names_of(path):
    """Top-level names, Class.name, Class.attribute assigned on self; or the keys of a YAML file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        return set(re.findall(r"^(\w+):", text, re.MULTILINE))
    found = set()
    for node in ast.parse(text).body:
        found |= defined(node)
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                found |= {f"{node.name}.{name}" for name in defined(child)}
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    found.add(f"{node.name}.{part.attr}")
    return found


def defined(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize(("file", "link", "names"), PLACES)
def test_file_and_names_exist(file, link, names):
    assert (MAP.parent / link).resolve() == ROOT / file
    assert set(names) <= names_of(ROOT / file)


def test_the_map_is_read_whole():
    text = MAP.read_text(encoding="utf-8")
    assert len(PLACES) == text.count("](../")
    assert len(PLACES) > 40


def test_every_file_of_the_model_is_on_the_map():
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "seq2seq/model").glob("*.py")}
    assert files - {file for file, _, _ in PLACES} == {"seq2seq/model/__init__.py"}


def test_every_section_of_the_paper_with_something_to_build_is_on_the_map():
    cells = " ".join(row["paper"] for row in ROW.finditer(MAP.read_text(encoding="utf-8")))
    wanted = ["3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "5.1", "5.3", "5.4", "6.1"]
    wanted += ["equation 1", "equation 2", "equation 3", "Figure 1", "Table 1", "Table 2"]
    wanted += [f"Table 3 row {letter}" for letter in "ABCDE"]
    assert [section for section in wanted if section not in cells] == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("ModelConfig.d_k", True),
        ("ModelConfig.d_q", False),
        ("ModelConfig", True),
        ("nothing", False),
    ],
)
def test_the_check_itself_can_fail(name, there):
    assert (name in names_of(ROOT / "seq2seq/config.py")) == there

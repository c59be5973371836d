"""The tests that tests/README.md names for each fault exist."""

import re
from pathlib import Path

UNIT = Path(__file__).parent
README = UNIT.parent / "README.md"


def test_every_named_test_exists():
    listed = README.read_text(encoding="utf-8").split("## Mutations")[1]
    file, count = "", 0
    for name in re.findall(r"`((?:\w+\.py::)?test_\w+)`", listed):
        if "::" in name:
            file, name = name.split("::")
        assert f"def {name}(" in (UNIT / file).read_text(encoding="utf-8"), f"{file}::{name}"
        count += 1
    assert count > 40

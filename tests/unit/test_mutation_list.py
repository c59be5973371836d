"""The tests that tests/README.md names for each fault exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
README = TESTS / "README.md"


def test_every_named_test_exists():
    listed = README.read_text(encoding="utf-8").split("## Mutations")[1]
    file, count = "", 0
    for name in re.findall(r"`((?:\w+\.py::)?test_\w+)`", listed):
        if "::" in name:
            file, name = name.split("::")
        (path,) = TESTS.glob(f"*/{file}")
        assert f"def {name}(" in path.read_text(encoding="utf-8"), f"{file}::{name}"
        count += 1
    assert count > 40

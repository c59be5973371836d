"""The tests that tests/README.md names for each fault exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
README = TESTS / "README.md"


def test_every_named_test_exists():
    listed = README.read_text(encoding="utf-8").split("## Mutations")[1]
    names = re.findall(r"`(?:(?:\w+/)?(\w+\.py)::)?(test_\w+)`", listed)
    for file, name in names:  # without a file: one of those told of nearby
        paths = TESTS.glob(f"*/{file or 'test_*.py'}")
        assert any(f"def {name}(" in path.read_text(encoding="utf-8") for path in paths), name
    assert len(names) > 40

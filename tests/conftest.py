"""For all tests: one thread each, and a closing line on what was left out."""

from collections import Counter

import pytest
import torch

MARKS = ("slow", "gpu", "dist", "browser")
left_out: Counter[str] = Counter()


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny tensors gain nothing from more, and test processes side by side lose."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def same_numbers():
    """Random tensors are the same in every run, whichever tests run before."""
    torch.manual_seed(0)


def pytest_deselected(items):
    for item in items:
        left_out.update(mark for mark in MARKS if item.get_closest_marker(mark))


def pytest_terminal_summary(terminalreporter):
    if left_out:
        counts = ", ".join(f"{count} {mark}" for mark, count in sorted(left_out.items()))
        terminalreporter.write_line(f"left out: {counts} (choose them with -m)")

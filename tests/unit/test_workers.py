"""Batches side by side: all of them once, errors told, PyTorch's threads given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from seq2seq.decoding.workers import side_by_side, worker_count


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_every_item_is_done_once(workers: int) -> None:
    results = dict(side_by_side(lambda x: x * x, range(20), workers))
    assert results == {x: x * x for x in range(20)}
    assert not list(side_by_side(lambda x: x, [], workers))


def test_two_work_at_the_same_time_with_half_of_the_threads_each() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def work(_: int) -> int:
        meeting.wait()  # breaks if the other has to wait for its turn
        return torch.get_num_threads()

    assert dict(side_by_side(work, [0, 1], 2)) == {0: 2, 1: 2}
    assert torch.get_num_threads() == 4


def test_one_item_has_all_threads() -> None:
    assert dict(side_by_side(lambda _: torch.get_num_threads(), [0], 4)) == {0: 4}


def test_an_error_reaches_the_caller_and_ends_the_work() -> None:
    begun = []

    def work(x: int) -> None:
        begun.append(x)
        if x == 1:
            raise ValueError("the second")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="the second"):
        list(side_by_side(work, range(50), 2))
    assert len(begun) < 50
    assert torch.get_num_threads() == 4


def test_a_gpu_is_filled_by_one() -> None:
    assert worker_count(torch.device("cpu")) == 4
    assert worker_count(torch.device("cuda")) == 1

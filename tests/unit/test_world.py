"""The processes of a run, seen by one of them: alone, and in a group of one over gloo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from seq2seq.errors import UserError
from seq2seq.training import distributed
from seq2seq.training.distributed import FAILED, Ranks, World, join_world


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    """A process group of one; its store is that of a larger one for all that `Ranks` can tell."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield Ranks(store, local_rank=0)
    dist.destroy_process_group()


def test_a_world_of_one_does_nothing() -> None:
    with join_world() as world:
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.sum(1, 2.5) == [1, 2.5]
        assert world.same("x") == "x"
        assert world.gather("x") == ["x"]
        with world.main_first():
            assert not dist.is_initialized()
        assert world.device("cpu") == torch.device("cpu")


def test_a_group_of_one_agrees_with_itself(ranks: Ranks) -> None:
    assert ranks.sum(1, 2.5) == World().sum(1, 2.5)
    assert ranks.same({"x": 1}) == {"x": 1}
    assert ranks.gather([3]) == [[3]]
    assert ranks.device("cpu") == torch.device("cpu")


def test_others_wait_for_the_first(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks.is_main = False
    waits: list[float] = []

    def meanwhile(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            ranks.store.set("block 1", "")

    monkeypatch.setattr(distributed.time, "sleep", meanwhile)
    with ranks.main_first():
        assert len(waits) == 3
    ranks.store.add(FAILED, 1)
    with pytest.raises(SystemExit), ranks.main_first():
        pytest.fail("rank 0 never came so far")


def test_the_first_opens_the_block_for_the_others_only_when_done(ranks: Ranks) -> None:
    with ranks.main_first():
        assert not ranks.store.check(["block 1"])
    assert ranks.store.check(["block 1"])
    with pytest.raises(ValueError, match="mine"), ranks.main_first():
        raise ValueError("mine")
    assert not ranks.store.check(["block 2"])


def test_one_rank_is_the_first_to_fail(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks.is_first_to_fail()
    assert not ranks.is_first_to_fail()

    class Gone:
        def add(self, *_: Any) -> int:
            raise dist.DistNetworkError("connection reset")

    monkeypatch.setattr(ranks, "store", Gone())
    assert not ranks.is_first_to_fail()


@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_every_rank_of_a_machine_has_a_gpu_of_its_own(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(distributed, "resolve_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    ranks.local_rank = 1
    assert ranks.device(name) == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 1)]
    ranks.local_rank = 2
    with pytest.raises(UserError, match=r"more processes here than GPUs.*--nproc-per-node 2"):
        ranks.device(name)


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_one_device_is_not_enough_for_several(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(distributed, "resolve_device", torch.device)
    with pytest.raises(UserError, match=f"device={device} is one device, but 1 processes train"):
        ranks.device(device)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[dist.HashStore]:
    """As if torchrun had started this process as rank 1; the group itself has one rank."""
    store, join = dist.HashStore(), dist.init_process_group
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(distributed, "rendezvous", lambda _: iter([(store, 1, 2)]))
    monkeypatch.setattr(
        dist,
        "init_process_group",
        lambda backend, **_: join(backend, store=store, rank=0, world_size=1),
    )
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    yield store
    if dist.is_initialized():
        dist.destroy_process_group()


def test_only_rank_0_is_heard(started: dist.HashStore, capsys: pytest.CaptureFixture[str]) -> None:
    with join_world() as world:
        assert (world.rank, world.is_main) == (1, False)
        print("what rank 0 says too")
        print("and this", file=sys.stderr)
    assert capsys.readouterr() == ("", "")
    assert not dist.is_initialized()


@pytest.mark.parametrize("error", [UserError("mine"), RuntimeError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_to_fail_is_heard(
    started: dist.HashStore, error: BaseException, is_first: bool
) -> None:
    if not is_first:
        dist.PrefixStore("seq2seq", started).add(FAILED, 1)
    with pytest.raises(type(error) if is_first else SystemExit) as caught, join_world():
        raise error
    if not is_first:
        assert caught.value.code == (2 if isinstance(error, UserError) else 1)
    assert dist.PrefixStore("seq2seq", started).check([FAILED])


def test_an_exit_is_no_failure(started: dist.HashStore) -> None:
    with pytest.raises(SystemExit) as caught, join_world():
        raise SystemExit(0)
    assert caught.value.code == 0
    assert not dist.PrefixStore("seq2seq", started).check([FAILED])

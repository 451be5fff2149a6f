"""Sends and receives that a trainer issues itself: what is waited for counts as pipeline wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.communication.groups import group_number
from stepwatch.signals.records import Kind, Op
from tests.hooks.conftest import rows_in

torch = pytest.importorskip("torch", reason="the transfers are torch's")
fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
dist: Any = torch.distributed

PEER = 3


@pytest.fixture
def watch(rings: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """A Watch of rank 1 of 4, whose neighbours are not there and answer at once."""
    dist.init_process_group("fake", store=fake.FakeStore(), rank=1, world_size=4)
    # Real works wait as `Work` does; that of the fake group has a way of its own.
    monkeypatch.delattr("torch._C._distributed_c10d.FakeWork.wait")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    new_watch = Watch.from_env(job="own")
    new_watch.attach()
    yield new_watch
    assert new_watch.guard.errors == 0
    new_watch.close()
    dist.destroy_process_group()


def batched(tensor: Any) -> None:
    operations = [dist.P2POp(dist.isend, tensor, PEER), dist.P2POp(dist.irecv, tensor, PEER)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def one_by_one(tensor: Any) -> None:
    for work in (dist.isend(tensor, PEER), dist.irecv(tensor, PEER)):
        work.wait()


def blocking(tensor: Any) -> None:
    dist.send(tensor, PEER)
    dist.recv(tensor, PEER)


@pytest.mark.parametrize("exchange", [batched, one_by_one, blocking])
def test_a_transfer_counts_once_between_the_pair_and_its_wait_is_pipeline_wait(
    watch: Watch, rings: Path, exchange: Callable[[Any], None]
) -> None:
    tensor = torch.ones(8)
    for _ in range(2):
        with watch.step():
            exchange(tensor)
    rows = rows_in(rings, Kind.COLLECTIVE)
    assert sorted(rows["op"].tolist()) == [Op.SEND, Op.SEND, Op.RECV, Op.RECV]
    assert set(rows["count"].tolist()) == {1} and set(rows["bytes"].tolist()) == {tensor.nbytes}
    assert set(rows["group"].tolist()) == {group_number([1, PEER])}
    named = {bytes(row["text"]) for row in rows_in(rings, Kind.GROUP)}
    assert named - {b"0-3"} == {b"1,3"}, "besides the world, which hooks on groups name"
    steps = rows_in(rings, Kind.STEP)
    assert (steps["pipeline_wait_ns"] > 0).all() and not steps["collective_ns"].any()
    assert (rows["exposed_ns"][rows["op"] == Op.RECV] > 0).all()


def test_what_a_schedule_waits_for_is_left_to_its_hooks(watch: Watch, rings: Path) -> None:
    with watch.step():
        assert watch.recorder.timeline is not None
        watch.recorder.timeline.enter(len(watch.recorder.timeline.totals) - 1)
        batched(torch.ones(8))
        watch.recorder.timeline.leave()
    assert not len(rows_in(rings, Kind.COLLECTIVE))

"""Collectives that a trainer with three lines issues itself, on whichever torch is installed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, Op

torch = pytest.importorskip("torch", reason="the collectives are torch's")
dist: Any = torch.distributed


@pytest.fixture
def watch(tmp_path: Path, rings: Path) -> Iterator[Watch]:
    """A Watch with nothing attached, in a process group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    new_watch = Watch.from_env(job="own")
    new_watch.attach()
    yield new_watch
    assert new_watch.guard.errors == 0
    new_watch.close()
    dist.destroy_process_group()


def calls_in(rings: Path) -> Any:
    """COLLECTIVE rows so far."""
    reader = RingReader(next(iter(find_rings(rings))))
    rows = reader.read().rows.get(Kind.COLLECTIVE, np.zeros(0, [("op", "<u2"), ("count", "<u4")]))
    reader.close()
    return rows


def counted(rows: Any, op: Op) -> int:
    return int(rows["count"][rows["op"] == op].sum())


def test_each_call_counts_once_however_it_is_waited_for(watch: Watch, rings: Path) -> None:
    tensor = torch.ones(8)
    with watch.step():
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        with watch.collective("all_reduce", nbytes=32):
            dist.all_reduce(tensor)
        dist.broadcast(tensor, src=0, group=dist.group.WORLD)
    rows = calls_in(rings)
    assert (counted(rows, Op.ALL_REDUCE), counted(rows, Op.BROADCAST)) == (3, 1)
    assert rows["bytes"][rows["op"] == Op.ALL_REDUCE].sum() == 3 * tensor.nbytes
    assert set(rows["group"].tolist()) == {watch.instruments.groups.number(None)}


def test_groups_of_the_same_ranks_have_numbers_and_names_of_their_own(
    watch: Watch, rings: Path
) -> None:
    twins = [dist.new_group(), dist.new_group(group_desc="metrics")]
    # Named calls, calls in a context and the hooks of torch >= 2.14 share the numbers.
    with watch.step():
        for group in twins:
            dist.all_reduce(torch.ones(8), group=group)
        with watch.collective("broadcast", twins[1], 32):
            dist.broadcast(torch.ones(8), 0, group=twins[1])
        dist.all_reduce(torch.ones(8))
    rows = calls_in(rings)
    reduced = rows[rows["op"] == Op.ALL_REDUCE]
    assert reduced["count"].tolist() == [1, 1, 1] and len(set(reduced["group"].tolist())) == 3
    reader = RingReader(next(iter(find_rings(rings))))
    named = reader.read().rows[Kind.GROUP]
    reader.close()
    names = dict(zip(named["group"].tolist(), named["name"].tolist(), strict=True))
    assert [names[number] for number in reduced["group"].tolist()] == [b"1", b"2 metrics", b""]
    assert names[int(rows["group"][rows["op"] == Op.BROADCAST][0])] == b"2 metrics"


def test_calls_of_other_threads_are_no_collectives_of_the_step(watch: Watch, rings: Path) -> None:
    tensor = torch.ones(8)
    with watch.step():
        other_thread = threading.Thread(target=dist.all_reduce, args=(tensor,))
        other_thread.start()
        other_thread.join()
        dist.all_reduce(tensor)
    assert calls_in(rings)["count"].tolist() == [1]


def test_a_save_records_how_long_it_was_blocked_in_collectives(watch: Watch, rings: Path) -> None:
    with watch.step():
        with watch.checkpoint(1):
            dist.barrier()
        dist.all_reduce(torch.ones(8))
    rows = calls_in(rings)
    assert sorted(rows["op"].tolist()) == sorted([Op.BARRIER, Op.ALL_REDUCE])
    reader = RingReader(next(iter(find_rings(rings))))
    end = reader.read().rows[Kind.CHECKPOINT][-1]
    reader.close()
    # Of the others' calls, no rank waits longer than it is in the save.
    assert 0 < end["blocked_ns"] < end["stall_ns"]


def test_what_torch_raises_reaches_the_trainer_and_the_next_call_counts(
    watch: Watch, rings: Path
) -> None:
    with watch.step():
        with pytest.raises(TypeError):
            dist.all_reduce()
        with pytest.raises(Exception, match="ensor"):
            dist.all_reduce("no tensor")
        dist.all_reduce(torch.ones(8))
    assert counted(calls_in(rings), Op.ALL_REDUCE) >= 1


def test_a_compiled_function_reduces_as_one_that_is_not_watched(watch: Watch) -> None:
    def doubled(tensor: Any) -> Any:
        out = tensor * 2
        dist.all_reduce(out)
        return out + 1

    with watch.step():
        reduced = torch.compile(doubled, backend="eager")(torch.ones(4))
    assert reduced.tolist() == doubled(torch.ones(4)).tolist() == [3.0] * 4


def test_a_watch_that_is_closed_counts_nothing_more(watch: Watch, rings: Path) -> None:
    with watch.step():
        dist.all_reduce(torch.ones(8))
    watch.close()
    dist.all_reduce(torch.ones(8))
    assert counted(calls_in(rings), Op.ALL_REDUCE) == 1

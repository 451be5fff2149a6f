from __future__ import annotations

from pathlib import Path

from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind

from .storage import Storage, connect, read_batch

FAULT = with_fault(FaultKind.SLOW_DATA, 1, effect=1.5).faults[0]


def test_storage_answers_and_only_the_rank_of_the_fault_waits(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "socket", 1e6)
    ranks = [connect(storage.environ["STEPWATCH_TEST_STORAGE"], rank) for rank in range(2)]
    try:
        for rank in ranks:
            read_batch(rank)
        storage.begin(FAULT, [])
        read_batch(ranks[0])
        ranks[1].send(b"b")
        read_batch(ranks[0])
        ranks[1].setblocking(False)
        try:
            answered = ranks[1].recv(1)
        except BlockingIOError:
            answered = b""
        assert answered == b""
    finally:
        for rank in ranks:
            rank.close()
        storage.close()


def test_a_rank_that_ends_is_no_trouble(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "socket", 1.0)
    ended_rank, live_rank = (
        connect(storage.environ["STEPWATCH_TEST_STORAGE"], rank) for rank in range(2)
    )
    ended_rank.send(b"b")
    ended_rank.close()
    read_batch(live_rank)
    live_rank.close()
    storage.close()

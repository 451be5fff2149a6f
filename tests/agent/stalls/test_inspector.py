"""A stalled attempt is asked what it does, and the agent waits for nobody."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.stalls import stack
from stepwatch.agent.stalls.inspector import StallInspector
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import NANOSECONDS, SystemClock
from stepwatch.signals.records import GilState, Kind
from tests.agent.conftest import Rank

from .workers import JUNK, STOPPED, listening, needs_py_spy, running

JOB = AttemptKey("job", 0)


@needs_py_spy
@pytest.mark.parametrize("other", ["none", "process", "user"])
def test_the_stack_of_a_process_that_is_not_the_rings_is_not_reported(
    tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "dump", partial(stack.dump, seconds=60.0))  # the machine may be busy
    if other == "user" and os.geteuid() != 0:
        pytest.skip("giving a ring to another user needs root")
    inspector = StallInspector(Hands(10_000 * NANOSECONDS), stack.find_py_spy())
    with running(tmp_path, STOPPED) as child:
        start = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        start += other == "process"
        ring = Rank(tmp_path / "rings", process=(child.pid, start)).ring
        if other == "user":
            os.chown(ring.path, 65534, 65534)
        ring.words[1024 // 8] = 1  # the live line, long ago
        inspector.inspect(JOB, [RingReader(ring.path)], None)
        inspector.wait(120)
    (row,) = inspector.collect(JOB)[Kind.DIAGNOSIS]
    reported = bytes(row["function"]), bytes(row["stack"]).count(b"train.py") > 0, row["stack_read"]
    assert reported == ((b"wait_here", True, 1) if other == "none" else (b"", False, 0))
    assert (stack.FOREIGN.encode() in bytes(row["note"])) == (other != "none")


def stuck_ring(folder: Path) -> RingReader:
    rank = Rank(folder)
    rank.ring.words[1024 // 8] = 1  # the live line, long ago
    rank.ring.set_heartbeat(1)
    return RingReader(rank.ring.path)


def test_a_stuck_attempt_is_asked_once_in_a_while_and_nobody_waits(tmp_path: Path) -> None:
    hands = Hands(10_000 * NANOSECONDS)
    inspector = StallInspector(hands, None)
    reader = stuck_ring(tmp_path)
    with listening(reader.path.with_name("0.sock"), JUNK["no answer"]):
        inspector.inspect(JOB, [reader], None)
        assert inspector.collect(JOB) == {}, "the answer is still awaited"
        inspector.wait(20)
    tables = inspector.collect(JOB)
    (row,) = tables[Kind.DIAGNOSIS]
    assert (row["worker_answered"], row["stack_read"], row["gil"]) == (0, 0, GilState.UNKNOWN)
    assert b"py-spy is missing" in bytes(row["note"])
    assert (row["enqueued"], row["completed"]) == (-1, -1)
    hands.now += 5 * NANOSECONDS
    inspector.inspect(JOB, [reader], None)
    inspector.wait(20)
    assert inspector.collect(JOB) == {}, "too soon"
    hands.now += 6 * NANOSECONDS
    inspector.inspect(JOB, [reader], None)
    inspector.wait(20)
    assert Kind.DIAGNOSIS in inspector.collect(JOB)


class Hands(SystemClock):
    """A clock that the test turns."""

    def __init__(self, now: int) -> None:
        self.now = now

    def monotonic_ns(self) -> int:
        return self.now

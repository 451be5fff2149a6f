"""A stalled attempt is asked what it does, and the agent waits for nobody."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.stalls import stack
from stepwatch.agent.stalls.inspector import StallInspector, ask_recorders
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import NANOSECONDS, SystemClock
from stepwatch.signals.records import GilState, Kind
from tests.agent.conftest import Rank

from .workers import JUNK, OK, STOPPED, answering, listening, needs_py_spy, running

JOB = AttemptKey("job", 0)


@needs_py_spy
@pytest.mark.parametrize("owner", ["none", "process", "user"])
def test_the_stack_of_a_process_that_is_not_the_rings_is_not_reported(
    tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "dump", partial(stack.dump, seconds=60.0))  # the machine may be busy
    if owner == "user" and os.geteuid() != 0:
        pytest.skip("giving a ring to another user needs root")
    inspector = StallInspector(Hands(10_000 * NANOSECONDS), stack.find_py_spy())
    with running(tmp_path, STOPPED) as child:
        start = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        start += owner == "process"
        ring = Rank(tmp_path / "rings", process=(child.pid, start)).ring
        if owner == "user":
            os.chown(ring.path, 65534, 65534)
        ring.words[1024 // 8] = 1  # the live line, long ago
        inspector.inspect(JOB, [RingReader(ring.path)], None)
        inspector.wait(120)
    (row,) = inspector.collect(JOB)[Kind.DIAGNOSIS]
    reported = bytes(row["function"]), bytes(row["stack"]).count(b"train.py") > 0, row["stack_read"]
    assert reported == ((b"wait_here", True, 1) if owner == "none" else (b"", False, 0))
    assert (stack.FOREIGN.encode() in bytes(row["note"])) == (owner != "none")


UNKNOWN_HANDLER = b"HTTP/1.1 404 no\r\ncontent-length: 0\r\n\r\n"
BROKEN = b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n"
NOTHING_SEEN = OK + b"\r\n" + b'{"pg_config":{},"pg_status":{}}'
ONE_SEEN = OK + b"\r\n" + json.dumps(
    {"entries": [{"collective_seq_id": 3, "process_group": ["0", "default_pg"]}]}
).encode()  # fmt: skip
STATUS = OK + b"\r\n" + json.dumps(
    {"pg_status": {"0": {"last_enqueued_collective": "9", "last_completed_collective": "9"}}}
).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("nccl", "torch_answer", "expected"),
    [
        (STATUS, NOTHING_SEEN, [9]),
        (STATUS, ONE_SEEN, [3, 9]),
        (STATUS, BROKEN, [9]),
        (NOTHING_SEEN, ONE_SEEN, [3]),
        (UNKNOWN_HANDLER, ONE_SEEN, [3]),
        (NOTHING_SEEN, NOTHING_SEEN, []),
        (UNKNOWN_HANDLER, UNKNOWN_HANDLER, None),
        (BROKEN, ONE_SEEN, None),
    ],
    ids=[
        "nccl alone",
        "both",
        "the other is broken",
        "gloo alone",
        "a torch without NCCL",
        "none seen",
        "no recorder",
        "NCCL's is broken",
    ],
)
def test_both_recorders_of_a_rank_are_asked(
    tmp_path: Path, nccl: bytes, torch_answer: bytes, expected: list[int] | None
) -> None:
    answers = {
        "POST /handler/dump_nccl_trace_json?includecollectives=false ": nccl,
        "POST /handler/fr_trace_json ": torch_answer,
    }
    with answering(tmp_path / "0.sock", answers):
        recording, note = ask_recorders(tmp_path / "0.sock")
    numbers = None if recording is None else [entry.collective_seq for entry in recording.entries]
    assert numbers == expected
    assert ("status" in note) == (expected is None)


def test_a_server_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    recording, note = ask_recorders(tmp_path / "missing.sock")
    assert recording is None
    assert note == "its flight recorder did not answer: no such file"


@pytest.mark.parametrize(
    ("junk", "why"),
    [
        ("nothing", "it closed the connection"),
        ("no HTTP", "its answer is not HTTP"),
        ("an error", "status 500"),
        ("another document", "its answer is not a flight recorder's"),
    ],
)
def test_why_a_recorder_does_not_answer_is_said_in_words(
    tmp_path: Path, junk: str, why: str
) -> None:
    with listening(tmp_path / "0.sock", JUNK[junk]):
        assert ask_recorders(tmp_path / "0.sock") == (
            None,
            f"its flight recorder did not answer: {why}",
        )


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

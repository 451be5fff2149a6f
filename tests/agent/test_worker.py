"""What a suspect rank is asked, and that no answer, however bad, hurts or holds up the agent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.probes.worker import WorkerProbe, flight, server, stack
from stepwatch.agent.probes.worker.suspicion import (
    FIRST_STEP_SECONDS,
    LEAST_SECONDS,
    PAUSE_SECONDS,
    STEP_MULTIPLE,
    Glance,
    Pace,
)
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import NANOSECONDS, SystemClock
from stepwatch.signals.records import GilState, Kind, Phase

from .conftest import Rank

OK = b"HTTP/1.1 200 OK\r\n"
JUNK = {
    "silence": lambda out: time.sleep(3),
    "nothing": lambda out: None,
    "no HTTP": lambda out: out.sendall(b"\x00\xff" * 5000),
    "endless headers": lambda out: _endless(out, OK + b"x: y\r\n", b"x: y\r\n"),
    "one endless header": lambda out: _endless(out, OK + b"x: ", b"y" * 65536),
    "gigabytes": lambda out: _endless(
        out, OK + b"content-length: 99999999999\r\n\r\n", b"[" * 65536
    ),
    "gigabytes in pieces": lambda out: _endless(
        out, OK + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + b"[" * 65536 + b"\r\n"
    ),
    "a trickle of headers": lambda out: _endless(out, OK, b"x: y\r\n", pause=0.1),
    "a trickle of body": lambda out: _endless(out, OK + b"\r\n", b"1", pause=0.1),
    "an absurd length": lambda out: out.sendall(OK + b"content-length: -7\r\n\r\n{}"),
    "no number": lambda out: out.sendall(OK + b"content-length: many\r\n\r\n{}"),
    "an error": lambda out: out.sendall(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n"),
    "deep": lambda out: out.sendall(OK + b"\r\n" + b"[" * 200_000),
    "another document": lambda out: out.sendall(OK + b"\r\n[1, 2]"),
    "half a character": lambda out: out.sendall(OK + b"\r\n\"\xc3"),
}  # fmt: skip


def _endless(out: socket.socket, head: bytes, part: bytes, pause: float = 0.0) -> None:
    out.sendall(head)
    while True:
        out.sendall(part)
        time.sleep(pause)


@contextmanager
def listening(path: Path, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    opened = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY)
    opened.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    opened.listen()

    def serve() -> None:
        while True:
            try:
                taken, _ = opened.accept()
            except OSError:
                return
            with taken:
                try:
                    taken.recv(65536)
                    answer(taken)
                except OSError:
                    continue

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        opened.shutdown(socket.SHUT_RDWR)
        opened.close()


@pytest.mark.parametrize("junk", JUNK)
def test_a_bad_answer_is_an_error_in_bounded_time_and_memory(junk: str, tmp_path: Path) -> None:
    path = tmp_path / "0.sock"
    with listening(path, JUNK[junk]), pytest.raises((OSError, ValueError)):
        flight.parse(server.ask(path, "fr_trace_json", seconds=1.0, most=1 << 20))


def test_a_socket_that_nobody_serves_any_more_is_an_error_in_bounded_time(tmp_path: Path) -> None:
    """A forked child keeps the socket of a rank that is gone: it connects and never answers."""
    with socket.socket(socket.AF_UNIX) as kept:
        kept.bind(str(tmp_path / "0.sock"))
        kept.listen(1)
        for _ in range(4):  # the last ones find the queue full
            with pytest.raises((OSError, ValueError)):
                server.ask(tmp_path / "0.sock", "fr_trace_json", seconds=0.1)


def test_only_a_socket_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "1.sock")
    empty = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    with listening(tmp_path / "1.sock", lambda out: out.sendall(empty)):
        assert server.ask(tmp_path / "1.sock", "fr_trace_json") == b""
        for name in ("file", "link"):
            with pytest.raises(OSError, match=f"{name} is not a socket"):
                server.ask(tmp_path / name, "fr_trace_json")
        with pytest.raises(FileNotFoundError):
            server.ask(tmp_path / "missing", "fr_trace_json")


def entry(seq: int, group: str = "0", **changes: object) -> dict[str, object]:
    return {"collective_seq_id": seq, "process_group": [group, "default_pg"], "is_p2p": False,
            "profiling_name": "gloo:all_reduce", "input_sizes": [[10, 2], [3]],
            "state": "scheduled", **changes}  # fmt: skip


def test_a_deep_stack_keeps_whole_frames_and_says_that_it_goes_on() -> None:
    frames = [{"name": f"call_{n}", "short_filename": "loop.py", "line": n} for n in range(60)]
    body = json.dumps([{"thread_name": "MainThread", "frames": frames}]).encode()
    found = stack.parse(body).text.split(" < ")
    assert found[-1] == "..." and len(" < ".join(found)) <= 512
    assert found[:-1] == [f"call_{n} loop.py:{n}" for n in range(len(found) - 1)]
    assert len(found) > 20
    short = json.dumps([{"thread_name": "MainThread", "frames": frames[:2]}]).encode()
    assert stack.parse(short).text == "call_0 loop.py:0 < call_1 loop.py:1"


def test_the_newest_entries_of_each_group_are_kept_in_order() -> None:
    raw = [entry(seq, group) for seq in range(1, 41) for group in ("0", "5")]
    status = {"0": {"last_enqueued_collective": "40", "last_completed_collective": "39"}}
    found = flight.parse(json.dumps({"entries": raw, "pg_status": status}).encode())
    assert (found.enqueued, found.completed) == (40, 39)
    for group in ("0 default_pg", "5 default_pg"):
        numbers = [each.collective_seq for each in found.entries if each.group == group]
        assert numbers == list(range(25, 41))
    assert (found.entries[0].op, found.entries[0].sizes) == ("all_reduce", "10,2;3")


def test_sends_and_what_is_no_entry_are_left_out() -> None:
    raw = [entry(1, is_p2p=True), entry(-1), 7, {}, entry(2, process_group=[]), entry(3)]
    raw[3:3] = [{"entries": [[]]}, None]
    found = flight.parse(json.dumps({"entries": raw, "pg_status": [1]}).encode())
    assert [each.collective_seq for each in found.entries] == [3]
    assert (found.enqueued, found.completed) == (-1, -1)


def test_sibling_groups_of_one_name_are_told_apart_by_their_members() -> None:
    def label(ranks: object, desc: str = "mesh_tp") -> str:
        raw = entry(1, process_group=["3", "mesh_tp"])
        config = {"3": {"name": "3", "desc": desc, "ranks": ranks}}
        return (
            flight.parse(json.dumps({"entries": [raw], "pg_config": config}).encode())
            .entries[0]
            .group
        )

    assert label("[0, 1]") == "3 mesh_tp [0,1]"
    many = [label(str(list(range(first, 64, 2)))) for first in (0, 1)]
    assert many[0] != many[1] and all(each.endswith("]") and len(each) <= 32 for each in many)
    assert label(None) == label([0]) == label("[0, 1]", "mesh_dp") == "3 mesh_tp"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip
_KEYS = ("collective_seq_id", "process_group", "is_p2p", "profiling_name", "input_sizes", "state")


@given(st.lists(st.fixed_dictionaries({}, optional={key: _JSON for key in _KEYS}) | _JSON), _JSON)
def test_any_json_is_read_or_refused(entries: list[object], status: object) -> None:
    document = {"entries": entries, "pg_status": status, "pg_config": status}
    found = flight.parse(json.dumps(document).encode())
    assert len(found.entries) <= len(entries)


@given(_JSON | st.lists(st.fixed_dictionaries({"frames": st.lists(_JSON, max_size=3)})))
def test_any_stack_is_read_or_refused(document: object) -> None:
    found = stack.parse(json.dumps(document).encode())
    assert (found.owner is None) == bool(found.note)


def glance(now: float, moved: float, phase: Phase = Phase.FORWARD) -> Glance:
    return Glance(round(now * NANOSECONDS), phase, round(moved * NANOSECONDS))


@pytest.mark.parametrize(
    ("step_seconds", "phase", "allowed"),
    [
        (0.1, Phase.FORWARD, LEAST_SECONDS),
        (5.0, Phase.FORWARD, 5.0 * STEP_MULTIPLE),
        (0.1, Phase.CHECKPOINT, PAUSE_SECONDS),
        (0.1, Phase.EVAL, PAUSE_SECONDS),
    ],
)
def test_suspicion_follows_the_ranks_own_pace(
    step_seconds: float, phase: Phase, allowed: float
) -> None:
    pace = Pace()
    for _ in range(10):
        pace.took(step_seconds)
    assert not pace.is_still(glance(100 + allowed - 0.1, 100.0, phase))
    assert pace.is_still(glance(100 + allowed + 0.1, 100.0, phase))


def test_the_first_step_may_take_long() -> None:
    pace = Pace()
    assert not pace.is_still(glance(FIRST_STEP_SECONDS - 1, 0.0))
    assert pace.is_still(glance(FIRST_STEP_SECONDS + 1, 0.0))


needs_py_spy = pytest.mark.skipif(
    stack.find_py_spy() is None, reason="py-spy is not installed here: the agent says so too"
)
HELD = """
import ctypes, sys
def load_shard():
    print("in", flush=True)
    ctypes.PyDLL(None).sleep(60)
load_shard()
"""
STOPPED = """
import os, signal
def wait_here():
    print("in", flush=True)
    input()
wait_here()
"""


@contextmanager
def running(folder: Path, text: str) -> Iterator[subprocess.Popen[bytes]]:
    program = folder / "train.py"
    program.write_text(text)
    child = subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@needs_py_spy
def test_the_line_of_a_process_that_holds_its_lock(tmp_path: Path) -> None:
    with running(tmp_path, HELD) as child:
        found = stack.dump(child.pid, stack.find_py_spy())
    assert (found.function, found.line, found.owner) == ("load_shard", "train.py:5", True)
    assert found.text.endswith("<module> train.py:6")


@needs_py_spy
def test_the_line_of_a_stopped_process(tmp_path: Path) -> None:
    with running(tmp_path, STOPPED) as child:
        child.send_signal(signal.SIGSTOP)
        found = stack.dump(child.pid, stack.find_py_spy())
        child.send_signal(signal.SIGCONT)
    assert found.function == "wait_here"
    assert found.line in ("train.py:4", "train.py:5"), "it may not have left the print"


def test_why_there_is_no_stack_is_said_in_words(tmp_path: Path) -> None:
    assert "pip install" in stack.dump(1, None).note
    slow, refuse = tmp_path / "slow", tmp_path / "refuse"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    refuse.write_text("#!/bin/sh\necho 'Permission Denied: Try running again' >&2; exit 1\n")
    for program in (slow, refuse):
        program.chmod(0o700)
    assert "did not answer" in stack.dump(1, str(slow), seconds=0.2).note
    assert stack.dump(1, str(refuse)).note == stack.REFUSED
    assert "cannot run" in stack.dump(1, str(tmp_path / "missing")).note


@needs_py_spy
@pytest.mark.parametrize("other", ["none", "process", "user"])
def test_the_stack_of_a_process_that_is_not_the_rings_is_not_told(
    tmp_path: Path, other: str
) -> None:
    if other == "user" and os.geteuid() != 0:
        pytest.skip("giving a ring to another user needs root")
    probe = WorkerProbe(Hands(10_000 * NANOSECONDS), stack.find_py_spy())
    with running(tmp_path, STOPPED) as child:
        start = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        start += other == "process"
        ring = Rank(tmp_path / "rings", process=(child.pid, start)).ring
        if other == "user":
            os.chown(ring.path, 65534, 65534)
        ring.words[1024 // 8] = 1  # the live line, long ago
        probe.look(("job", 0), [RingReader(ring.path)], None)
        probe.wait(20)
    (row,) = probe.take(("job", 0))[Kind.DIAGNOSIS]
    told = bytes(row["function"]), bytes(row["stack"]).count(b"train.py") > 0, row["stack_read"]
    assert told == ((b"wait_here", True, 1) if other == "none" else (b"", False, 0))
    assert (stack.FOREIGN.encode() in bytes(row["note"])) == (other != "none")


def stuck_ring(folder: Path) -> RingReader:
    rank = Rank(folder)
    rank.ring.words[1024 // 8] = 1  # the live line, long ago
    rank.ring.set_heartbeat(1)
    return RingReader(rank.ring.path)


def test_a_stuck_attempt_is_asked_once_in_a_while_and_nobody_waits(tmp_path: Path) -> None:
    hands = Hands(10_000 * NANOSECONDS)
    probe = WorkerProbe(hands, None)
    reader = stuck_ring(tmp_path)
    with listening(reader.path.with_name("0.sock"), JUNK["silence"]):
        probe.look(("job", 0), [reader], None)
        assert probe.take(("job", 0)) == {}, "the answer is still awaited"
        probe.wait(20)
    tables = probe.take(("job", 0))
    (row,) = tables[Kind.DIAGNOSIS]
    assert (row["worker_answered"], row["stack_read"], row["gil"]) == (0, 0, GilState.UNKNOWN)
    assert b"py-spy is missing" in bytes(row["note"])
    assert (row["enqueued"], row["completed"]) == (-1, -1)
    hands.now += 5 * NANOSECONDS
    probe.look(("job", 0), [reader], None)
    probe.wait(20)
    assert probe.take(("job", 0)) == {}, "too soon"
    hands.now += 6 * NANOSECONDS
    probe.look(("job", 0), [reader], None)
    probe.wait(20)
    assert Kind.DIAGNOSIS in probe.take(("job", 0))


class Hands(SystemClock):
    """A clock that the test turns."""

    def __init__(self, now: int) -> None:
        self.now = now

    def monotonic_ns(self) -> int:
        return self.now

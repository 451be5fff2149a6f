"""Ranks that answer anything, end or stay silent each have an outcome with a reason."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.profiles import Outcome, RankRequest, RankServer, first_step, profile_ranks
from stepwatch.signals.blackbox import Identity
from stepwatch.signals.clock import SystemClock
from tests.agent.stalls.workers import JUNK, OK, listening, serving

TRACE = gzip.compress(b"{}")


def server_at(socket: Path, rank: int = 0, pid: int | None = None) -> RankServer:
    """Return a rank of this process that listens on `socket`."""
    pid = os.getpid() if pid is None else pid
    identity = Identity("job", 0, rank, 2, "node", pid, rank + 1, process_start=_start(pid))
    return RankServer(identity, os.getuid(), socket, 5)


def _start(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except FileNotFoundError:
        return 1


def asked(*ranks: RankServer, seconds: float = 3.0) -> list[Outcome]:
    wait = threading.Event().wait
    request = RankRequest("name", first_step(ranks, 1.0), 2)
    return profile_ranks(
        ranks, request, seconds=seconds, clock=SystemClock(), wait=lambda _: wait(0.05)
    )


def http(body: bytes) -> bytes:
    return OK + f"content-length: {len(body)}\r\n\r\n".encode() + body


class Rank:
    """A rank that accepts a request, and answers the second question about it with its trace."""

    def __init__(self, trace: bytes = TRACE) -> None:
        self.requests: list[str] = []
        self._trace = trace

    def answer(self, request: bytes, out: Any) -> None:
        line = request.split(b"\r\n")[0].decode()
        self.requests.append(line)
        asks = sum("stepwatch_profile_result" in line for line in self.requests)
        body = self._trace if asks > 1 and "_result" in line else b'{"state": "pending"}'
        out.sendall(http(body))


def test_a_trace_is_fetched_and_released(tmp_path: Path) -> None:
    rank = Rank()
    with serving(tmp_path / "0.sock", rank.answer):
        (outcome,) = asked(server_at(tmp_path / "0.sock"))
    assert outcome == Outcome(0, TRACE)
    assert "stepwatch_profile_fetched" in rank.requests[-1]
    # Step 5 is current: two steps later, and two seconds for the requests.
    assert "first=9&steps=2" in rank.requests[0]


def test_a_request_that_comes_too_late_is_a_reason(tmp_path: Path) -> None:
    rank = Rank()
    with serving(tmp_path / "0.sock", rank.answer):
        (outcome,) = profile_ranks(
            [server_at(tmp_path / "0.sock")],
            RankRequest("name", 5, 2),
            seconds=3.0,
            clock=SystemClock(),
            wait=threading.Event().wait,
        )
    assert "after step 5 had begun" in outcome.reason
    assert rank.requests == []


@pytest.mark.parametrize("junk", sorted(JUNK))
def test_junk_is_a_reason(junk: str, tmp_path: Path) -> None:
    with listening(tmp_path / "0.sock", JUNK[junk]):
        (outcome,) = asked(server_at(tmp_path / "0.sock"))
    assert outcome.reason
    assert not outcome.trace


def test_a_rank_without_a_server_is_a_reason(tmp_path: Path) -> None:
    (outcome,) = asked(server_at(tmp_path / "0.sock"))
    assert "did not answer" in outcome.reason


def test_a_rank_with_other_hooks_is_a_reason(tmp_path: Path) -> None:
    missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
    with listening(tmp_path / "0.sock", lambda out: out.sendall(missing)):
        (outcome,) = asked(server_at(tmp_path / "0.sock"))
    assert "update stepwatch" in outcome.reason


def test_a_refusal_gives_its_reason_and_no_other_rank_suffers(tmp_path: Path) -> None:
    refusal = b'{"state": "refused", "reason": "the trainer profiles already"}'
    rank = Rank()
    with (
        listening(tmp_path / "0.sock", lambda out: out.sendall(http(refusal))),
        serving(tmp_path / "1.sock", rank.answer),
    ):
        outcomes = asked(server_at(tmp_path / "0.sock"), server_at(tmp_path / "1.sock", 1))
    assert outcomes == [Outcome(0, reason="the trainer profiles already"), Outcome(1, TRACE)]


def test_a_stalled_rank_is_a_reason_after_the_deadline(tmp_path: Path) -> None:
    pending = http(b'{"state": "pending"}')
    with listening(tmp_path / "0.sock", lambda out: out.sendall(pending)):
        (outcome,) = asked(server_at(tmp_path / "0.sock"), seconds=0.3)
    assert "may be stalled" in outcome.reason


def test_a_rank_that_ended_is_a_reason(tmp_path: Path) -> None:
    class Ending:
        def answer(self, request: bytes, out: Any) -> None:
            if b"_result" not in request:
                out.sendall(http(b'{"state": "pending"}'))

    with serving(tmp_path / "0.sock", Ending().answer):
        (outcome,) = asked(server_at(tmp_path / "0.sock", pid=4_000_000))
    assert outcome.reason == "the rank ended"

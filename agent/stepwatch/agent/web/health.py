"""The agent's progress and readiness: `/healthz` and `/readyz`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from stepwatch.agent.relay.relay import Relay
from stepwatch.agent.spool.claim import try_writing
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals.blackbox import closed_directories
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.presence import CONNECTING

STALLED_SECONDS = 20.0
"""A polling loop without a round for this many seconds is stalled. It polls four times per second,
and only the disk can delay a flush.
"""
ANSWERED_SECONDS = 30.0
"""The collector is asked at least every ten seconds: this is three requests without an answer."""
DISK_SECONDS = 2.0
"""Seconds for the spool's disk to write one byte."""
ASK_DISK_SECONDS = 1.0
"""Minimum seconds between writes: frequent requests without a token must not load the disk."""


class RunningAgent(Protocol):
    """The agent's state for the answers."""

    clock: Clock
    relay: Relay
    polled_ns: int | None

    @property
    def ring_dir(self) -> Path:
        """The ring directory."""
        ...

    @property
    def threads(self) -> Sequence[SupervisedThread]:
        """Threads that must not die."""
        ...


class Check(NamedTuple):
    """One requirement; `holds` is None if unknown.

    `reason` explains a failed or unknown requirement, or an exception for one that holds.
    """

    name: str
    holds: bool | None
    reason: str = ""

    def line(self) -> str:
        """Return the line for `/readyz`."""
        word = {True: "yes", False: "no", None: "unknown"}[self.holds]
        return f"{self.name}: {word}" + (f": {self.reason}" if self.reason else "")


class Health:
    """Answer for a running agent, from the web server's threads."""

    def __init__(self, agent: RunningAgent, spool: Path) -> None:
        self._agent = agent
        self._spool = spool
        self._writing = threading.Lock()
        self._asked_ns = 0
        self._written: Check | None = None

    def why_not_alive(self) -> str:
        """Return in one line why the process should restart; empty if it should not."""
        polled = self._agent.polled_ns
        if polled is None:
            return "the polling loop has not begun"
        age = self._seconds_since(polled)
        if age > STALLED_SECONDS:
            return f"the polling loop has not gone round for {age:.0f} s"
        for thread in self._agent.threads:
            if thread.started and not thread.is_alive():
                return f"the {thread.name} thread ended; the log has the reason"
        return ""

    def checks(self) -> list[Check]:
        """Return the agent's requirements."""
        return [self._rings(), self._disk(), self._collector()]

    def _rings(self) -> Check:
        folder = self._agent.ring_dir
        if self._agent.polled_ns is None:
            return Check("rings", None, f"{folder} was not read yet")
        try:
            with os.scandir(folder) as entries:
                next(entries, None)
            closed = len(closed_directories(folder))
        except OSError as error:
            return Check("rings", False, f"cannot read {folder}: {error.strerror}")
        left_out = f"but not those in {closed} directories of other users" if closed else ""
        return Check("rings", True, left_out)

    def _disk(self) -> Check:
        """Check by writing: only a write reveals a disk that is full, gone or read-only."""
        if not self._writing.acquire(timeout=DISK_SECONDS):
            age = self._seconds_since(self._asked_ns)
            return Check("spool", None, f"its disk has not answered for {age:.0f} s")
        try:
            if self._written is None or self._seconds_since(self._asked_ns) >= ASK_DISK_SECONDS:
                self._asked_ns = self._agent.clock.monotonic_ns()
                self._written = self._write()
            return self._written
        finally:
            self._writing.release()

    def _write(self) -> Check:
        try:
            try_writing(self._spool)
        except OSError as error:
            return Check("spool", False, f"cannot write to {self._spool}: {error.strerror}")
        return Check("spool", True)

    def _collector(self) -> Check:
        answered = self._agent.relay.answered_ns
        if answered is None:
            was_asked = self._agent.relay.link != CONNECTING
            reason = "it has not answered yet" if was_asked else "it was not asked yet"
            return Check("collector", False if was_asked else None, reason + self._why())
        age = self._seconds_since(answered)
        if age > ANSWERED_SECONDS:
            return Check("collector", False, f"it has not answered for {age:.0f} s{self._why()}")
        return Check("collector", True)

    def _why(self) -> str:
        """Return the reason in one word: the log's full text names hosts and files."""
        problem = self._agent.relay.problem
        return "" if problem is None else f" ({problem.reason})"

    def _seconds_since(self, moment_ns: int) -> float:
        return (self._agent.clock.monotonic_ns() - moment_ns) / NANOSECONDS

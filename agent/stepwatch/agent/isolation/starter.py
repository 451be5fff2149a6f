"""The agent's end of the fork server (`fork_server`)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from stepwatch.agent import probes as probe_package
from stepwatch.agent.probes.probe import Probe
from stepwatch.signals.clock import NANOSECONDS, Clock

from .fork_server import MOST_BYTES
from .recipe import recipe_of

logger = logging.getLogger(__name__)

SHARED = "shared"
"""Name of a process with several probes."""
READY_SECONDS = 10.0
"""Seconds that the first reading waits for the interpreter to start, usually 0.3 s."""
_END_SECONDS = 1.0


class Starter:
    """Start processes by number, and record how each one ends.

    Only `prepare`, `await_end` and `close` block. A server that ended restarts with the next
    process.
    """

    def __init__(self, clock: Clock) -> None:
        self.crashes: dict[tuple[str, str], int] = {}
        """How many processes another party's signal has ended, by probe (or `SHARED`) and signal.

        Another thread reads it: replace, never mutate.
        """
        self._clock = clock
        self._control: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._newest = 0
        self._names: dict[int, str] = {}
        """Probe names for processes that have not ended."""
        self._started: set[int] = set()
        self._killed: set[int] = set()
        self._why: dict[int, str] = {}
        """Exit reasons for ended processes that are not forgotten."""

    def prepare(self, probes: Iterable[Probe]) -> None:
        """Start the server unless it runs, and wait until it has loaded these probes.

        Raises:
            OSError: no process can be started now.
        """
        if self._control is not None:
            return
        self._begin()
        assert self._control is not None
        modules = sorted({type(probe).__module__ for probe in probes})
        question = {"load": modules, "folders": list(probe_package.__path__)}
        self._control.send(json.dumps(question).encode())
        if not self._readable(READY_SECONDS):
            logger.warning(
                "probes begin late: their process is not ready after %g s", READY_SECONDS
            )

    def start(self, probes: Sequence[Probe], descriptors: Sequence[int]) -> int:
        """Request a process that serves probes, each on its socket, and return its number.

        Raises:
            OSError: the request cannot be sent now.
            TypeError: a probe cannot be built in another process.
        """
        recipes = [recipe_of(probe) for probe in probes]
        if self._control is None:
            self._begin()
        assert self._control is not None
        self._newest += 1
        question = json.dumps({"start": self._newest, "probes": recipes}).encode()
        socket.send_fds(self._control, [question], [*descriptors])
        self._names[self._newest] = probes[0].name if len(probes) == 1 else SHARED
        return self._newest

    def has_started(self, number: int) -> bool:
        """Return whether a process has started, even if it has ended."""
        return number in self._started or number not in self._names

    def lives(self, number: int) -> bool:
        """Return whether a process has not ended, as of the newest `collect`."""
        return number in self._names

    def why_ended(self, number: int) -> str:
        """Return the reason for a process's end; empty if it ended normally."""
        return self._why.pop(number, "")

    def kill(self, number: int) -> None:
        """Kill a process unless it has ended."""
        if self._control is None or number not in self._names:
            return
        self._killed.add(number)
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"kill": number}).encode())

    def collect(self) -> None:
        """Read the server's pending answers."""
        while self._control is not None:
            try:
                data = self._control.recv(MOST_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._server_ended()
                return
            self._note(json.loads(data))

    def await_end(self, number: int, seconds: float) -> bool:
        """Wait for a process to end, and return whether it has."""
        end = self._clock.monotonic_ns() + round(seconds * NANOSECONDS)
        self.collect()
        while self.lives(number):
            remaining_s = (end - self._clock.monotonic_ns()) / NANOSECONDS
            if remaining_s <= 0 or not self._readable(remaining_s):
                return False
            self.collect()
        return True

    def close(self) -> None:
        """End the server and every process that it started."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._server is not None:
            try:
                self._server.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None

    def _begin(self) -> None:
        ours, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = "from stepwatch.agent.isolation.fork_server import main"
        try:
            with child_end:
                self._server = subprocess.Popen(
                    [sys.executable, "-P", "-c", f"{program}; main({child_end.fileno()})"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    pass_fds=[child_end.fileno()], env=_environment(),
                )  # fmt: skip
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self._control = ours

    def _readable(self, seconds: float) -> bool:
        if self._control is None:
            return False
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return bool(poll.poll(round(seconds * 1000)))

    def _note(self, answer: dict[str, Any]) -> None:
        if "started" in answer:
            self._started.add(answer["started"])
        elif "failed" in answer:
            self._forget(answer["failed"], f"its process cannot be started: {answer['why']}")
        elif "ended" in answer:
            self._ended(answer["ended"], answer["status"])

    def _ended(self, number: int, status: int) -> None:
        name = self._names.get(number, "")
        if not os.WIFSIGNALED(status) or number in self._killed:
            self._forget(number, "")
            return
        ended_by = signal.Signals(os.WTERMSIG(status)).name
        self._forget(number, f"its process ended while it read ({ended_by})")
        self.crashes = {
            **self.crashes, (name, ended_by): self.crashes.get((name, ended_by), 0) + 1
        }  # fmt: skip
        logger.warning("the process of probe %s was ended by %s", name, ended_by)

    def _forget(self, number: int, why: str) -> None:
        self._names.pop(number, None)
        self._started.discard(number)
        self._killed.discard(number)
        if why:
            self._why[number] = why

    def _server_ended(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        code = None if self._server is None else self._server.poll()
        logger.warning("the process that starts those of probes ended (%s)", code)
        self._server = None
        for number in list(self._names):
            self._forget(number, "the process that starts those of probes ended")


def _environment() -> dict[str, str]:
    """Return the agent's environment with its search path; numeric libraries get one thread."""
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

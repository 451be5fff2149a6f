"""The agent's end of a helper: one socket, over which it asks and receives answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from stepwatch.agent import probes as probe_package
from stepwatch.agent.probes.probe import Probe

from .packets import MOST_ANSWER_BYTES, READY, frames
from .recipe import recipe_of

_PROGRAM = "from stepwatch.agent.isolation.helper import main; main({})"
_ENDING_SECONDS = 0.2
"""Time in which a process ends whose socket is closed."""


class HelperProcess:
    """A process that reads `probes`, numbered from 0. No call blocks but `close`.

    Raises:
        OSError: the process cannot be started now.
        TypeError: a probe cannot be built in another process.
    """

    def __init__(self, probes: Sequence[Probe]) -> None:
        recipes = [recipe_of(probe) for probe in probes]
        self.names = [probe.name for probe in probes]
        self.is_ready = False
        self.unbuilt: Mapping[int, str] = {}
        """Why probes cannot be built there, by number."""
        self.killed = False
        self._process, self.control = _start()
        self._wanted: list[int] = []
        self._answers: dict[int, bytes] = {}
        self._said_ranks = ""
        self._send({"folders": list(probe_package.__path__), "probes": recipes})

    @property
    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    @property
    def ended_by(self) -> str:
        """The name of the signal that ended the process; empty if none did."""
        code = self._process.poll() or 0
        return signal.Signals(-code).name if code < 0 else ""

    def want(self, number: int) -> None:
        """Name a probe for the next `ask`."""
        self._wanted.append(number)

    def ask(self, ranks: str) -> None:
        """Ask for all named probes at once; `ranks` is sent if it changed."""
        if not self._wanted:
            return
        question: dict[str, object] = {"read": self._wanted}
        if ranks != self._said_ranks:
            question["ranks"] = self._said_ranks = ranks
        self._wanted = []
        self._send(question)

    def go_on(self) -> None:
        """Read what is left beside a read that hangs."""
        self._send({})

    def take(self, number: int) -> bytes | None:
        """Return a probe's answer, once; None if there is none."""
        return self._answers.pop(number, None)

    def receive(self) -> bool:
        """Read the packets that have come; return whether the process's end is open."""
        while True:
            try:
                packet = self.control.recv(2 * MOST_ANSWER_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                packet = b""
            if not packet:
                return False
            for number, data in frames(packet):
                if number == READY:
                    self.is_ready = True
                    self.unbuilt = {int(key): why for key, why in json.loads(data).items()}
                else:
                    self._answers[number] = data

    def kill(self) -> None:
        """End the process at once, unless the kernel waits for a device."""
        self.killed = True
        self.control.close()
        self._process.kill()

    def close(self, seconds: float = _ENDING_SECONDS) -> None:
        """Close the socket, which ends the process; it is killed after `seconds`."""
        self.control.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_SECONDS)

    def _send(self, question: Mapping[str, object]) -> None:
        with suppress(OSError):  # it has ended: `receive` sees it
            self.control.send(json.dumps(question).encode())


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with child_end:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM.format(child_end.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                pass_fds=[child_end.fileno()], env=_environment(),
            )  # fmt: skip
    except OSError:
        ours.close()
        raise
    ours.setblocking(False)
    return process, ours


def _environment() -> dict[str, str]:
    """Return the agent's environment with its search path; all threads share one heap."""
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "MALLOC_ARENA_MAX": "1"}

"""The process of one or several probes: it reads on request, and ends with the agent.

It is a fresh interpreter that imports its probes and no numpy. One thread reads all probes that a
packet names, in turn; another one waits for the next packet. So a read that hangs holds up its
thread alone: the agent's next packet wakes the other thread, which goes on with what is left. So
does an error that no probe may raise.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, cast

from stepwatch.agent import probes as probe_package
from stepwatch.agent.probes.probe import Probe, RankProcesses, Unknown
from stepwatch.signals.records import Values

from .answer import Answer, encode, read
from .packets import MOST_ANSWER_BYTES, MOST_BYTES, READY, frame
from .recipe import build_probe

KEPT_SECONDS = 0.02
"""Answers wait so long for the next ones: each packet wakes the agent."""
CLOSING_SECONDS = 2
"""Whole seconds in which sources are closed when the agent has ended."""
_UNBUILT = (OSError, ImportError, LookupError, TypeError, ValueError, AttributeError)


class Helper:
    """Serve the agent at the other end of the socket `control` until the agent closes it.

    `os.read` and `os.write` keep the bounds of packets, and need no module `socket`.
    """

    def __init__(self, control: int) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._ranks = RankProcesses()
        self._probes: dict[int, Probe] = {}
        self._waiting = 1  # threads that wait for a packet
        self._left: deque[int] = deque()
        self._busy: set[int] = set()
        self._answers: list[bytes] = []
        self._kept_since_s = 0.0

    def build(self) -> None:
        """Build the probes that the first packet names."""
        question = json.loads(
            os.read(self._control, MOST_BYTES) or b'{"folders": [], "probes": []}'
        )
        probe_package.__path__ = question["folders"]
        reasons: dict[int, str] = {}
        for number, recipe in enumerate(question["probes"]):
            try:
                self._probes[number] = build_probe(recipe, self._ranks)
            except _UNBUILT as error:
                reasons[number] = f"{type(error).__name__}: {error}"
        gc.collect()
        gc.freeze()  # imported modules stay: no later collection visits them
        os.write(self._control, frame(READY, json.dumps(reasons).encode()))

    def serve(self) -> None:
        """Take a packet and read what it names, again and again, in one of several threads."""
        while True:
            packet = os.read(self._control, MOST_BYTES)
            with self._lock:
                if not packet:
                    self._end()
                self._waiting -= 1
                self._ensure_waiting()
                self._take(json.loads(packet))
            self._say()
            while (number := self._next()) is not None:
                self._read(number)
            self._say()
            with self._lock:
                self._waiting += 1

    def _take(self, question: dict[str, Any]) -> None:
        self._left += [number for number in question.get("read", ()) if number in self._probes]
        if question.get("ranks"):
            self._ranks.decode(question["ranks"])

    def _ensure_waiting(self) -> None:
        if not self._waiting:
            with suppress(RuntimeError):  # no resources for a thread: the next packet tries again
                threading.Thread(target=self.serve, daemon=True).start()
                self._waiting += 1

    def _next(self) -> int | None:
        with self._lock:
            if not self._left:
                return None
            self._busy.add(self._left[0])
            return self._left.popleft()

    def _read(self, number: int) -> None:
        """Read a probe; an error that no probe may raise is its answer, and ends this thread."""
        probe, data = self._probes[number], b""
        try:
            data = encode(cast(Answer[list[Values]], read(probe)), probe.kind)
            if len(data) > MOST_ANSWER_BYTES:
                raise ValueError(f"its answer has {len(data)} bytes")
        finally:
            error = sys.exc_info()[1]
            if error is not None:
                detail = f"{type(error).__name__}: {error}"
                data = encode(Answer(unknown=Unknown.FAILED, detail=detail), probe.kind)
            self._keep(number, data)

    def _keep(self, number: int, data: bytes) -> None:
        """Keep an answer for the next packet, which is due if the first one is old."""
        with self._lock:
            self._busy.discard(number)
            if not self._answers:
                self._kept_since_s = time.monotonic()
            self._answers.append(frame(number, data))
        if time.monotonic() - self._kept_since_s > KEPT_SECONDS:
            self._say()

    def _say(self) -> None:
        """Send the answers that wait."""
        with self._lock:
            answers, self._answers = self._answers, []
        packet = b""
        for answer in answers:
            if packet and len(packet) + len(answer) > MOST_ANSWER_BYTES:
                self._send(packet)
                packet = b""
            packet += answer
        if packet:
            self._send(packet)

    def _send(self, packet: bytes) -> None:
        with suppress(ConnectionError):  # the agent has ended: `serve` sees it
            os.write(self._control, packet)

    def _end(self) -> None:
        """Close the sources that no thread reads, and end this process with every thread."""
        signal.alarm(CLOSING_SECONDS)
        try:
            for number, probe in self._probes.items():
                if number not in self._busy:
                    probe.close()
        finally:
            os._exit(0)


def main(handle: int) -> None:
    """Serve the socket `handle`, then end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group
    helper = Helper(handle)
    helper.build()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stderr.fileno())
    os.close(nothing)
    threading.Thread(target=helper.serve, daemon=True).start()
    while True:
        signal.pause()  # a thread ends by an error; this one must not

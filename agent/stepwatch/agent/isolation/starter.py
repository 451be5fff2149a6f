"""Starts helpers and records how each one ends."""

from __future__ import annotations

import logging
import select
from collections.abc import Collection, Sequence

from stepwatch.agent.probes.probe import Probe
from stepwatch.signals.clock import NANOSECONDS, Clock

from .helper_process import HelperProcess

logger = logging.getLogger(__name__)

SHARED = "shared"
"""Name of a process with several probes."""
READY_SECONDS = 10.0
"""Seconds that the first reading waits for the interpreters to start, usually 0.1 s."""


class Starter:
    """Start processes, and record how each one ends.

    Only `await_ready`, `wait`, `end` and `close` block.
    """

    def __init__(self, clock: Clock) -> None:
        self.crashes: dict[tuple[str, str], int] = {}
        """How many processes another party's signal has ended, by probe (or `SHARED`) and signal.

        Another thread reads it: replace, never mutate.
        """
        self._clock = clock
        self._helpers: list[HelperProcess] = []
        self._killed: list[HelperProcess] = []
        self._why: dict[HelperProcess, str] = {}

    def start(self, probes: Sequence[Probe]) -> HelperProcess:
        """Start a process that reads these probes.

        Raises:
            OSError: no process can be started now.
            TypeError: a probe cannot be built in another process.
        """
        helper = HelperProcess(probes)
        self._helpers.append(helper)
        return helper

    def await_ready(self, helpers: Collection[HelperProcess]) -> None:
        """Wait until these processes have imported their probes."""
        end = self._clock.monotonic_ns() + round(READY_SECONDS * NANOSECONDS)
        while True:
            starting = [helper for helper in helpers if helper in self._helpers]
            starting = [helper for helper in starting if not helper.is_ready]
            left_s = (end - self._clock.monotonic_ns()) / NANOSECONDS
            if not starting:
                return
            if not self.wait(starting, left_s):
                logger.warning(
                    "probes begin late: their process is not ready after %g s", READY_SECONDS
                )
                return

    def wait(self, helpers: Collection[HelperProcess], seconds: float) -> bool:
        """Wait for a packet or the end of one of these, and return whether there was one."""
        poll = select.poll()
        for helper in helpers:
            poll.register(helper.control, select.POLLIN)
        came = bool(poll.poll(max(0, round(seconds * 1000))))
        self.collect()
        return came

    def collect(self) -> None:
        """Read what has come from every process, and note those that have ended."""
        self._killed = [helper for helper in self._killed if helper.lives]
        for helper in list(self._helpers):
            if not helper.receive():
                self._note_end(helper)

    def lives(self, helper: HelperProcess) -> bool:
        """Return whether a process can still answer, as of the newest `collect`."""
        return helper in self._helpers

    def why_ended(self, helper: HelperProcess) -> str:
        """Return the reason for a process's end; empty if it ended normally."""
        return self._why.get(helper, "")

    def end(self, helper: HelperProcess, seconds: float) -> None:
        """End a process: it closes its sources, or is killed after `seconds`."""
        if helper in self._helpers:
            self._helpers.remove(helper)
            helper.close(seconds)

    def kill(self, helper: HelperProcess) -> None:
        """Kill a process unless it has ended."""
        if helper in self._helpers:
            self._helpers.remove(helper)
            helper.kill()
            self._killed.append(helper)

    def forget(self, helper: HelperProcess) -> None:
        """Forget the reason for a process's end."""
        self._why.pop(helper, None)

    def close(self) -> None:
        """End every process that was started."""
        for helper in list(self._helpers):
            self.end(helper, 0.0)

    def _note_end(self, helper: HelperProcess) -> None:
        self._helpers.remove(helper)
        helper.close()
        if helper.killed or not helper.ended_by:
            return
        name = helper.names[0] if len(helper.names) == 1 else SHARED
        key = (name, helper.ended_by)
        self._why[helper] = f"its process ended while it read ({helper.ended_by})"
        self.crashes = {**self.crashes, key: self.crashes.get(key, 0) + 1}
        logger.warning("the process of probe %s was ended by %s", *key)

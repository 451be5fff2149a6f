"""Faults that hit processes from outside, at the moments of a scenario."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial

from tests.verdicts.real import environ
from tests.verdicts.scenario.course.interruptions import CYCLE_SECONDS
from tests.verdicts.scenario.plan import Fault, FaultKind, Scenario

FINE_CYCLE_SECONDS = 0.1
"""A process that is stopped for a part of each cycle is slow in all its work."""
AT_ONCE = {
    FaultKind.STOP: signal.SIGSTOP,
    FaultKind.STOP_ALL: signal.SIGSTOP,
    FaultKind.KILL: signal.SIGKILL,
    FaultKind.NODE_LOST: signal.SIGKILL,
    FaultKind.EXIT_EARLY: environ.LEAVE,
    FaultKind.EXCEPTION: environ.FAIL,
    FaultKind.HANG: environ.SLEEP,
    FaultKind.HANG_BUSY: environ.SPIN,
}
"""Signals that are sent once."""
IN_CYCLES = {
    FaultKind.STOPPED_NOW_AND_THEN: CYCLE_SECONDS,
    FaultKind.SLOW_COMPUTE: FINE_CYCLE_SECONDS,
    FaultKind.SLOW_NODE: FINE_CYCLE_SECONDS,
}
"""Cycle lengths in seconds of faults that stop and continue a process."""


def stopped_share(fault: Fault) -> float:
    """Return the share of time in which the fault's processes do not run.

    Worked example: a process that takes 2 times as long runs half of the time.
    """
    if fault.kind is FaultKind.STOPPED_NOW_AND_THEN:
        return fault.effect
    return 1.0 - 1.0 / fault.effect


class Outside:
    """Applies the faults of `scenario` to the processes `pids` (one a rank).

    `kill_agent` ends a node's agent. Faults begin with `begin` if it is given, else with signals.
    """

    def __init__(
        self,
        scenario: Scenario,
        pids: Sequence[int],
        kill_agent: Callable[[int], None],
        send: Callable[[int, int], None] = os.kill,
        begin: Callable[[Fault], None] | None = None,
    ) -> None:
        self._scenario, self._pids = scenario, pids
        self._kill_agent, self._send, self._begin = kill_agent, send, begin
        self._applied: set[object] = set()
        self._stopped: set[int] = set()

    def tick(self, now: float) -> None:
        """Apply the faults that are due `now` seconds after the beginning."""
        telemetry = self._scenario.telemetry
        if now >= telemetry.killed_at:
            self._once("agent", lambda: self._kill_agent(telemetry.killed_node))
        for fault in self._scenario.faults:
            if now >= fault.onset:
                self._due(fault, now)

    def _due(self, fault: Fault, now: float) -> None:
        if self._begin is not None:
            self._once(fault, partial(self._begin, fault))
        elif fault.kind in IN_CYCLES:
            self._cycle(fault, now)
        else:
            if fault.kind is FaultKind.NODE_LOST:
                self._once(("node", fault), partial(self._kill_agent, fault.node))
            self._once(fault, partial(self._signal, fault, AT_ONCE[fault.kind]))

    def _once(self, key: object, do: Callable[[], None]) -> None:
        if key not in self._applied:
            self._applied.add(key)
            do()

    def _cycle(self, fault: Fault, now: float) -> None:
        length = IN_CYCLES[fault.kind]
        stopped_part = stopped_share(fault) * length
        off = fault.lasts(now) and (now - fault.onset) % length < stopped_part
        for rank in fault.ranks:
            if off != (rank in self._stopped):
                self._send(self._pids[rank], signal.SIGSTOP if off else signal.SIGCONT)
                (self._stopped.add if off else self._stopped.discard)(rank)

    def _signal(self, fault: Fault, number: int) -> None:
        for rank in fault.ranks:
            self._send(self._pids[rank], number)

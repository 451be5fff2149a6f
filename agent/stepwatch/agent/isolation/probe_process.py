"""The agent's end of a probe's process: it asks, receives answers and kills a stuck process."""

from __future__ import annotations

import contextlib
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from stepwatch.agent.probes.probe import Probe, RankProcesses, Unknown
from stepwatch.signals.clock import NANOSECONDS, Clock

from .answer import MAX_BYTES, Answer, decode
from .shared_process import SharedProcess
from .starter import Starter

KNOWN_SECONDS = 0.2
"""Seconds after the socket closes within which the exit status is known."""
START_SECONDS = 30.0
"""A process that has not started after this time is given up."""
MOST_STUCK = 3
"""Maximum number of unkillable processes per probe; beyond it no other is started."""
LONGEST_DELAY_SECONDS = 60.0
"""Maximum seconds between two starts after a failure; the first delay is one second."""


class ProbeProcess:
    """A probe in its process: at first the one that it shares, after a failure its own.

    No call blocks, so a source that hangs does not delay the caller. A process that cannot be
    killed, because the kernel waits for a device, is abandoned. Another one starts after a delay
    that doubles, while there are few.
    """

    def __init__(
        self,
        probe: Probe,
        ranks: RankProcesses,
        clock: Clock,
        starter: Starter,
        shared: SharedProcess,
    ) -> None:
        self.probe = probe
        self._shared = shared
        self._is_shared = False
        self.prompt = True
        """Whether the newest answer was on time; a late process is not waited for."""
        self._ranks = ranks
        self._clock = clock
        self._starter = starter
        self._connection: Connection | None = None
        self._number = 0  # process number, as the starter counts
        self._began = False
        self._dying: list[int] = []
        self._asked_ns: int | None = None
        self._answers = 0  # from this process
        self._not_before_ns = 0
        self._delay = 0.0

    @property
    def awaited(self) -> Connection | None:
        """The connection that becomes readable with the answer; None without a pending question."""
        return self._connection if self._asked_ns is not None else None

    def ask(self) -> None:
        """Request a reading, unless one is pending or the back-off delay has not passed.

        Raises:
            OSError: the process cannot be started.
            TypeError: the probe cannot be built in another process.
        """
        now = self._clock.monotonic_ns()
        if self._asked_ns is not None or now < self._not_before_ns:
            return
        if self._connection is None:
            self._dying = [number for number in self._dying if self._starter.lives(number)]
            if len(self._dying) >= MOST_STUCK:
                return
            self._begin()
            if self._connection is None:
                return
        self._asked_ns = now
        with contextlib.suppress(OSError):  # the process has ended: `take` reports it
            self._connection.send_bytes(self._ranks.encode())

    def take(self) -> Answer | None:
        """Return the answer if it has arrived or cannot arrive; None while it is pending."""
        if self._connection is None or self._asked_ns is None:
            return None
        try:
            if not self._connection.poll():
                return self._overdue_answer()
            answer = decode(self._connection.recv_bytes(MAX_BYTES), self.probe.kind)
        except (EOFError, OSError):
            self._starter.await_end(self._number, KNOWN_SECONDS)
            why = (
                self._shared.why_ended()
                if self._is_shared
                else self._starter.why_ended(self._number)
            )
            return self._ended(why or "its process ended while it read")
        except ValueError as error:
            return self._ended(str(error))
        self._asked_ns = None
        if answer.unknown is Unknown.FAILED:
            return self._ended(answer.detail)
        self._answers += 1
        self._delay, self.prompt = 0.0, True
        return answer

    def close(self, seconds: float = 1.0) -> None:
        """End the process: it closes its source, or is killed after `seconds`."""
        if self._connection is None:
            return
        self._connection.close()
        self._connection = None
        if self._asked_ns is None and not self._is_shared:
            self._starter.await_end(self._number, seconds)
        self._shared.is_stuck |= self._is_shared and self._asked_ns is not None
        self._end(0.0)

    def _begin(self) -> None:
        try:
            place = self._shared.hand_out(self.probe)
            self._is_shared = place is not None
            self._number, self._connection = place or self._own_process()
        except (OSError, TypeError):
            self._end(self._back_off())
            raise
        self._answers, self._began = 0, False

    def _own_process(self) -> tuple[int, Connection]:
        connection, child_end = Pipe()
        with child_end:
            try:
                return self._starter.start([self.probe], [child_end.fileno()]), connection
            except (OSError, TypeError):
                connection.close()
                raise

    def _overdue_answer(self) -> Answer | None:
        """Handle an answer that has not arrived."""
        assert self._asked_ns is not None
        if not self._began:
            return self._beginning(self._asked_ns)
        allowed = self.probe.deadline_seconds if self._answers else self.probe.first_seconds
        waited = (self._clock.monotonic_ns() - self._asked_ns) / NANOSECONDS
        self.prompt = False
        if waited <= allowed:
            return None
        self._shared.is_stuck |= self._is_shared
        self._end(self._back_off())
        return Answer(
            unknown=Unknown.LATE,
            detail=f"its read did not come back within {allowed:g} s; it is tried again in "
            f"{self._delay:.0f} s",
        )

    def _beginning(self, asked_ns: int) -> Answer | None:
        """Handle a process that may not have started: its read has not begun."""
        now = self._clock.monotonic_ns()
        if self._starter.has_started(self._number):
            self._began, self._asked_ns = True, now
        elif now - asked_ns > START_SECONDS * NANOSECONDS:
            return self._ended(f"its process was not there after {START_SECONDS:g} s")
        return None

    def _ended(self, why: str) -> Answer:
        self._end(self._back_off())
        return Answer(unknown=Unknown.FAILED, detail=why)

    def _back_off(self) -> float:
        self._delay = min(max(1.0, 2 * self._delay), LONGEST_DELAY_SECONDS)
        return self._delay

    def _end(self, delay: float) -> None:
        """Kill the process if there is one, and start no other within `delay` seconds.

        A shared process goes on: only the connection ends.
        """
        if self._connection is not None:
            self._connection.close()
        if self._number and not self._is_shared:
            self._starter.kill(self._number)
            self._dying.append(self._number)
        self._connection, self._number, self._asked_ns = None, 0, None
        self._is_shared = False
        self._not_before_ns = self._clock.monotonic_ns() + round(delay * NANOSECONDS)

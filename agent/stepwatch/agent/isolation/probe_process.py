"""One probe's place in a process: it asks, receives answers and kills a stuck process."""

from __future__ import annotations

from stepwatch.agent.probes.probe import Probe, Unknown
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.wire import Rows

from .answer import Answer
from .decoding import decode
from .helper_process import HelperProcess
from .shared_process import SharedProcess
from .starter import Starter

EARLY_SECONDS = 0.25
"""A flush may be one poll early; a probe that is due with it is read."""
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

    def __init__(self, probe: Probe, clock: Clock, starter: Starter, shared: SharedProcess) -> None:
        self.probe = probe
        self.prompt = True
        """Whether the newest answer was on time; a late process is not waited for."""
        self.process: HelperProcess | None = None
        self._shared = shared
        self._clock = clock
        self._starter = starter
        self._number = 0  # of the probe in the process
        self._began = False
        self._dying: list[HelperProcess] = []
        self._asked_ns: int | None = None
        self._answers = 0  # from this process
        self._not_before_ns = 0
        self._delay = 0.0

    @property
    def awaited(self) -> HelperProcess | None:
        """The process that answers; None without a pending question."""
        return self.process if self._asked_ns is not None else None

    def want(self) -> HelperProcess | None:
        """Name the probe in its process's next question; return the process, if there is one.

        Nothing is asked while an answer is pending or the back-off delay has not passed.

        Raises:
            OSError: the process cannot be started.
            TypeError: the probe cannot be built in another process.
        """
        now = self._clock.monotonic_ns()
        if self._asked_ns is not None or now < self._not_before_ns:
            return None
        self._not_before_ns = now + round((self.probe.every_seconds - EARLY_SECONDS) * NANOSECONDS)
        if self.process is None:
            self._dying = [process for process in self._dying if process.lives]
            if len(self._dying) >= MOST_STUCK:
                return None
            self._begin()
        assert self.process is not None
        self._asked_ns = now
        self.process.want(self._number)
        return self.process

    def take(self) -> Answer[Rows] | None:
        """Return the answer if it has arrived or cannot arrive; None while it is pending."""
        process = self.process
        if process is None or self._asked_ns is None:
            return None
        data = process.take(self._number)
        if data is None:
            return self._missing_answer(process)
        try:
            answer = decode(data, self.probe.kind)
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
        if self.process is None:
            return
        if self._is_shared:
            self._shared.is_stuck |= self._asked_ns is not None
        else:
            self._starter.end(self.process, 0.0 if self._asked_ns is not None else seconds)
        self.process = None

    @property
    def _is_shared(self) -> bool:
        return self.process is not None and self.process is self._shared.process

    def _begin(self) -> None:
        try:
            place = self._shared.hand_out(self.probe)
            self.process, self._number = place or (self._starter.start([self.probe]), 0)
        except (OSError, TypeError):
            self._end(self._back_off())
            raise
        self._answers, self._began = 0, False

    def _missing_answer(self, process: HelperProcess) -> Answer[Rows] | None:
        """Handle an answer that has not arrived."""
        assert self._asked_ns is not None
        if self._number in process.unbuilt:
            return self._ended(f"its process cannot be started: {process.unbuilt[self._number]}")
        if not self._starter.lives(process):
            return self._ended(
                self._starter.why_ended(process) or "its process ended while it read"
            )
        if not self._began:
            return self._beginning(process, self._asked_ns)
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

    def _beginning(self, process: HelperProcess, asked_ns: int) -> Answer[Rows] | None:
        """Handle a process that may not have started: its read has not begun."""
        now = self._clock.monotonic_ns()
        if process.is_ready:
            self._began, self._asked_ns = True, now
        elif now - asked_ns > START_SECONDS * NANOSECONDS:
            return self._ended(f"its process was not there after {START_SECONDS:g} s")
        return None

    def _ended(self, why: str) -> Answer[Rows]:
        self._end(self._back_off())
        return Answer(unknown=Unknown.FAILED, detail=why)

    def _back_off(self) -> float:
        self._delay = min(max(1.0, 2 * self._delay), LONGEST_DELAY_SECONDS)
        return self._delay

    def _end(self, delay: float) -> None:
        """Kill the process if there is one, and start no other within `delay` seconds.

        A shared process goes on.
        """
        if self.process is not None and not self._is_shared:
            self._starter.kill(self.process)
            self._starter.forget(self.process)
            self._dying.append(self.process)
        self.process, self._asked_ns = None, None
        self._not_before_ns = self._clock.monotonic_ns() + round(delay * NANOSECONDS)

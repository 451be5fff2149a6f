"""All attempts of one job, built from segments in the order they were stored."""

from __future__ import annotations

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.wire import Segment

MAX_ATTEMPTS = 1000
MAX_JOB_CELLS = 1 << 24
"""Window cells of one job; beyond it its oldest attempts keep their step history only."""


class LiveJob:
    """All attempts of one job."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attempts: dict[int, Attempt] = {}
        self.totals = Totals()

    def apply(self, segment: Segment, received: Received) -> None:
        """Apply one segment that was not seen before."""
        number = segment.key.attempt
        attempt = self.attempts.get(number)
        if attempt is None:
            for each in self.attempts.values():
                each.give_up()
            attempt = self.attempts[number] = Attempt(number, totals=self.totals)
            while len(self.attempts) > MAX_ATTEMPTS:
                del self.attempts[min(self.attempts)]
        elif attempt.begins_again(segment):
            attempt = self.attempts[number] = attempt.anew()
        attempt.apply(segment, received)
        if self.cells > MAX_JOB_CELLS:
            self._release_oldest()

    def _release_oldest(self) -> None:
        for number in sorted(self.attempts)[:-1]:
            self.attempts[number].release()
            if self.cells <= MAX_JOB_CELLS:
                return

    @property
    def cells(self) -> int:
        """Window cells and collective rows held."""
        return sum(each.cells for each in self.attempts.values())

    @property
    def received_s(self) -> float:
        """When any of its attempts was received last, Unix seconds."""
        return max(attempt.received_s for attempt in self.attempts.values())

    @property
    def newest_s(self) -> float:
        """Wall time of the newest step of any attempt, Unix seconds; 0 before the first."""
        return max(attempt.newest_s for attempt in self.attempts.values())

    @property
    def current(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[max(self.attempts)]

    @property
    def before(self) -> Attempt | None:
        """What ran before the newest attempt while that one makes no progress, else None.

        A run of the same number counts only until that one fails, too.
        """
        newest = self.current
        if len(newest.step_history):
            return None
        if newest.earlier is not None:
            return None if newest.failed else newest.earlier
        numbers = sorted(self.attempts)[-2:-1]
        return self.attempts[numbers[0]] if numbers else None

    def ordered(self) -> list[tuple[Attempt, int | None]]:
        """Attempts in order, each with the step a later one resumed at (None: nothing lost)."""
        result: list[tuple[Attempt, int | None]] = []
        earliest: int | None = None
        for number in sorted(self.attempts, reverse=True):
            attempt = self.attempts[number]
            result.append((attempt, earliest))
            known = [step for step in (_restart_step(attempt), earliest) if step is not None]
            earliest = min(known, default=None)
        return result[::-1]


def _restart_step(attempt: Attempt) -> int | None:
    if attempt.resumed_from is not None:
        return attempt.resumed_from
    return attempt.step_history.first if len(attempt.step_history) else None

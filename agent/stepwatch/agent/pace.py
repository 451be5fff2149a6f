"""The flush interval: as configured, or longer while the collector requests it."""

from __future__ import annotations

from collections.abc import Callable

from stepwatch.signals.pacing import MOST_ASKED_SECONDS

MOST_GROWTH = 2.0
"""Maximum growth from one interval to the next. A node is stale after three intervals, as its
newest segment reports them, so the first longer interval must not look like a lost node."""


class FlushPace:
    """The current interval: `polls` ring polls that are `poll_seconds` apart.

    If the collector requests 4 s from an agent that flushes every second, the agent waits 1 s, 2 s,
    4 s, 4 s, ... Without a request it waits 1 s again at once.
    """

    def __init__(self, polls: int, poll_seconds: float) -> None:
        self._poll_seconds = poll_seconds
        self._own_polls = self.polls = polls
        self.is_early = False
        """Whether an alarm brought the newest flush forward."""

    @property
    def seconds(self) -> float:
        """Seconds between two flushes."""
        return self.polls * self._poll_seconds

    def is_due(self, polls: int, is_alarmed: Callable[[], bool]) -> bool:
        """Return whether a flush is due, `polls` polls after the one before.

        An alarm brings it forward, to the configured interval. The flush after an early one waits
        for its time: agents with lasting alarms send at most twice as many segments.
        """
        if polls >= self.polls:
            self.is_early = False
            return True
        if self.is_early or polls < self._own_polls:
            return False
        self.is_early = is_alarmed()
        return self.is_early

    def follow(self, asked_seconds: float) -> None:
        """Choose the next interval; `asked_seconds` is the collector's request, 0 for none.

        It is never shorter than configured, and a request never exceeds `MOST_ASKED_SECONDS`.
        """
        wanted = min(asked_seconds, MOST_ASKED_SECONDS) / self._poll_seconds
        grown = int(self.polls * MOST_GROWTH)
        self.polls = max(self._own_polls, min(round(wanted), grown))

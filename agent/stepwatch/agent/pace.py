"""How often an agent flushes: as configured, or less often while the collector asks for it."""

from __future__ import annotations

from stepwatch.agent.options import AgentOptions
from stepwatch.signals.pacing import MOST_ASKED_SECONDS

MOST_GROWTH = 2.0
"""From one interval to the next. A node is stale after three intervals as its newest segment
reports them, so the first longer one must not look like a node that is lost."""


class FlushPace:
    """The interval in force; `polls` polls of the rings make one.

    4 s are asked of an agent that flushes every second: it waits 1 s, 2 s, 4 s, 4 s, ..., and 1 s
    again at once when nothing is asked any more.
    """

    def __init__(self, options: AgentOptions) -> None:
        self._poll_seconds = options.poll_seconds
        self._own_polls = options.polls_per_flush
        self.polls = options.polls_per_flush

    @property
    def seconds(self) -> float:
        """From one flush to the next."""
        return self.polls * self._poll_seconds

    def follow(self, asked_seconds: float) -> None:
        """Choose the next interval; `asked_seconds` is what the collector asks, 0 nothing.

        Never shorter than configured, and never longer than `MOST_ASKED_SECONDS` for a collector.
        """
        wanted = min(asked_seconds, MOST_ASKED_SECONDS) / self._poll_seconds
        grown = int(self.polls * MOST_GROWTH)
        self.polls = max(self._own_polls, min(round(wanted), grown))

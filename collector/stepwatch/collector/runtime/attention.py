"""Jobs whose agents reported a late step, a start or an end: for a while they come first.

Their agents may flush at their own interval again, while all others are asked for a longer one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment

ATTENTION_SECONDS = 30.0
"""A verdict on a slow rank takes about five steps after the first late one."""
REST_SECONDS = 120.0
"""After its time an agent is asked as all others for this long: the steps of some jobs vary."""
MOST_AGENTS = 32
"""Agents that flush each second at the same time: they take a quarter of a processor."""


class AgentOfJob(NamedTuple):
    """An agent's segments of one job."""

    job: str
    node: str


def is_early(segment: Segment) -> bool:
    """Return whether an alarm of the agent brought the segment's flush forward."""
    rows = segment.tables.get(Kind.AGENT)
    return rows is not None and bool((rows["early"] == 1).any())


class Attention:
    """The agents with an alarm in the last `ATTENTION_SECONDS`; `clock` returns monotonic seconds.

    Methods may be called from any thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s: dict[AgentOfJob, float] = {}
        """When attention to each agent began, until it may begin again."""
        self._lock = threading.Lock()

    def note(self, segments: Iterable[Segment]) -> None:
        """Begin attention to agents with an alarm, while there is room."""
        early = [AgentOfJob(s.key.job, s.key.node) for s in segments if is_early(s)]
        if not early:
            return
        with self._lock:
            now = self._clock()
            self._began_s = {
                agent: began
                for agent, began in self._began_s.items()
                if now - began < ATTENTION_SECONDS + REST_SECONDS
            }
            for agent in early:
                if len(self._agents(now)) < MOST_AGENTS:
                    self._began_s.setdefault(agent, now)

    def covers(self, agents: Iterable[AgentOfJob]) -> bool:
        """Return whether any of these agents has attention now."""
        now = self._clock()
        return any(self._is_current(agent, now) for agent in agents)

    def jobs(self) -> frozenset[str]:
        """Return the jobs with attention now."""
        with self._lock:
            return frozenset(agent.job for agent in self._agents(self._clock()))

    def _agents(self, now_s: float) -> list[AgentOfJob]:
        return [agent for agent in self._began_s if self._is_current(agent, now_s)]

    def _is_current(self, agent: AgentOfJob, now_s: float) -> bool:
        began = self._began_s.get(agent)
        return began is not None and now_s - began < ATTENTION_SECONDS

"""Beginnings of a class's jobs, as the reference for a job with the same shape."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.beginnings import Beginning, beginning_of
from stepwatch.collector.analysis.first_steps import SAME_TOKENS, FirstSteps, first_steps
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.collector.statistics.medians import median

MOST_ALIKE, MOST_LOOKED_AT = 16, 64


class Shape(NamedTuple):
    """Properties that comparable jobs share, besides a similar number of tokens per step."""

    job_class: str
    world: int
    stages: int


class Peer(NamedTuple):
    """A job's beginning.

    `tokens` is the median per step, 0 if partly unknown; `speed` is the median in tokens per
    second; `beginning` holds the first steps, None if unknown.
    """

    tokens: float
    speed: float
    beginning: Beginning | None


class ClassThroughput:
    """Beginnings of the jobs by shape: their tokens per second, and their ranks' waits."""

    def __init__(self) -> None:
        self._shape: dict[str, Shape] = {}
        self._peers: dict[Shape, dict[str, Peer]] = {}
        self._changed: dict[Shape, int] = {}
        self._changes = 0
        self._one_node: dict[str, dict[str, float]] = {}
        """Tokens per second and device for single-node jobs, by class and job."""

    def keep(self, job: LiveJob, first: FirstSteps | None = None) -> None:
        """Add or update a job; nothing happens while its class, tokens or first steps are unknown.

        `first` is the result of `first_steps`, if the caller has it already.
        """
        attempt, first = job.current, first or first_steps(job)
        baseline = first.baseline(first.clock)
        speed = baseline.tokens_per_second()
        if not attempt.job_class or not speed > 0:
            return
        stages = int(attempt.stages.max(initial=-1)) + 1
        shape = Shape(attempt.job_class, attempt.world, stages)
        began = beginning_of(first.attempt, first.clock)
        peer = Peer(median(baseline.tokens), speed, began)
        if self._peers.get(shape, {}).get(job.name) != peer:
            self.forget(job.name)
            self._shape[job.name] = shape
            self._peers.setdefault(shape, {})[job.name] = peer
            self._note(shape)
        per_device = self._one_node.setdefault(attempt.job_class, {})
        per_device.pop(job.name, None)
        if len(set(attempt.ranks.node_of.values())) == 1 and attempt.world:
            per_device[job.name] = speed / attempt.world

    def forget(self, job: str) -> None:
        """Drop a job."""
        shape = self._shape.pop(job, None)
        if shape is not None:
            self._one_node.get(shape.job_class, {}).pop(job, None)
            self._note(shape)
            del self._peers[shape][job]
            if not self._peers[shape]:
                del self._peers[shape], self._changed[shape]

    def one_node_speed(self, job: str, job_class: str) -> float:
        """Return the median tokens per second and device in the class's other single-node jobs.

        NaN without any.
        """
        speeds_by_job = self._one_node.get(job_class, {})
        speeds = [speed for peer_job, speed in speeds_by_job.items() if peer_job != job]
        return median(np.array(speeds))

    def changed(self, job: str) -> tuple[Shape, int] | None:
        """Return a key that stays the same while the other jobs with this shape do."""
        shape = self._shape.get(job)
        return None if shape is None else (shape, self._changed[shape])

    def _note(self, shape: Shape) -> None:
        self._changes += 1
        self._changed[shape] = self._changes

    def peers(self, job: str) -> list[Peer]:
        """Return the other jobs with this shape and a similar number of tokens per step."""
        shape = self._shape.get(job)
        if shape is None:
            return []
        peers_by_job = self._peers[shape]
        tokens = peers_by_job[job].tokens
        return [
            peer
            for peer_job, peer in peers_by_job.items()
            if peer_job != job and abs(peer.tokens - tokens) < SAME_TOKENS * tokens
        ]

    def alike(self, job: str, reference: Beginning) -> list[UsualWaits]:
        """Return the usual waits of the newest peers whose beginning is like `reference`.

        At most `MOST_ALIKE` are returned: more of them add no information.
        """
        newest = self.peers(job)[: -MOST_LOOKED_AT - 1 : -1]
        begun = (peer.beginning for peer in newest)
        alike = (
            beginning.waits
            for beginning in begun
            if beginning is not None and beginning.is_like(reference)
        )
        return list(itertools.islice(alike, MOST_ALIKE))

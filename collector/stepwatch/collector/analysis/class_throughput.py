"""How jobs of one class begin: what a job of the same shape is compared with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.first_steps import SAME_TOKENS, FirstSteps, first_steps
from stepwatch.collector.analysis.medians import median
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.early_baseline import UsualWaits


class Shape(NamedTuple):
    """What jobs must share to be compared with each other, beside about as many tokens per step."""

    job_class: str
    world: int
    stages: int


class Begun(NamedTuple):
    """The first steps of a job: median tokens of one, median tokens per second, and what ranks
    waited in them, None where that is not known."""

    tokens: float
    speed: float
    waits: UsualWaits | None


class ClassThroughput:
    """Tokens per second in their first steps, and what ranks waited in them, of the jobs of each
    shape."""

    def __init__(self) -> None:
        self._shape: dict[str, Shape] = {}
        self._begun: dict[Shape, dict[str, Begun]] = {}
        self._one_node: dict[str, dict[str, float]] = {}
        """Tokens per second and device of jobs on one node, by class and job."""

    def keep(self, job: LiveJob, first: FirstSteps | None = None) -> None:
        """Take up a job; nothing happens while its class, tokens or first steps are not known.

        `first` are those of `first_steps`, where somebody has looked already.
        """
        attempt, first = job.current, first or first_steps(job)
        baseline = first.baseline(first.clock)
        speed = baseline.tokens_per_second()
        if not attempt.job_class or not speed > 0:
            return
        self.forget(job.name)
        stages = int(attempt.stages.max(initial=-1)) + 1
        shape = Shape(attempt.job_class, attempt.world, stages)
        self._shape[job.name] = shape
        begun = Begun(median(baseline.tokens), speed, first.usual_waits(first.clock))
        self._begun.setdefault(shape, {})[job.name] = begun
        if len(set(attempt.ranks.node_of.values())) == 1 and attempt.world:
            per_device = self._one_node.setdefault(attempt.job_class, {})
            per_device[job.name] = speed / attempt.world

    def forget(self, job: str) -> None:
        """Drop a job."""
        shape = self._shape.pop(job, None)
        if shape is not None:
            self._one_node.get(shape.job_class, {}).pop(job, None)
            del self._begun[shape][job]
            if not self._begun[shape]:
                del self._begun[shape]

    def one_node_speed(self, job: str, job_class: str) -> float:
        """Median tokens per second and device of the other jobs of a class that run on one node,
        NaN where there is none."""
        known = self._one_node.get(job_class, {})
        speeds = [speed for other, speed in known.items() if other != job]
        return median(np.array(speeds))

    def peers(self, job: str) -> list[Begun]:
        """How the other jobs of its shape began whose steps hold about as many tokens."""
        shape = self._shape.get(job)
        if shape is None:
            return []
        known = self._begun[shape]
        tokens = known[job].tokens
        return [
            begun
            for other, begun in known.items()
            if other != job and abs(begun.tokens / tokens - 1) < SAME_TOKENS
        ]

"""What all detectors of one evaluation look at."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from stepwatch.collector.analysis.class_throughput import ClassThroughput
from stepwatch.collector.analysis.first_steps import FirstSteps, first_steps
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_clock import (
    baseline_on,
    early_baseline_on,
    ranks_compare,
)
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE
from stepwatch.collector.state.trackers.steps.baseline import Baseline
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.state.trackers.steps.step_window import Window
from stepwatch.signals.arrays import Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.names import FindingKind

T = TypeVar("T")

STALE_AFTER_SECONDS = 3.0
"""The least time without a report from a node after which its ranks are not observed: what is found
in them stays as it is. An agent that flushes rarely has longer."""
HISTORY_STEPS = 128
"""Steps handed to detectors: they evaluate the newest and look back for the first."""


class DetectionContext:
    """A job at one moment; `now_s` is the collector's monotonic time in seconds, `wall_s` Unix.

    `attempt` is the newest one unless another is given. `staleness` maps each node that should send
    to the seconds since it was last seen, `class_throughput` holds how fast the known jobs began.
    """

    def __init__(
        self,
        job: LiveJob,
        now_s: float,
        class_throughput: ClassThroughput | None = None,
        *,
        wall_s: float = math.nan,
        attempt: Attempt | None = None,
    ) -> None:
        self.job = job
        self.class_throughput = class_throughput or ClassThroughput()
        self.now_s = now_s
        self.wall_s = wall_s
        self.attempt: Attempt = job.current if attempt is None else attempt
        self.failures: list[tuple[frozenset[FindingKind], BaseException]] = []
        """What detectors raised, with the kinds of findings that were not looked for."""
        self._found: dict[Callable[[DetectionContext], Any], Any] = {}
        self.staleness = self.attempt.staleness(now_s)

    @cached_property
    def window(self) -> Window:
        """The newest `HISTORY_STEPS` steps of the attempt, on the clock that times them."""
        return self.attempt.window(HISTORY_STEPS)

    @cached_property
    def stale_nodes(self) -> frozenset[str]:
        """Nodes that should report and missed several flushes of their agents."""
        return frozenset(
            node
            for node, seconds in self.staleness.items()
            if seconds
            > STALE_AFTER_SECONDS  # most nodes never are, whatever the interval of theirs
            and seconds > self.attempt.stale_after(node, STALE_AFTER_SECONDS)
        )

    @cached_property
    def unobserved(self) -> frozenset[int]:
        """Ranks that should report and of which nothing is known just now.

        What has ended or is gone is known for good.
        """
        if not self.stale_nodes:
            return frozenset()
        ranks, over = self.attempt.ranks, self.attempt.ended.keys() | self.attempt.ranks.gone
        ranks_unseen = {rank for rank, node in ranks.node_of.items() if node in self.stale_nodes}
        if UNKNOWN_NODE in self.stale_nodes:
            ranks_unseen.update(np.flatnonzero(~ranks.reported).tolist())
        return frozenset(ranks_unseen - over)

    @cached_property
    def left_out(self) -> frozenset[int]:
        """Ranks whose newest steps are missing: that are not observed, or that are done."""
        return self.unobserved.union(self.attempt.done)

    @cached_property
    def with_observed_peers(self) -> frozenset[int]:
        """Ranks whose steps are observed, and of whose stage those of another one are."""
        stage = self.window.stage
        observed = ~np.isin(np.arange(len(stage)), list(self.left_out))
        stages, counts = np.unique(stage[observed], return_counts=True)
        return frozenset(np.flatnonzero(observed & np.isin(stage, stages[counts > 1])).tolist())

    @property
    def observes_any(self) -> bool:
        """Whether any node that should report does, or none has to."""
        return not self.staleness or len(self.stale_nodes) < len(self.staleness)

    @property
    def baseline(self) -> Baseline:
        """Medians of the attempt's first steps by rank, on the clock of `window`."""
        return baseline_on(self.attempt, self.window.clock)

    @cached_property
    def first_steps(self) -> FirstSteps:
        """The first steps of the attempt that the job is compared with."""
        return first_steps(self.job)

    @cached_property
    def early_baseline(self) -> dict[str, Vector]:
        """Mean over ranks of each column in the first steps of the oldest attempt of this size.

        On the clock of `window`. Empty while no attempt has enough of them.
        """
        for attempt, _ in self.job.ordered():
            if attempt.world == self.attempt.world:
                baseline = early_baseline_on(attempt, self.window.clock)
                seconds = baseline.seconds(attempt.world)
                if seconds:
                    return seconds
        return {}

    @cached_property
    def course(self) -> Course | None:
        """The newest ten minutes of the attempt by stretches; None where they are on another clock
        than `window`."""
        evidence = self.attempt.tracker(RankEvidence)
        return evidence.buckets.course() if evidence.clock == self.window.clock else None

    @property
    def compares_ranks(self) -> bool:
        """Whether times of one rank can be compared with those of another in `window`."""
        return ranks_compare(self.attempt, self.window.clock)

    def once(self, find: Callable[[DetectionContext], T]) -> T:
        """What `find` finds here; it is asked the first time only."""
        if find not in self._found:
            self._found[find] = find(self)
        result: T = self._found[find]
        return result

    def dated(self, finding: Finding) -> Finding:
        """`finding` with its age: it began when the step before its first one ended."""
        step_history = self.attempt.step_history
        index = finding.began_step - step_history.held_from - 1
        if not 0 <= index < len(step_history.rows):
            return finding
        end = int(step_history.rows["end_wall_ns"][index]) / NANOSECONDS
        return finding._replace(began_ago_seconds=self.attempt.newest_s - end)

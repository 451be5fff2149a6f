"""The shared input for all detectors in one evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from stepwatch.collector.analysis.class_throughput import ClassThroughput
from stepwatch.collector.analysis.first_steps import FirstSteps, first_steps
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_clock import (
    baseline_on,
    early_baseline_on,
    ranks_compare,
)
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE, Agents
from stepwatch.collector.state.trackers.steps.baseline import Baseline
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.signals.arrays import Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.names import FindingKind

T = TypeVar("T")

STALE_AFTER_SECONDS = 3.0
"""Minimum time without a report from a node before its ranks count as unobserved.

Findings on these ranks stay unchanged. A node whose agent flushes rarely gets more time. A rank's
heartbeat is stale after the same time.
"""
HISTORY_STEPS = 128
"""Steps passed to detectors: they evaluate the newest and search back for the first slow one."""


class DetectionContext:
    """A job at one moment; `now_s` is the collector's monotonic time and `wall_s` Unix time.

    Both are in seconds. `attempt` is the newest attempt unless another is passed. `staleness` maps
    each node that should report to the seconds since it was last seen. `class_throughput` holds the
    initial throughput for known jobs. `thresholds` maps types to the values for the job's class.
    """

    def __init__(
        self,
        job: LiveJob,
        now_s: float,
        class_throughput: ClassThroughput | None = None,
        *,
        wall_s: float = math.nan,
        attempt: Attempt | None = None,
        thresholds: Mapping[type, Any] | None = None,
    ) -> None:
        self.job = job
        self.class_throughput = class_throughput or ClassThroughput()
        self.now_s = now_s
        self.wall_s = wall_s
        self.attempt: Attempt = job.current if attempt is None else attempt
        self.failures: list[tuple[frozenset[FindingKind], BaseException]] = []
        """Detectors' exceptions, with the kinds of findings that could not be evaluated."""
        self._found: dict[Callable[[DetectionContext], Any], Any] = {}
        self.staleness = self.attempt.staleness(now_s)
        self.class_thresholds = thresholds or {}
        """Thresholds that the site file changes for the job's class, by type."""

    @cached_property
    def window(self) -> Window:
        """Return the attempt's newest `HISTORY_STEPS` steps, on the clock that times them."""
        return self.attempt.window(HISTORY_STEPS)

    @cached_property
    def stale_nodes(self) -> frozenset[str]:
        """Return the nodes that should report and missed several of their agents' flushes."""
        return frozenset(
            node
            for node, seconds in self.staleness.items()
            if seconds > STALE_AFTER_SECONDS  # rarely true, whatever the interval
            and seconds > self.attempt.tracker(Agents).stale_after(node, STALE_AFTER_SECONDS)
        )

    @cached_property
    def unobserved(self) -> frozenset[int]:
        """Return the ranks that should report but are currently unobserved.

        A rank that has ended or is lost has a final state, so it does not count.
        """
        if not self.stale_nodes:
            return frozenset()
        ranks = self.attempt.ranks
        over = self.attempt.lifecycle.ended.keys() | ranks.gone
        ranks_unseen = {rank for rank, node in ranks.node_of.items() if node in self.stale_nodes}
        if UNKNOWN_NODE in self.stale_nodes:
            ranks_unseen.update(np.flatnonzero(~ranks.reported).tolist())
        return frozenset(ranks_unseen - over)

    @cached_property
    def left_out(self) -> frozenset[int]:
        """Return the ranks whose newest steps are missing: unobserved or done."""
        return self.unobserved.union(self.attempt.attendance.done)

    @cached_property
    def with_observed_peers(self) -> frozenset[int]:
        """Return the observed ranks that have at least one observed peer in their stage."""
        stage = self.window.stage
        observed = ~np.isin(np.arange(len(stage)), list(self.left_out))
        stages, counts = np.unique(stage[observed], return_counts=True)
        return frozenset(np.flatnonzero(observed & np.isin(stage, stages[counts > 1])).tolist())

    @property
    def observes_any(self) -> bool:
        """Return whether any node that should report does, or no node has to."""
        return not self.staleness or len(self.stale_nodes) < len(self.staleness)

    @property
    def baseline(self) -> Baseline:
        """Return medians over the attempt's first steps by rank, on the clock of `window`."""
        return baseline_on(self.attempt, self.window.clock)

    @cached_property
    def first_steps(self) -> FirstSteps:
        """Return the first steps of the attempt that serves as the job's baseline."""
        return first_steps(self.job)

    @cached_property
    def early_baseline(self) -> dict[str, Vector]:
        """Return each column's mean over ranks in the oldest first steps at this world size.

        The source is the oldest attempt with this world size and enough steps; the result is empty
        without one. The values are on the clock of `window`.
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
        """Return the attempt's newest ten minutes in buckets.

        The result is None if the buckets and `window` are on different clocks.
        """
        evidence = self.attempt.tracker(RankEvidence)
        return evidence.buckets.course() if evidence.clock == self.window.clock else None

    @property
    def compares_ranks(self) -> bool:
        """Return whether times are comparable between ranks in `window`."""
        return ranks_compare(self.attempt, self.window.clock)

    def once(self, find: Callable[[DetectionContext], T]) -> T:
        """Return the result of `find` for this context; only the first call evaluates it."""
        if find not in self._found:
            self._found[find] = find(self)
        result: T = self._found[find]
        return result

    def thresholds(self, shipped: T) -> T:
        """Return a detector's thresholds for the job's class; they are `shipped` by default."""
        chosen: T = self.class_thresholds.get(type(shipped), shipped)
        return chosen

    def dated(self, finding: Finding) -> Finding:
        """Return `finding` with its age: it began when the step before its first step ended."""
        step_history = self.attempt.steps.history
        index = finding.began_step - step_history.held_from - 1
        if not 0 <= index < len(step_history.rows):
            return finding
        end = int(step_history.rows["end_wall_ns"][index]) / NANOSECONDS
        return finding._replace(began_ago_seconds=self.attempt.steps.newest_s - end)

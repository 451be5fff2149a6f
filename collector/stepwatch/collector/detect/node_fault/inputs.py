"""Inputs for the node-fault detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault, NodeFaults
from stepwatch.signals.clock import NANOSECONDS

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on the faults that the job's agents report for its nodes."""
    attempt = context.attempt
    faults = [
        detector.Fault(
            fault,
            step_at(attempt, fault.began_s),
            max(0.0, (attempt.steps.newest_s or context.wall_s) - fault.began_s),
        )
        for fault in present_faults(attempt, context.now_s)
    ]
    nodes = len(set(attempt.ranks.node_of.values()))
    return detector.detect(faults, nodes, context.thresholds(detector.LIMITS)) if faults else []


def present_faults(attempt: Attempt, now_s: float) -> list[NodeFault]:
    """Return the facts that are present at monotonic `now_s`.

    A stale node's facts stay: their end is not known.
    """
    tracker = attempt.tracker(NodeFaults)
    if not tracker:
        return []
    seen_s = {node: now_s - seconds for node, seconds in attempt.staleness(now_s).items()}
    return [fault for fault in tracker.faults(seen_s) if fault.present]


def step_at(attempt: Attempt, moment_s: float) -> int:
    """Return the step that ran at Unix time `moment_s`: the newest if no later step did."""
    history = attempt.steps.history
    ends = history.rows["end_wall_ns"]
    return history.held_from + int(np.searchsorted(ends, round(moment_s * NANOSECONDS)))

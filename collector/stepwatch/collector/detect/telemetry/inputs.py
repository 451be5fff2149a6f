"""Inputs for the telemetry detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect import hang
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.trackers.nodes.agents import Agents

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on nodes that should send and are stale."""
    attempt, limits = context.attempt, context.thresholds(detector.LIMITS)
    if max(context.staleness.values(), default=0.0) < limits.least_seconds:
        return []
    step = attempt.attendance.complete_until
    every = {node: attempt.tracker(Agents).flush_seconds(node) for node in context.staleness}
    return detector.detect(context.staleness, step, limits, every, _reporting_nodes(context))


def _reporting_nodes(context: DetectionContext) -> detector.ReportingNodes:
    """Return the job's state according to the reporting ranks."""
    stall = context.once(hang.stalled)
    unobserved = tuple(sorted(context.unobserved))
    over = context.attempt.lifecycle.ended.keys() | context.attempt.ranks.gone
    if over:
        return detector.ReportingNodes(unobserved, ended=tuple(sorted(over)))
    if stall is not None:
        return detector.ReportingNodes(unobserved, stall.seconds)
    if not len(context.attempt.steps.history.rows):  # a first step may take minutes
        still = context.attempt.ranks.moved_ages(context.now_s)
        finite = still[~np.isnan(still)]
        return detector.ReportingNodes(unobserved, float(finite.min()) if len(finite) else None)
    return detector.ReportingNodes(
        unobserved,
        proven=_share_groups(context),
        never=tuple(sorted(context.attempt.attendance.unwatched)),
        ring_free_bytes=context.attempt.tracker(Agents).ring_free_bytes,
    )


def _share_groups(context: DetectionContext) -> bool:
    """Return whether each unobserved rank shares a group with an observed one.

    A collective with all of them ends only when all have arrived.
    """
    unproven, observed = (
        set(context.unobserved),
        set(context.attempt.ranks.views) - context.unobserved,
    )
    for group in context.attempt.collective_records.groups.values():
        members = members_of(group.ranks)
        if members and not members.isdisjoint(observed):
            unproven -= members
    return not unproven

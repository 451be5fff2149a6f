"""Inputs for the memory-growth detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.memory_history import MemoryHistory, Readings
from stepwatch.collector.state.trackers.nodes.node_facts import NodeFacts
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.names import Cause

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks that will exhaust host or device memory, in seconds or in hours."""
    memory, first = context.attempt.tracker(MemoryHistory), context.attempt.steps.history.first
    if not len(context.attempt.steps.history):
        return []
    findings: dict[str, Finding] = {}
    limits = context.thresholds(detector.LIMITS)
    for cause, readings in (
        (Cause.HOST_MEMORY, memory.host),
        (Cause.DEVICE_MEMORY, memory.device),
    ):
        for history in readings:
            if not history.full or not history.spans(limits.least_bytes):
                continue
            usable = _history(context.attempt, history, cause)
            for finding in detector.detect(usable, first, limits):
                findings.setdefault(f"{finding.subject}/{finding.rank}", finding)
    return list(findings.values())


def _history(attempt: Attempt, readings: Readings, cause: Cause) -> detector.History:
    trend = readings.trend()
    ranks = len(trend.bytes)
    if cause is Cause.DEVICE_MEMORY:
        room = attempt.tracker(MemoryHistory).device_limit - trend.bytes[:, -1]
        share = np.arange(ranks)
    else:
        room, share = _in_groups(attempt, *_host_room(attempt, ranks))
    return detector.History(
        seconds=trend.seconds,
        bytes=trend.bytes,
        steps=trend.steps,
        room=room,
        share=share,
        cause=cause,
        children=_children(attempt, ranks, cause),
    )


def _children(attempt: Attempt, ranks: int, cause: Cause) -> Vector:
    """Return each rank's child-process growth in bytes; on a device it is 0."""
    if cause is Cause.DEVICE_MEMORY:
        return np.zeros(ranks)
    return attempt.ranks.rows["children_bytes"][:ranks].astype(np.float64)


def _in_groups(attempt: Attempt, room: Vector, share: Integers) -> tuple[Vector, Integers]:
    """Return the room and share numbers, limited by control groups.

    If a rank's control group has less room than its node, ranks share the group's memory.
    """
    rows = attempt.ranks.rows[: len(room)]
    group_room = rows["group_room_bytes"].astype(np.float64)
    is_group_limit = (group_room > 0) & ~(room <= group_room)
    room = np.where(is_group_limit, group_room, room)
    keys = np.stack([share, np.where(is_group_limit, rows["memory_group"].astype(np.int64), 0)])
    _, numbers = np.unique(keys, axis=1, return_inverse=True)
    return room, numbers.reshape(-1)


def _host_room(attempt: Attempt, ranks: int) -> tuple[Vector, Integers]:
    """Return the memory left on each rank's node, and a number for the node."""
    hosts = attempt.tracker(NodeFacts).hosts
    available = [
        float(hosts[node]["memory_available_bytes"]) if node in hosts else 0.0
        for node in attempt.ranks.nodes
    ]
    room = np.array([*available, 0.0])[attempt.ranks.node_at[:ranks]]
    room[room <= 0] = np.nan
    return room, attempt.ranks.node_at[:ranks] % (len(available) + 1)

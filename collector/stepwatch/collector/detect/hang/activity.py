"""Whether a rank that makes no progress runs, by the CPU time of its process."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum

from stepwatch.collector.state.trackers.ranks import Usage
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase, ProcessState

from .situation import RankSituation
from .thresholds import Thresholds

DEAD = (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED)
"""States from which a process does not come back by itself."""
_ENQUEUES_MUCH = (Phase.FORWARD, Phase.BACKWARD)
"""In one of these a host may wait, using a CPU, for room in the queue of a device that is stuck."""


class Activity(Enum):
    """What the process of a rank does that stands outside any collective."""

    RUNNING = "running"
    """It uses a CPU, or is ready to and gets none: it evaluates, saves, computes."""
    IDLE = "idle"
    """It uses none (stopped, dead, blocked, asleep), or holds its interpreter's lock for long."""
    UNKNOWN = "unknown"
    """Its agent does not see its process, or has not looked often enough since it last moved."""


def activity_of(item: RankSituation, limits: Thresholds) -> Activity:
    """What the process of one rank does; one whose device is stuck waits for it, so it is idle."""
    if item.process in DEAD or is_device_stuck(item, limits):
        return Activity.IDLE
    if item.heartbeat_age > limits.lock_held_seconds:
        return Activity.IDLE
    if math.isnan(item.cpu_ratio):
        return Activity.UNKNOWN
    return Activity.RUNNING if item.cpu_ratio >= limits.running_cpu_ratio else Activity.IDLE


def is_device_stuck(item: RankSituation, limits: Thresholds) -> bool:
    """Whether a busy device holds the rank up, and not what its host enqueues there for itself.

    A rank may evaluate on its device outside any phase: the host runs, and the device is in a
    kernel that came after the last boundary of the step, so both are in the same place.
    """
    if item.host is None:
        return False
    ahead = item.step < item.host.step or item.phase != item.host.phase
    runs = item.cpu_ratio >= limits.running_cpu_ratio  # not where it is unknown
    return item.in_collective or ahead or item.phase in _ENQUEUES_MUCH or not runs


def cpu_ratio(readings: Iterable[Usage], since_ns: int, least_seconds: float) -> float:
    """CPU seconds, and seconds ready to run without a CPU, per second since `since_ns`.

    NaN where readings taken since then span less than `least_seconds`, or hold no CPU time. The
    kernel may not report the time without a CPU: then it is none.
    """
    since = [each for each in readings if each.time_ns >= since_ns]
    if not since:
        return math.nan
    seconds = (since[-1].time_ns - since[0].time_ns) / NANOSECONDS
    if seconds < least_seconds:
        return math.nan
    queued = since[-1].run_queue_seconds - since[0].run_queue_seconds
    used = since[-1].cpu_seconds - since[0].cpu_seconds
    return (used + (0.0 if math.isnan(queued) else queued)) / seconds

"""Whether a rank that makes no progress runs, by the CPU time of its process."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum

from stepwatch.collector.state.trackers.ranks import Usage
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import ProcessState

from .situation import RankSituation
from .thresholds import Thresholds

DEAD = (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED)
"""States from which a process does not come back by itself."""


class Activity(Enum):
    """What the process of a rank does that stands outside any collective."""

    RUNNING = "running"
    """It uses a CPU, or is ready to and gets none: it evaluates, saves, computes."""
    IDLE = "idle"
    """It uses none: it is stopped, dead, blocked or asleep."""
    UNKNOWN = "unknown"
    """Its agent does not see its process, or has not looked often enough since it last moved."""


def activity_of(item: RankSituation, limits: Thresholds) -> Activity:
    """What the process of one rank does; one whose device is stuck waits for it, so it is idle."""
    if item.process in DEAD or item.host is not None:
        return Activity.IDLE
    if math.isnan(item.cpu_ratio):
        return Activity.UNKNOWN
    return Activity.RUNNING if item.cpu_ratio >= limits.running_cpu_ratio else Activity.IDLE


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

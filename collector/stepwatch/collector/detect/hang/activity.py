"""Whether a rank that makes no progress is at work, and since when it is not."""

from __future__ import annotations

from enum import Enum

from stepwatch.collector.state.trackers.rank_work import Work
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
    """It, or a process that it started, uses a CPU, reads, writes, receives or sends."""
    IDLE = "idle"
    """It does none of these: it sleeps, is blocked, stopped or dead."""
    UNKNOWN = "unknown"
    """Its agent does not see its process, or has not looked often enough since it last moved."""


def activity_of(item: RankSituation, limits: Thresholds) -> Activity:
    """What the process of one rank does; one that does not come back by itself is idle."""
    if is_over(item, limits):
        return Activity.IDLE
    if item.work is None:
        return Activity.UNKNOWN
    return Activity.RUNNING if item.work else Activity.IDLE


def is_over(item: RankSituation, limits: Thresholds) -> bool:
    """Whether facts show that the rank does not go on by itself.

    It is stopped or dead, its device is stuck, or its interpreter is blocked while it does no work.
    """
    blocked = is_interpreter_held(item, limits) and item.work is Work.NONE
    return item.process in DEAD or is_device_stuck(item, limits) or blocked


def is_interpreter_held(item: RankSituation, limits: Thresholds) -> bool:
    """Whether no other thread of the rank's interpreter runs: one call holds its lock."""
    return item.heartbeat_age > limits.heartbeat_seconds


def quiet_seconds(item: RankSituation, limits: Thresholds) -> float:
    """Seconds since the rank was last seen to move or to be at work; 0 where that is unknown.

    CPU time that is used while the interpreter is held is no sign of progress: an endless loop in
    native code looks the same.
    """
    quiet = item.worked_age if item.work is Work.NONE else 0.0
    if is_interpreter_held(item, limits) and item.work in (Work.NONE, Work.CPU):
        quiet = item.heartbeat_age
    return min(quiet, item.moved_age)


def is_device_stuck(item: RankSituation, limits: Thresholds) -> bool:
    """Whether a busy device holds the rank up, and not what its host enqueues there for itself.

    A rank may evaluate on its device outside any phase: the host runs, and the device is in a
    kernel that came after the last boundary of the step, so both are in the same place.
    """
    if item.host is None:
        return False
    ahead = item.step < item.host.step or item.phase != item.host.phase
    return item.in_collective or ahead or item.phase in _ENQUEUES_MUCH or not item.work

"""Whether a rank without progress is at work, and since when it is not."""

from __future__ import annotations

from enum import Enum

from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.records import Phase, ProcessState

from .situation import RankSituation
from .thresholds import Thresholds

DEAD = (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED)
"""States from which a process does not recover by itself."""
_ENQUEUES_MUCH = (Phase.FORWARD, Phase.BACKWARD)
"""Phases in which a host may use a CPU while it waits for queue room on a stuck device."""


class Activity(Enum):
    """The activity of a rank's process outside any collective."""

    RUNNING = "running"
    """The process, or one that it started, uses a CPU, reads, writes, receives or sends."""
    IDLE = "idle"
    """It does none of this: it sleeps, is blocked, stopped or dead."""
    UNKNOWN = "unknown"
    """The agent does not see the process, or has not polled often enough since it last moved."""


def activity_of(item: RankSituation, limits: Thresholds) -> Activity:
    """Return the activity of one rank's process; one that cannot recover by itself is idle."""
    if is_over(item, limits):
        return Activity.IDLE
    if item.work is None:
        return Activity.UNKNOWN
    return Activity.RUNNING if item.work else Activity.IDLE


def is_over(item: RankSituation, limits: Thresholds) -> bool:
    """Return whether facts show that the rank cannot resume by itself.

    It is stopped or dead, its device is stuck, or its interpreter is blocked while it does no work.
    """
    blocked = is_interpreter_held(item, limits) and item.work is Work.NONE
    return item.process in DEAD or is_device_stuck(item, limits) or blocked


def is_interpreter_held(item: RankSituation, limits: Thresholds) -> bool:
    """Return whether one call holds the lock of the rank's interpreter, so no other thread runs."""
    return item.heartbeat_age > limits.heartbeat_seconds


def quiet_seconds(item: RankSituation, limits: Thresholds) -> float:
    """Return the seconds since the rank was last seen moving or working; 0 if unknown.

    CPU time that is used while the interpreter is held is no sign of progress: an endless loop in
    native code looks the same.
    """
    quiet = item.worked_age if item.work is Work.NONE else 0.0
    if is_interpreter_held(item, limits) and item.work in (Work.NONE, Work.CPU):
        quiet = item.heartbeat_age
    return min(quiet, item.moved_age)


def is_device_stuck(item: RankSituation, limits: Thresholds) -> bool:
    """Return whether a busy device blocks the rank, and does not merely run its host's own work.

    A rank may evaluate on its device outside any phase. Then the host runs and the device is in a
    kernel that came after the last step boundary, so both are in the same place.
    """
    if item.host is None:
        return False
    ahead = item.step < item.host.step or item.phase != item.host.phase
    return item.in_collective or ahead or item.phase in _ENQUEUES_MUCH or not item.work

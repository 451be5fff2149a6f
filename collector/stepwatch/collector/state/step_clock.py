"""Which clock times an attempt's steps: the ranks' devices, or the hosts.

With an accelerator, the host enqueues work and returns, so its clock charges the work to the next
call that waits for the device. Times on two clocks are never compared: all ranks use one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.tracker import TrackedAttempt
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.devices.device_collectives import (
    DeviceCalls,
    DeviceCollectives,
)
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.collector.state.trackers.steps.baseline import Baseline, Calls
from stepwatch.collector.state.trackers.steps.early_baseline import EarlyBaseline
from stepwatch.collector.state.trackers.steps.settled_steps import LATE_SECONDS
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.arrays import Integers, MaskMatrix, Vector
from stepwatch.signals.phrases import ranks_text

SPAN_STEPS = 64
"""Number of newest device steps that are examined."""
ARRIVING_STEPS = 8
"""Newest device steps whose rows may still be on their way."""
LEAST_WHOLE_STEPS = 4
"""Least number of fully timed steps, if other steps have only their length timed."""
LEAST_SHARE = 0.9
"""Least share of a rank's steps that its device must have timed."""


class StepTiming(NamedTuple):
    """The clock that times the steps.

    `reason` tells why it is not the device's clock; empty if it is, or if no rank reports a reason.
    """

    clock: StepClock
    reason: str


def step_timing(attempt: TrackedAttempt) -> StepTiming:
    """Return the device clock if it covers the steps, else the host clock with the reason.

    Every rank that reports steps needs device times for nearly all its steps, and some steps must
    be fully timed: only these are in the windows.
    """
    steps, devices = attempt.tracker(Steps), attempt.tracker(DeviceSteps)
    timing = attempt.tracker(DeviceTiming)
    if not devices.ring.world or not steps.ring.world:
        reason = timing.reason(timing.untimed(timing.by_rank))
        return StepTiming(HOST, reason or (_missing(devices) if devices.in_part else ""))
    last = min(steps.ring.newest, devices.ring.newest)
    span = steps.ring.steps(min(SPAN_STEPS, devices.ring.depth), last)
    reported, timed = steps.ring.holds(span), devices.ring.holds(span)
    reporting = np.flatnonzero(reported.any(axis=0))
    if untimed := timing.untimed(reporting.tolist()):
        return StepTiming(HOST, timing.reason(untimed))
    settled = span <= last - ARRIVING_STEPS
    expected = LEAST_SHARE * reported[settled].sum(axis=0)
    short = (timed & reported)[settled].sum(axis=0) < expected
    short |= reported.any(axis=0) & ~timed.any(axis=0)
    if short.any():
        return StepTiming(HOST, f"{ranks_text(np.flatnonzero(short))}: {_missing(devices)}")
    if devices.in_part and not _has_whole(devices, span, reported):
        return StepTiming(HOST, _missing(devices))
    if _is_late(steps, devices, attempt.tracker(Ranks)):
        return StepTiming(HOST, "device times no longer arrive")
    return StepTiming(DEVICE, "")


def hosts_run_ahead(attempt: TrackedAttempt) -> bool:
    """Return whether devices time, or timed, the steps of some rank.

    Then the first host steps are not a baseline: a host returns at once after it enqueues a step,
    until its device's queue is full.
    """
    timed_now = attempt.tracker(DeviceTiming).timed_ranks > 0
    return timed_now or attempt.tracker(DeviceSteps).lengths.any


def ranks_compare(attempt: TrackedAttempt, clock: StepClock) -> bool:
    """Return whether times of different ranks are comparable on that clock.

    On the host clock they are not if only some ranks have device timing: a host that waits for its
    device shows where the time goes, a host that runs ahead does not.
    """
    return clock == DEVICE or attempt.tracker(DeviceTiming).timed_ranks in (0, attempt.world)


def baseline_on(attempt: TrackedAttempt, clock: StepClock) -> Baseline:
    """Return the medians of the attempt's first steps by rank; empty if they are not a baseline."""
    silent = clock == HOST and hosts_run_ahead(attempt)
    return Baseline() if silent else _steps_on(attempt, clock).baseline


def early_baseline_on(attempt: TrackedAttempt, clock: StepClock) -> EarlyBaseline:
    """Return the sums over ranks of the attempt's first steps; empty if they are not a baseline."""
    silent = clock == HOST and hosts_run_ahead(attempt)
    return EarlyBaseline() if silent else _steps_on(attempt, clock).early_baseline


def rank_seconds_on(attempt: TrackedAttempt, clock: StepClock) -> dict[str, Vector]:
    """Return the seconds so far (world,) by step column, on that clock."""
    return _steps_on(attempt, clock).rank_seconds


def collectives_on(attempt: TrackedAttempt, clock: StepClock) -> Calls:
    """Return the attempt's newest collectives and their exposed time, on that clock."""
    host = attempt.tracker(CollectiveRecords)
    return DeviceCalls(host, attempt.tracker(DeviceCollectives)) if clock == DEVICE else host


def _steps_on(attempt: TrackedAttempt, clock: StepClock) -> Steps | DeviceSteps:
    return attempt.tracker(DeviceSteps) if clock == DEVICE else attempt.tracker(Steps)


def _has_whole(devices: DeviceSteps, span: Integers, reported: MaskMatrix) -> bool:
    """Return whether enough steps were fully timed on every rank that reports them."""
    in_part = devices.ring.in_part(span)
    timed = devices.ring.holds(span)
    is_whole = ~in_part.any(axis=1) & (timed >= reported).all(axis=1) & timed.any(axis=1)
    enough = min(LEAST_WHOLE_STEPS, math.ceil(LEAST_SHARE * len(span)))
    return int(is_whole.sum()) >= enough


def _missing(devices: DeviceSteps) -> str:
    return "steps are timed in part only" if devices.in_part else "not timed on the device"


def _is_late(steps: Steps, devices: DeviceSteps, ranks: Ranks) -> bool:
    """Return whether device rows have stopped while steps continue.

    A host may be far ahead while rows arrive, and in a hang both stop.
    """
    received = ranks.received_monotonic_s
    if (
        np.isnan(received).all()
        or np.nanmax(received) - devices.received_monotonic_s <= LATE_SECONDS
    ):
        return False
    behind = steps.newest_s - devices.newest_s > LATE_SECONDS
    return behind and steps.ring.newest - devices.ring.newest > ARRIVING_STEPS

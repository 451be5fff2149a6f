"""The counted steps of an attempt, each on its clock, for SLIs and figures.

In a long attempt these are the newest steps; `drop_steps` releases the older ones.

Clocks are never compared: each clock has its own usual step time. Once devices time a rank's steps,
the hosts have no usual step time, because they return as soon as a step is enqueued.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_clock import hosts_run_ahead
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.steps.dropped_curves import PACE
from stepwatch.collector.state.trackers.steps.dropped_steps import NEVER
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.collector.state.trackers.steps.step_history import (
    BASELINE_STEPS,
    LEAST_BASELINE_STEPS,
    ON_DEVICE,
    PARTS,
    WARMUP_STEPS,
    StepFacts,
)
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.arrays import Integers, Mask, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS

MIXED = "mixed"
"""Clock label for figures over steps on both clocks."""


class StepLengths(NamedTuple):
    """Step times in seconds on the slowest rank, all on one clock, and the step count per clock."""

    seconds: Vector
    clock: StepClock
    steps_on: dict[StepClock, int]


def step_facts(attempt: Attempt, resumed_at: int | None) -> StepFacts:
    """Return the counted steps in memory; steps from `resumed_at` on are lost to a later attempt.

    A host-timed step between two device-timed steps ends between them: a host is ahead.
    """
    history = attempt.steps.history
    began_ns = attempt.tracker(LifecycleEvents).began_wall_ns
    facts = history.facts(attempt.world, began_ns, resumed_at)
    facts = facts._replace(expected=attempt.attendance.expected_ranks(history.steps))
    on_device = _on_device(attempt)
    count = len(on_device)
    fixed_end_ns = history.dropped.fixed_end_ns
    if not on_device.any() and count == len(facts.end_ns) and fixed_end_ns == NEVER:
        return facts
    lengths = attempt.tracker(DeviceSteps).lengths.rows(history.steps[:count])
    ends = np.where(on_device, lengths["end_wall_ns"].astype(np.int64), facts.end_ns[:count])
    ends = _between(ends, on_device, fixed_end_ns)
    return facts._replace(
        end_ns=ends,
        allocated=history.allocated(facts.began_ns, ends, began_known=began_ns > 0),
        busy=np.where(on_device, lengths["busy"], facts.busy[:count]),
        longest=np.where(on_device, lengths["longest"], facts.longest[:count]).astype(np.float64),
        observed=facts.observed[:count],
        lost=facts.lost[:count],
        on_device=on_device,
        parts=_parts(facts.parts[:count], lengths, on_device),
        tokens=facts.tokens[:count],
        unfinished=facts.unfinished[:count],
        expected=facts.expected[:count],
    )


def _parts(hosts: Rows, devices: Rows, on_device: Mask) -> Rows:
    """Return columns `PARTS` for each step, on its clock."""
    parts: Rows = hosts.copy()
    for name in PARTS:
        parts[name][on_device] = devices[name][on_device]
    return parts


class LastStep(NamedTuple):
    """The last counted step.

    `end_s` is its end (Unix seconds by the wall clock), `set_s` how far clocks were set since the
    attempt began, `usual_s` the usual step time on its clock (NaN while unknown).
    """

    end_s: float
    set_s: float
    usual_s: float


def last_step(attempt: Attempt, ends_s: Vector) -> LastStep | None:
    """Return the last step of an attempt; None before the first.

    `ends_s` are the ends of the steps in memory.
    """
    history, on_device = attempt.steps.history, _on_device(attempt)
    dropped = history.dropped
    if len(ends_s):
        set_s, timed = history.set_s_of(len(ends_s) - 1), bool(on_device[-1])
        end_s = float(ends_s[-1])
    elif dropped.count:
        end_s, set_s = dropped.end_ns / NANOSECONDS, dropped.clock_set_ns / NANOSECONDS
        timed = dropped.fixed_end_ns == dropped.end_ns
    else:
        return None
    on_its_clock = _usual_on_devices(attempt, on_device) if timed else _usual_on_hosts(attempt)
    return LastStep(end_s, set_s, on_its_clock)


def usual_seconds(attempt: Attempt) -> Vector:
    """Return each counted step's baseline: the median first step on its clock (steps,).

    NaN while there are too few first steps.
    """
    on_device = _on_device(attempt)
    usual = np.where(on_device, _usual_on_devices(attempt, on_device), _usual_on_hosts(attempt))
    return np.asarray(usual, dtype=np.float64)


def step_lengths(attempt: Attempt, newest: int | None = None) -> StepLengths:
    """Return step times after the attempt's first step, or its `newest` ones, on the main clock.

    The main clock is the one with most steps: times on the other clock measure something else. Only
    steps in memory that ranks reported are included.
    """
    history, on_device = attempt.steps.history, _on_device(attempt)
    rows = history.rows[: len(on_device)]
    positions = np.flatnonzero(rows["longest"] > 0)
    positions = positions[history.held_from + positions > history.first][
        -newest if newest else None :
    ]
    timed, count = positions[on_device[positions]], int(on_device[positions].sum())
    steps_on: dict[StepClock, int] = {DEVICE: count, HOST: len(positions) - count}
    if not count or count < len(positions) - count:
        seconds = rows["longest"][positions[~on_device[positions]]].astype(np.float64)
        return StepLengths(seconds, HOST, steps_on)
    lengths = attempt.tracker(DeviceSteps).lengths.rows(history.held_from + timed)
    return StepLengths(lengths["longest"].astype(np.float64), DEVICE, steps_on)


def tokens_per_second(attempt: Attempt) -> float | None:
    """Return tokens after the first step per second; None if no rank reports tokens."""
    history = attempt.steps.history
    if len(history) < 2:
        return None
    _, (row,) = history.part(slice(1))
    rows, dropped = history.rows, history.dropped
    first = int(row["end_wall_ns"])
    last = max(dropped.newest_end_ns, int(rows["end_wall_ns"].max(initial=0)))
    tokens = float(dropped.tokens + int(rows["tokens"].sum()) - int(row["tokens"]))
    seconds = (last - first) / NANOSECONDS
    return tokens / seconds if first and seconds > 0 and tokens else None


def pace_rows(attempt: Attempt, facts: StepFacts) -> Rows:
    """Return a `PACE` row for each counted step in memory; NaN is unknown.

    Lengths are on the step clock. A rate has the time since the previous step's end, so that a mean
    over many steps is their tokens over their time; the attempt's first step has none, as its time
    includes the start-up. A clock that is ahead counts as the collector's.
    """
    history, count = attempt.steps.history, len(facts.longest)
    steps, received_s = history.steps[:count], history.rows["received_s"][:count]
    has_length = (facts.observed > 0) & (facts.longest > 0)
    has_rate = has_length & (facts.tokens > 0) & (facts.allocated > 0) & (steps > history.first)
    rates = np.full(count, np.nan)
    np.divide(facts.tokens, facts.allocated, out=rates, where=has_rate)
    lengths = np.where(has_length, facts.longest, np.nan)
    rows = np.zeros(count, dtype=PACE)
    rows["first_step"] = rows["step"] = steps
    rows["at"] = np.minimum(facts.end_s, received_s)
    rows["start_s"] = np.floor(rows["at"])
    rows["steps"], rows["seconds"] = has_length, np.where(has_length, facts.longest, 0.0)
    rows["tokens"] = np.where(has_rate, facts.tokens, 0)
    rows["token_seconds"] = np.where(has_rate, facts.allocated, 0.0)
    for name in ("least", "greatest", "last"):
        rows[name], rows[f"{name}_rate"] = lengths, rates
    return rows


def first_and_last_loss(attempts: Iterable[Attempt]) -> tuple[float, float] | None:
    """Return the losses of the first and the newest step with a loss; None without any."""
    histories = [attempt.steps.history for attempt in attempts]
    parts = [
        part
        for history in histories
        for part in ([history.dropped.loss_first, history.dropped.loss_last], history.rows["loss"])
    ]
    losses = np.concatenate(parts)
    finite = losses[~np.isnan(losses)]
    return (float(finite[0]), float(finite[-1])) if len(finite) else None


def drop_steps(attempt: Attempt, facts: StepFacts, count: int, closed_before_s: float) -> None:
    """Drop the first `count` steps in memory.

    Their `facts` are in slices that end by `closed_before_s` (Unix seconds).
    """
    history = attempt.steps.history
    timed = _first_timed(attempt, _on_device(attempt)[:count])
    history.drop(count)
    history.dropped.timed = timed
    ends_ns, on_device, pauses = facts.end_ns, facts.on_device, facts.pauses
    history.dropped.end(ends_ns[:count], on_device[:count], pauses[:count], closed_before_s)
    attempt.tracker(DeviceSteps).lengths.drop(count, history.first)


def clock_of(steps_on: dict[StepClock, int]) -> str | None:
    """Return the clock for a figure from its step count per clock; None without steps."""
    clocks = [clock for clock, count in steps_on.items() if count]
    return (clocks[0] if len(clocks) == 1 else MIXED) if clocks else None


def _on_device(attempt: Attempt) -> Mask:
    """Return which counted steps use the device clock (steps,)."""
    count = attempt.tracker(SettledSteps).count(attempt)
    return np.asarray(attempt.steps.history.rows["clock"][:count] == ON_DEVICE)


def _usual_on_devices(attempt: Attempt, on_device: Mask) -> float:
    if not (on_device.any() or len(attempt.steps.history.dropped.timed)):
        return math.nan
    first = _first_timed(attempt, on_device)
    return float(np.median(first)) if len(first) >= LEAST_BASELINE_STEPS else math.nan


def _first_timed(attempt: Attempt, on_device: Mask) -> Vector:
    """Return the times in seconds of the first device-timed steps after the warm-up."""
    history = attempt.steps.history
    wanted = BASELINE_STEPS - len(history.dropped.timed)
    timed = history.held_from + np.flatnonzero(on_device)
    timed = timed[timed >= history.first + WARMUP_STEPS][: max(wanted, 0)]
    seconds = attempt.tracker(DeviceSteps).lengths.rows(timed)["longest"].astype(np.float64)
    return np.concatenate([history.dropped.timed, seconds])


def _usual_on_hosts(attempt: Attempt) -> float:
    return math.nan if hosts_run_ahead(attempt) else attempt.steps.history.baseline()


def _between(ends: Integers, fixed: Mask, earlier: int = NEVER) -> Integers:
    """Clip each end in `ends` (steps,) that is not `fixed` to the neighbouring fixed ends.

    `earlier` is a fixed end before all others. Fixed at 10 and 20, between them 8 and 15 -> 10, 10,
    15, 20.
    """
    positions = np.flatnonzero(fixed)
    place = np.searchsorted(positions, np.arange(len(ends)))  # the next fixed one, or itself
    upper = np.append(ends[positions], np.iinfo(np.int64).max)[place]
    lower = np.append(earlier, ends[positions])[place]
    moved: Integers = np.where(fixed, ends, np.minimum(np.maximum(ends, lower), upper))
    return moved

"""The steps of an attempt that tell how fast it is, and those that a job is compared with."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.medians import median
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_clock import LEAST_SHARE, hosts_run_ahead
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.steps.step_history import (
    BASELINE_STEPS,
    LEAST_BASELINE_STEPS,
    ROW,
    WARMUP_STEPS,
)
from stepwatch.collector.state.trackers.steps.step_window import DEVICE, HOST, StepClock
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import StepFlag

_PAUSED = StepFlag.FIRST | StepFlag.AFTER_PAUSE | StepFlag.UNFINISHED


class Course(NamedTuple):
    """Steps without pauses in rising order: number, end (Unix seconds), seconds of the slowest rank
    without checkpoint and evaluation, and tokens of all ranks (0 where unknown); arrays (steps,).
    """

    steps: Integers
    end_s: Vector
    seconds: Vector
    tokens: Vector

    def slowdown(self, baseline: Course) -> Vector:
        """How many times longer each step is than the usual one of `past`, per token if known."""
        longer = self.seconds / baseline.seconds.dtype.type(median(baseline.seconds))
        if not len(baseline.tokens) or not (baseline.tokens > 0).all():
            return np.asarray(longer)
        per_token = self.seconds / np.maximum(self.tokens, 1.0)
        usual = median(baseline.seconds / baseline.tokens)
        return np.asarray(np.where(self.tokens > 0, np.minimum(longer, per_token / usual), longer))

    def tokens_per_second(self) -> float:
        """Median over the steps; NaN where tokens are not known."""
        counted = (self.tokens > 0) & (self.seconds > 0)
        speeds = self.tokens[counted] / self.seconds[counted]
        return median(speeds)

    def part(self, steps: slice) -> Course:
        """Some of the steps."""
        return Course(self.steps[steps], self.end_s[steps], self.seconds[steps], self.tokens[steps])


def course_of(
    attempt: Attempt, steps: slice, clock: StepClock = HOST, unobserved: int = 0
) -> Course:
    """Those rows of the step_history that all ranks reported and no pause touched.

    On the devices' clock only those that every device timed. With so many ranks `unobserved` those
    that all others reported, whose tokens are not known.
    """
    numbers, rows = attempt.step_history.part(steps)
    warm, seconds = attempt.step_history.first + WARMUP_STEPS, None
    if clock == DEVICE:
        seconds = attempt.tracker(DeviceSteps).lengths.seconds(numbers, attempt.world)
    return _course(numbers, rows, seconds, warm, attempt.world, unobserved)


def _course(
    numbers: Integers,
    rows: Rows,
    on_device: Vector | None,
    warm: int,
    world: int,
    unobserved: int = 0,
) -> Course:
    """Those of `rows` from step `warm` on; None `on_device` is the hosts' clock."""
    good = (rows["reported"] >= world - unobserved) & (rows["flags"] & _PAUSED == 0)
    good &= (rows["longest"] > 0) & (numbers >= warm)
    seconds = rows["longest"] if on_device is None else on_device
    if on_device is not None:
        good &= ~np.isnan(seconds)
    # Columns are chosen from, not rows: of a row only these are wanted.
    ends = rows["end_wall_ns"][good] / NANOSECONDS
    tokens = rows["tokens"][good].astype(np.float64)
    if unobserved:
        tokens[rows["reported"][good] < world] = 0.0
    return Course(numbers[good], ends, seconds[good], tokens)


def _first_on_hosts(attempt: Attempt) -> Course:
    """`course_of` the first steps of an attempt, on the hosts' clock."""
    history = attempt.step_history
    numbers, rows = history.part(_FIRST_STEPS)
    begins = int(numbers[0]) if len(numbers) else 0
    return _known_first(rows.tobytes(), begins, history.first + WARMUP_STEPS, attempt.world)


@lru_cache(maxsize=1024)
def _known_first(rows: bytes, begins: int, warm: int, world: int) -> Course:
    """The same of these rows from step `begins` on: nearly always they are those of before."""
    first = np.frombuffer(rows, dtype=ROW)
    return _course(np.arange(begins, begins + len(first)), first, None, warm, world)


class FirstSteps(NamedTuple):
    """The first steps of the attempt that a job is compared with, on both clocks.

    `hosts_ahead` says whether devices time steps of that attempt, or of the newest one.
    """

    attempt: Attempt
    on_hosts: Course
    on_devices: Course
    hosts_ahead: bool

    @property
    def clock(self) -> StepClock:
        """The devices' clock where it timed nearly all of the steps."""
        timed = len(self.on_devices.steps)
        return DEVICE if timed and timed >= LEAST_SHARE * len(self.on_hosts.steps) else HOST

    def baseline(self, clock: StepClock) -> Course:
        """Its steps on that clock; empty if too few.

        Empty on the hosts' clock, too, where devices time steps: there a host's steps are no
        measure.
        """
        course = self.on_devices if clock == DEVICE else self.on_hosts
        silent = clock == HOST and self.hosts_ahead
        is_usable = len(course.steps) >= LEAST_BASELINE_STEPS and not silent
        return course if is_usable else course.part(slice(0))


def first_steps(job: LiveJob) -> FirstSteps:
    """The first steps of the oldest attempt with the size and tokens per step of the newest one,
    else of that one itself.

    Where tokens are not known a restart may have changed what a step holds.
    """
    newest = job.current
    compared, baseline = newest, _first_on_hosts(newest)
    tokens = _tokens_per_step(baseline)
    for attempt, _ in job.ordered() if tokens > 0 else ():
        if attempt is newest:
            break
        if attempt.world != newest.world:
            continue
        course = _first_on_hosts(attempt)
        if abs(_tokens_per_step(course) / tokens - 1) < SAME_TOKENS:
            compared, baseline = attempt, course
            break
    ahead = hosts_run_ahead(compared) or hosts_run_ahead(newest)
    timed = compared.tracker(DeviceSteps).lengths.any
    on_devices = course_of(compared, _FIRST_STEPS, DEVICE) if timed else baseline.part(slice(0))
    return FirstSteps(compared, baseline, on_devices, ahead)


def _tokens_per_step(first: Course) -> float:
    """Median over the first steps; NaN while there are too few, 0 where it is not recorded."""
    tokens = first.tokens
    return median(tokens) if len(tokens) >= LEAST_BASELINE_STEPS else math.nan


_FIRST_STEPS = slice(WARMUP_STEPS, WARMUP_STEPS + BASELINE_STEPS)
SAME_TOKENS = 0.05
"""Texts of many lengths give medians over 20 steps that differ a little."""

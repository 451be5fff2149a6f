"""An attempt's speed from its undisturbed steps, and the reference steps for a job."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

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
from stepwatch.collector.statistics.medians import median
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import StepFlag

_PAUSED = StepFlag.FIRST | StepFlag.AFTER_PAUSE | StepFlag.UNFINISHED


class Course(NamedTuple):
    """Steps without pauses in ascending order; arrays (steps,).

    The fields are number, end (Unix seconds), the slowest rank's seconds without checkpoint and
    evaluation, and tokens over all ranks (0 if unknown).
    """

    steps: Integers
    end_s: Vector
    seconds: Vector
    tokens: Vector

    def slowdown(self, baseline: Course) -> Vector:
        """Return each step's duration relative to the median in `baseline`, per token if known."""
        longer = self.seconds / baseline.seconds.dtype.type(median(baseline.seconds))
        if not len(baseline.tokens) or not (baseline.tokens > 0).all():
            return np.asarray(longer)
        per_token = self.seconds / np.maximum(self.tokens, 1.0)
        usual = median(baseline.seconds / baseline.tokens)
        return np.asarray(np.where(self.tokens > 0, np.minimum(longer, per_token / usual), longer))

    def tokens_per_second(self) -> float:
        """Return the median over the steps; NaN without known tokens."""
        counted = (self.tokens > 0) & (self.seconds > 0)
        speeds = self.tokens[counted] / self.seconds[counted]
        return median(speeds)

    def part(self, steps: slice) -> Course:
        """Return some of the steps."""
        return Course(self.steps[steps], self.end_s[steps], self.seconds[steps], self.tokens[steps])


def course_of(
    attempt: Attempt, steps: slice, clock: StepClock = HOST, unobserved: int = 0
) -> Course:
    """Return the rows in a step history slice that all ranks reported without a pause.

    On the device clock, only steps that every device timed. With `unobserved` ranks, the steps that
    all others reported; their tokens are unknown.
    """
    numbers, rows = attempt.steps.history.part(steps)
    warm, seconds = attempt.steps.history.first + WARMUP_STEPS, None
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
    """Return the usable `rows` from step `warm` on; `on_device` None is the host clock."""
    good = (rows["reported"] >= world - unobserved) & (rows["flags"] & _PAUSED == 0)
    good &= (rows["longest"] > 0) & (numbers >= warm)
    seconds = rows["longest"] if on_device is None else on_device
    if on_device is not None:
        good &= ~np.isnan(seconds)
    # Columns are filtered, not rows: only these columns are needed.
    ends = rows["end_wall_ns"][good] / NANOSECONDS
    tokens = rows["tokens"][good].astype(np.float64)
    if unobserved:
        tokens[rows["reported"][good] < world] = 0.0
    return Course(numbers[good], ends, seconds[good], tokens)


def _first_on_hosts(attempt: Attempt) -> Course:
    """Return `course_of` an attempt's first steps, on the host clock."""
    history = attempt.steps.history
    numbers, rows = history.part(_FIRST_STEPS)
    begins = int(numbers[0]) if len(numbers) else 0
    return _known_first(rows.tobytes(), begins, history.first + WARMUP_STEPS, attempt.world)


@lru_cache(maxsize=1024)
def _known_first(rows: bytes, begins: int, warm: int, world: int) -> Course:
    """Return the course for serialized rows from step `begins` on.

    Cached, as rows rarely change.
    """
    first = np.frombuffer(rows, dtype=ROW)
    return _course(np.arange(begins, begins + len(first)), first, None, warm, world)


class FirstSteps(NamedTuple):
    """The reference attempt's first steps, on both clocks.

    `hosts_ahead` tells whether devices time steps in that attempt or in the newest one.
    """

    attempt: Attempt
    on_hosts: Course
    on_devices: Course
    hosts_ahead: bool

    @property
    def clock(self) -> StepClock:
        """The device clock if it timed nearly all steps."""
        timed = len(self.on_devices.steps)
        return DEVICE if timed and timed >= LEAST_SHARE * len(self.on_hosts.steps) else HOST

    def baseline(self, clock: StepClock) -> Course:
        """Return the steps on a clock; empty if there are too few.

        The host clock's baseline is also empty where devices time steps: host times are then no
        measure.
        """
        course = self.on_devices if clock == DEVICE else self.on_hosts
        silent = clock == HOST and self.hosts_ahead
        is_usable = len(course.steps) >= LEAST_BASELINE_STEPS and not silent
        return course if is_usable else course.part(slice(0))


def first_steps(job: LiveJob) -> FirstSteps:
    """Return the oldest comparable attempt's first steps, else the newest attempt's own.

    Comparable attempts have the newest one's size and tokens per step. Without known tokens, a
    restart may have changed the batch, so no earlier attempt is comparable.
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
    """Return the median over the first steps; NaN with too few, 0 if not recorded."""
    tokens = first.tokens
    return median(tokens) if len(tokens) >= LEAST_BASELINE_STEPS else math.nan


_FIRST_STEPS = slice(WARMUP_STEPS, WARMUP_STEPS + BASELINE_STEPS)
SAME_TOKENS = 0.05
"""Tolerance for tokens per step: variable text lengths shift medians over 20 steps slightly."""

"""Device-time outside steps: before the first, after the last, and until the next run.

All of it is lost. It counts as it passes; once a step ends that includes it, it is that step's.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.registry import STALL_SECONDS, STALL_TIMES
from stepwatch.signals.arrays import Vector

from .causes import Spent

_GRID = ((10, 3600), (300, 86_400), (3600, 400 * 86_400))
"""Piece length in seconds, in the first hour of a tail, the first day, and after."""


class Tail(NamedTuple):
    """Time from `begins_s` to `ends_s` (Unix seconds) in which `devices` devices made no step."""

    cause: Spent
    begins_s: float
    ends_s: float
    devices: int

    @property
    def seconds(self) -> float:
        """Device-seconds."""
        return (self.ends_s - self.begins_s) * self.devices

    def pieces(self) -> tuple[Vector, Vector]:
        """Return the pieces' middles (pieces,), Unix seconds, and their device-seconds.

        They end at whole multiples of their length, so all but the last stay unchanged while a tail
        grows: from 7 to 31 s there are pieces of 3, 10, 10 and 1 s.
        """
        edges = [self.begins_s]
        for length, until in _GRID:
            last = min(self.ends_s, self.begins_s + until)
            first = math.floor(edges[-1] / length) + 1
            edges += (np.arange(first, math.ceil(last / length)) * length).tolist()
        ends = np.array([*edges[1:], self.ends_s]) if self.ends_s > self.begins_s else np.zeros(0)
        begins = np.array(edges[: len(ends)])
        return (begins + ends) / 2, (ends - begins) * self.devices


class Run(NamedTuple):
    """Times of a run; Unix seconds, None while unknown.

    `last_s` is the end of its last step, or its start, by the wall clock; `last_unset_s` the same
    by the clocks' setting at the start. So are `over_s`, the last rank's end, and `seen_s`, the
    last agent reading of a run without a successor. `usual_s` is a usual step, NaN while unknown, 0
    before the first one. `next_began_s` is the next run's start, `next_allocated_s` the start of
    its device allocation.
    """

    devices: int
    has_steps: bool
    last_s: float
    last_unset_s: float
    usual_s: float
    over_s: float | None
    seen_s: float | None
    next_began_s: float | None = None
    next_allocated_s: float | None = None
    finished: bool = False
    """Whether it reached its end: then its ranks' time after the last step is not a stall."""
    evaluated_s: float = 0.0
    """When a rank was last seen in an evaluation, if the run continues; 0 if never.

    By the clocks' setting at the run's start.
    """
    saved_s: float = 0.0
    """When a rank was last seen in a save; likewise."""


def tails_of(run: Run) -> Iterator[Tail]:
    """Yield the time after a run's last step.

    Until its ranks ended it is a stall, if it is longer than a step may take; after a finished run
    it is unknown, as a last save or evaluation is not in a step. Time up to a seen evaluation or
    save is not a stall. Then, until the next run began, it is idle, if the devices were held.

    Worked example: the last step ended at 100 s, the ranks at 160 s, the next run began at 175 s
    and its devices have been held since 0 s -> a stall from 100 to 160 s, idle to 175 s.
    """
    devices_held = run.next_began_s is not None and run.next_allocated_s is not None
    devices_held = devices_held and run.next_allocated_s < run.next_began_s  # type: ignore[operator]
    stood_until = run.over_s if run.over_s is not None else run.seen_s
    lasted = (stood_until or run.last_unset_s) - run.last_unset_s
    least = max(STALL_SECONDS, 0.0 if math.isnan(run.usual_s) else STALL_TIMES * run.usual_s)
    last = run.last_s
    if lasted > (least if run.has_steps else 0.0):
        stood = Spent.UNKNOWN if run.finished else Spent.STALL
        cause = stood if run.has_steps else Spent.START_UP
        paused = max(run.evaluated_s, run.saved_s) - run.last_unset_s
        if run.has_steps and paused > 0:
            marked = Spent.EVALUATION if run.evaluated_s > run.saved_s else Spent.CHECKPOINT_STALL
            yield Tail(marked, last, last + paused, run.devices)
            last, lasted = last + paused, lasted - paused
        if lasted > (least if run.has_steps else 0.0):
            yield Tail(cause, last, last + lasted, run.devices)
        last += lasted
    if devices_held:
        assert run.next_began_s is not None and run.next_allocated_s is not None
        begins = max(last, run.next_allocated_s)
        cause = Spent.STALL if run.over_s is None else Spent.IDLE_ALLOCATED
        if run.next_began_s > begins:
            yield Tail(cause, begins, run.next_began_s, run.devices)

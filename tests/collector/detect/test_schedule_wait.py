"""What stages may wait by their work and their schedule: no more than a schedule without gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect.slow_collective.stages import microbatches_by, schedule_wait
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.state.trackers.communication.collective_records import CALL
from stepwatch.signals.arrays import Vector

STAGES = 4


def stage_window(forward: Vector, data: float = 0.0) -> Window:
    """One step of four stages of a rank each, whose backward takes twice as long as `forward`;
    rank 0 loads data."""
    planes = {name: np.zeros((1, STAGES), dtype=np.float32) for name in WORK}
    planes["forward"][0], planes["backward"][0] = forward, 2.0 * forward
    planes["data"][0, 0] = data
    flags, stage = np.zeros((1, STAGES), dtype=np.uint16), np.arange(STAGES, dtype=np.int16)
    return Window(np.zeros(1, dtype=np.int64), planes, flags, stage)


def simulated(forward: Vector, microbatches: int) -> float:
    """Seconds of all forwards and then all backwards, where transfers take none."""
    length = 0.0
    for work in (forward, 2.0 * forward[::-1]):
        ends_s = np.zeros(microbatches)
        for stage in work / microbatches:
            for index in range(microbatches):
                ends_s[index] = max(ends_s[index], ends_s[index - 1] if index else 0.0) + stage
        length += float(ends_s[-1])
    return length


def test_the_worked_example() -> None:
    waits = schedule_wait(stage_window(np.full(STAGES, 0.2 / 3)), range(STAGES), 8.0)
    assert waits == pytest.approx([0.075], abs=1e-6)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 16))
def test_it_is_what_a_schedule_without_transfers_takes(seed: int, microbatches: int) -> None:
    forward = np.random.default_rng(seed).uniform(0.1, 1.0, STAGES)
    (wait,) = schedule_wait(stage_window(forward), range(STAGES), microbatches)
    waits = simulated(forward, microbatches) - float(3.0 * forward.mean())
    assert wait == pytest.approx(waits, abs=1e-5)
    (longer,) = schedule_wait(stage_window(forward, data=0.5), range(STAGES), microbatches)
    assert longer == pytest.approx(wait + 0.5, abs=1e-5), "the others wait for who loads data"


def test_microbatches_are_those_of_the_schedule_or_those_that_are_sent() -> None:
    sends = np.zeros(3, dtype=CALL)
    sends["count"] = 8
    assert microbatches_by(3 / 11, 4, sends[:0]) == pytest.approx(8.0)
    assert microbatches_by(None, 4, sends) == 8.0
    assert microbatches_by(None, 4, sends[:0]) == 1.0

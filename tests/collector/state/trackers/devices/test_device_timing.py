"""Ranks say whether their device times their steps, and why not."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.signals.records import Kind
from tests.collector.made import segment, state_rows, timing_rows


def test_which_ranks_are_timed_and_why_the_others_are_not() -> None:
    attempt = Attempt(0)
    rows = [
        timing_rows(range(4), time_s=1.0),
        timing_rows([2, 3], b"event pool is dry", time_s=2.0),
        timing_rows([1], b"device lost", time_s=2.0),
        timing_rows([9, -1], b"no such rank", time_s=2.0),
    ]
    tables = {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.LIFECYCLE: np.concatenate(rows)}
    attempt.apply(segment(1, tables), Received(0.0, 0.0))
    timing = attempt.tracker(DeviceTiming)
    assert (timing.untimed(range(4)), timing.devices()) == ([1, 2, 3], ["sim"])
    assert timing.reason([1, 2, 3]) == "ranks 2-3: event pool is dry; rank 1: device lost"
    assert (timing.reason([0]), timing.reason([7])) == ("rank 0: sim", "")
    assert attempt.refused_records == 2
    assert attempt.lifecycle.events == [], "they are not among starts and ends"

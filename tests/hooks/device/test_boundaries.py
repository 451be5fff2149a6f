"""Which boundaries are recorded, and what happens where one cannot be."""

from __future__ import annotations

import pytest

from stepwatch.hooks.core import COLLECTIVE, MERGED_NS
from stepwatch.hooks.device import marks as module
from stepwatch.hooks.device.boundaries import ClosedStep
from stepwatch.hooks.device.marks import (
    AHEAD_STEPS,
    CLOSEST_NS,
    LOOK_EVERY,
    MERGED_AFTER_STEP_NS,
    DeviceMarks,
)
from stepwatch.hooks.device.pool import RESERVED, EventPool
from stepwatch.signals.records import DeviceFlag, Phase

from .scripted import ScriptedDevice, Stream, ignore

OTHER, DATA, FORWARD, BACKWARD = (
    int(phase) for phase in (Phase.OTHER, Phase.DATA, Phase.FORWARD, Phase.BACKWARD)
)


class Rank:
    """Boundaries on a scripted device, and what failed."""

    def __init__(self, most: int = 2048, record_ns: int = 0) -> None:
        self.device = ScriptedDevice()
        self.device.record_ns = record_ns
        self.reasons: list[str] = []
        pool = EventPool(self.device.backend.new_event, most)
        self.marks = DeviceMarks(self.device.backend, pool, self.reasons.append, self.device.clock)
        self.marks.begin(self.device.now, OTHER)

    def buckets(self) -> list[int]:
        return self.marks.open.buckets

    def end(self, step: int = 0, duration: int = 10**8) -> ClosedStep:
        return self.marks.end_step(self.device.now, step, duration, OTHER)


@pytest.fixture
def rank() -> Rank:
    return Rank()


def test_phases_that_follow_each_other_at_once_share_a_boundary(rank: Rank) -> None:
    for phase in (DATA, FORWARD, BACKWARD):
        rank.marks.mark(rank.device.now, phase)
        rank.device.host(10**6)
        rank.marks.back_to(rank.device.now, OTHER)
        rank.device.host(MERGED_NS - 1)
    assert rank.buckets() == [OTHER, DATA, FORWARD, BACKWARD, OTHER]
    rank.device.host(10)
    rank.marks.mark(rank.device.now, DATA)
    assert rank.buckets()[-2:] == [OTHER, DATA]


def test_a_phase_that_is_left_at_once_keeps_its_boundaries(rank: Rank) -> None:
    rank.marks.mark(rank.device.now, DATA)
    rank.marks.back_to(rank.device.now, OTHER)
    assert rank.buckets() == [OTHER, DATA, OTHER]


def test_a_collective_at_the_end_of_a_phase_ends_with_it_and_so_does_the_step(rank: Rank) -> None:
    rank.marks.mark(rank.device.now, BACKWARD)
    rank.device.host(10**6)
    rank.marks.enter_collective(rank.device.now, (1, 1))
    rank.device.host(10**6)
    recorded = rank.device.recorded
    rank.marks.leave_collective(rank.device.now, BACKWARD)
    rank.device.host(MERGED_NS // 2)
    rank.marks.back_to(rank.device.now, OTHER)
    rank.device.host(MERGED_NS // 2 - 1)
    closed = rank.end()
    assert rank.device.recorded == recorded + 1
    assert closed.boundaries.buckets == [OTHER, BACKWARD, COLLECTIVE, OTHER]
    assert closed.boundaries.keys == [None, None, (1, 1), None]


def test_a_phase_right_after_the_end_of_a_step_begins_there(rank: Rank) -> None:
    rank.device.host(10**6)
    closed = rank.end()
    rank.device.host(MERGED_AFTER_STEP_NS - 1)
    rank.marks.mark(rank.device.now, DATA)
    assert (closed.boundaries.buckets, rank.buckets()) == ([OTHER, OTHER], [DATA])
    rank.device.host(1)
    assert len(rank.end().boundaries.events) == 2


def test_a_step_that_ends_right_after_the_one_before_has_an_end_of_its_own(rank: Rank) -> None:
    rank.device.host(10**6)
    first, second = rank.end(), rank.end(step=1)
    assert second.complete
    assert first.boundaries.events[-1] is second.boundaries.events[0]
    assert second.boundaries.events[-1] is not second.boundaries.events[0]


def test_the_end_of_a_step_begins_the_next(rank: Rank) -> None:
    rank.device.host(10)
    closed = rank.end(step=7)
    assert (closed.step, closed.complete, closed.ended) == (7, True, True)
    assert closed.boundaries.events[-1] is rank.marks.open.events[0]
    assert rank.buckets() == [OTHER]


def test_marks_inside_a_phase_keep_their_distance(rank: Rank) -> None:
    rank.marks.mark(rank.device.now, FORWARD)
    rank.device.host(CLOSEST_NS - 1)
    rank.marks.inside(rank.device.now, FORWARD)
    assert rank.buckets() == [OTHER, FORWARD]
    rank.device.host(1)
    rank.marks.inside(rank.device.now, FORWARD)
    assert rank.buckets() == [OTHER, FORWARD, FORWARD]


@pytest.mark.parametrize(("ahead", "marked"), [(AHEAD_STEPS - 1, 16), (AHEAD_STEPS, 2)])
def test_a_device_that_never_waits_needs_few_marks_inside_a_phase(
    rank: Rank, ahead: int, marked: int
) -> None:
    rank.marks.ahead = ahead
    mark_counts = []
    for step in range(2 * LOOK_EVERY):
        rank.device.host(CLOSEST_NS)
        rank.marks.inside(rank.device.now, OTHER)
        mark_counts.append(len(rank.end(step).boundaries.events) - 2)
    assert sum(mark_counts) == marked


def test_the_model_tells_the_phase_only_where_the_trainer_names_none(rank: Rank) -> None:
    rank.marks.infer(rank.device.now, OTHER, FORWARD)
    rank.marks.mark(rank.device.now, DATA)
    rank.device.host(10**6)
    rank.marks.back_to(rank.device.now, OTHER)
    assert rank.buckets() == [OTHER, FORWARD, DATA, FORWARD]
    rank.marks.infer(rank.device.now, DATA, BACKWARD)
    assert rank.buckets() == [OTHER, FORWARD, DATA, FORWARD]


def test_collectives_on_another_stream_cost_the_compute_stream_nothing(rank: Rank) -> None:
    rank.device.current = Stream(5)
    rank.marks.enter_collective(rank.device.now, (1, 1))
    rank.marks.leave_collective(rank.device.now, FORWARD)
    assert rank.buckets() == [OTHER]
    assert rank.end().counts == {}


def test_where_a_short_step_has_many_collectives_every_fourth_step_is_timed_whole(
    rank: Rank,
) -> None:
    called = 3 * module.LEAST_TIMED
    timed = []
    for step in range(6, 16):
        for _ in range(called):
            rank.device.host(10**5)
            rank.marks.enter_collective(rank.device.now, (1, 1))
            rank.device.host(10**5)
            rank.marks.leave_collective(rank.device.now, OTHER)
        closed = rank.end(step, duration=10**7)
        assert closed.counts == {(1, 1): called}
        in_collectives = closed.boundaries.buckets.count(COLLECTIVE)
        assert in_collectives == (0 if closed.flags & DeviceFlag.INCOMPLETE else called)
        timed += [step] if in_collectives else []
        rank.marks.pool.free += closed.boundaries.events[:-1]
    assert timed == [6, 8, 12], "the first, and then those that other ranks time"


def test_in_a_long_step_every_collective_is_timed(rank: Rank) -> None:
    for step in range(2):
        for _ in range(3 * module.LEAST_TIMED):
            rank.marks.enter_collective(rank.device.now, (1, 1))
            rank.device.host(10**5)
            rank.marks.leave_collective(rank.device.now, OTHER)
            rank.device.host(10**5)
        closed = rank.end(step, duration=10**9)
        assert not closed.flags
        assert closed.boundaries.buckets.count(COLLECTIVE) == 192


@pytest.mark.parametrize(
    ("record_ns", "timed"), [(500, [0, 1, 2, 3, 4]), (9_500, [0, 2, 4]), (10**6, [0, 4])]
)
def test_marks_of_collectives_cost_a_thousandth_of_the_steps_however_slow_the_driver(
    record_ns: int, timed: list[int]
) -> None:
    rank, incomplete_steps = Rank(record_ns=record_ns), []
    for step in range(5):
        for _ in range(200):
            rank.marks.enter_collective(rank.device.now, (1, 1))
            rank.device.host(10**5)
            rank.marks.leave_collective(rank.device.now, OTHER)
            rank.device.host(10**5)
        closed = rank.end(step, duration=2 * 10**9)
        incomplete_steps += [] if closed.flags & DeviceFlag.INCOMPLETE else [step]
        rank.marks.pool.free += closed.boundaries.events[:-1]
    assert incomplete_steps == timed


def test_a_dry_pool_skips_boundaries_and_keeps_ends() -> None:
    rank = Rank(most=RESERVED + 2)
    for _ in range(3):
        rank.device.host(10**6)
        rank.marks.mark(rank.device.now, FORWARD)
    closed = rank.end()
    assert closed.boundaries.buckets == [OTHER, FORWARD, OTHER]
    assert closed.flags == DeviceFlag.INCOMPLETE
    assert closed.complete


def test_a_step_without_its_end_is_not_whole_nor_is_the_next() -> None:
    rank = Rank(most=RESERVED + 1)
    closed = [rank.end(step) for step in range(RESERVED)]
    assert all(step.complete for step in closed)
    lost = rank.end()
    assert (lost.complete, lost.ended) == (False, False)
    rank.marks.pool.free.extend(step.boundaries.events[0] for step in closed)
    rank.device.host(10)
    rank.marks.mark(rank.device.now, FORWARD)
    assert [rank.end().complete, rank.end().complete] == [False, True]
    assert rank.reasons == []


def test_nothing_is_recorded_while_a_graph_is_captured(rank: Rank) -> None:
    rank.device.capturing = True
    recorded_before = rank.device.recorded
    rank.marks.mark(rank.device.now, FORWARD)
    rank.marks.back_to(rank.device.now, OTHER)
    rank.device.capturing = False
    assert rank.device.recorded == recorded_before
    assert rank.end().flags == DeviceFlag.CAPTURED


def test_what_comes_before_the_first_step_is_recorded_nowhere() -> None:
    device = ScriptedDevice()
    marks = DeviceMarks(device.backend, EventPool(device.backend.new_event), ignore, device.clock)
    marks.mark(device.now, DATA)
    marks.enter_collective(device.now, (0, 1))
    marks.leave_collective(device.now, OTHER)
    marks.back_to(device.now, OTHER)
    assert marks.pool.made == 0
    marks.begin(device.now, OTHER)  # within the time in which two boundaries are one
    device.host(1)
    marks.mark(device.now, FORWARD)
    assert marks.open.buckets == [OTHER, FORWARD]
    device.host(10**6)
    assert marks.end_step(device.now, 0, 10**6, OTHER).counts == {}


def test_a_step_that_ends_inside_a_capture_keeps_its_stream(rank: Rank) -> None:
    rank.device.capturing, rank.device.current = True, Stream()
    rank.end()
    assert rank.marks.stream is rank.device.stream


def test_an_event_that_is_taken_in_between_is_made_anew(rank: Rank) -> None:
    class Raced(list[object]):
        def pop(self, *_index: object) -> object:
            raise IndexError("pop from empty list")

    rank.marks.pool.free = Raced([object()])  # type: ignore[assignment]
    rank.device.host(10**6)
    assert rank.marks.mark(rank.device.now, DATA)
    assert rank.reasons == []


def test_events_that_fail_end_the_timing_with_the_first_reason(rank: Rank) -> None:
    rank.device.lost = True
    rank.marks.mark(rank.device.now, FORWARD)
    rank.marks.mark(rank.device.now, BACKWARD)
    rank.marks.enter_collective(rank.device.now, (1, 1))
    assert not rank.end().complete
    assert rank.reasons == ["RuntimeError: device lost"]

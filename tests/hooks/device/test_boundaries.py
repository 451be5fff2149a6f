"""Which boundaries are recorded, and what happens where one cannot be."""

from __future__ import annotations

import pytest

from stepwatch.hooks.device import boundaries as module
from stepwatch.hooks.device.boundaries import CLOSEST_NS, MERGED_NS, Boundaries
from stepwatch.hooks.device.pool import RESERVED, EventPool
from stepwatch.hooks.recorder.timeline import COLLECTIVE
from stepwatch.signals.records import DeviceFlag, Phase

from .scripted import ScriptedDevice, Stream

OTHER, DATA, FORWARD, BACKWARD = (
    int(phase) for phase in (Phase.OTHER, Phase.DATA, Phase.FORWARD, Phase.BACKWARD)
)


class Rank:
    """Boundaries on a scripted device, and what failed."""

    def __init__(self, most: int = 2048) -> None:
        self.device = ScriptedDevice()
        self.reasons: list[str] = []
        pool = EventPool(self.device.backend.new_event, most)
        self.boundaries = Boundaries(self.device.backend, pool, self.reasons.append)
        self.boundaries.begin(self.device.now, OTHER)

    def buckets(self) -> list[int]:
        return [one.bucket for one in self.boundaries.open]

    def end(self, step: int = 0, duration: int = 10**8) -> module.ClosedStep:
        return self.boundaries.end_step(self.device.now, step, duration, OTHER)


@pytest.fixture
def rank() -> Rank:
    return Rank()


def test_phases_that_follow_each_other_at_once_share_a_boundary(rank: Rank) -> None:
    for phase in (DATA, FORWARD, BACKWARD):
        rank.boundaries.mark(rank.device.now, phase)
        rank.device.host(10**6)
        rank.boundaries.back_to(rank.device.now, OTHER)
        rank.device.host(MERGED_NS - 1)
    assert rank.buckets() == [OTHER, DATA, FORWARD, BACKWARD, OTHER]
    rank.device.host(10)
    rank.boundaries.mark(rank.device.now, DATA)
    assert rank.buckets()[-2:] == [OTHER, DATA]


def test_a_phase_that_is_left_at_once_keeps_its_boundaries(rank: Rank) -> None:
    rank.boundaries.mark(rank.device.now, DATA)
    rank.boundaries.back_to(rank.device.now, OTHER)
    assert rank.buckets() == [OTHER, DATA, OTHER]


def test_the_end_of_a_step_begins_the_next(rank: Rank) -> None:
    rank.device.host(10)
    closed = rank.end(step=7)
    assert (closed.step, closed.whole, closed.ended) == (7, True, True)
    assert closed.boundaries[-1] is rank.boundaries.open[0]
    assert rank.buckets() == [OTHER]


def test_marks_inside_a_phase_keep_their_distance(rank: Rank) -> None:
    rank.boundaries.mark(rank.device.now, FORWARD)
    rank.device.host(CLOSEST_NS - 1)
    rank.boundaries.inside(rank.device.now, FORWARD)
    assert rank.buckets() == [OTHER, FORWARD]
    rank.device.host(1)
    rank.boundaries.inside(rank.device.now, FORWARD)
    assert rank.buckets() == [OTHER, FORWARD, FORWARD]


def test_the_model_tells_the_phase_only_where_the_trainer_names_none(rank: Rank) -> None:
    rank.boundaries.infer(rank.device.now, OTHER, FORWARD)
    rank.boundaries.mark(rank.device.now, DATA)
    rank.device.host(10**6)
    rank.boundaries.back_to(rank.device.now, OTHER)
    assert rank.buckets() == [OTHER, FORWARD, DATA, FORWARD]
    rank.boundaries.infer(rank.device.now, DATA, BACKWARD)
    assert rank.buckets() == [OTHER, FORWARD, DATA, FORWARD]


def test_collectives_on_another_stream_cost_the_compute_stream_nothing(rank: Rank) -> None:
    rank.device.current = Stream(5)
    rank.boundaries.enter_collective(rank.device.now, (1, 1))
    rank.boundaries.leave_collective(rank.device.now, FORWARD)
    assert rank.buckets() == [OTHER]
    assert rank.end().counts == {}


def test_of_many_collectives_in_a_short_step_others_are_timed_each_time(rank: Rank) -> None:
    timed: list[set[int]] = []
    for step in range(4):
        chosen = set()
        for number in range(3 * module.TIMED_COLLECTIVES):
            before = len(rank.boundaries.open)
            rank.device.host(10**5)
            rank.boundaries.enter_collective(rank.device.now, (1, 1))
            rank.device.host(10**5)
            if len(rank.boundaries.open) > before:
                chosen.add(number)
            rank.boundaries.leave_collective(rank.device.now, OTHER)
        closed = rank.end(step, duration=10**7)
        assert closed.counts == {(1, 1): 3 * module.TIMED_COLLECTIVES}
        assert bool(closed.flags & DeviceFlag.INCOMPLETE) == (step > 0)
        timed.append(chosen)
    assert len(timed[0]) == 3 * module.TIMED_COLLECTIVES
    assert [len(chosen) for chosen in timed[1:]] == [module.TIMED_COLLECTIVES] * 3
    assert set.union(*timed[1:]) == timed[0]


def test_in_a_long_step_every_collective_is_timed(rank: Rank) -> None:
    for step in range(2):
        for _ in range(3 * module.TIMED_COLLECTIVES):
            rank.boundaries.enter_collective(rank.device.now, (1, 1))
            rank.device.host(10**5)
            rank.boundaries.leave_collective(rank.device.now, OTHER)
            rank.device.host(10**5)
        closed = rank.end(step, duration=10**9)
        assert not closed.flags
        assert [one.bucket for one in closed.boundaries].count(COLLECTIVE) == 192


def test_a_dry_pool_skips_boundaries_and_keeps_ends() -> None:
    rank = Rank(most=RESERVED + 2)
    for _ in range(3):
        rank.device.host(10**6)
        rank.boundaries.mark(rank.device.now, FORWARD)
    closed = rank.end()
    assert [one.bucket for one in closed.boundaries] == [OTHER, FORWARD, OTHER]
    assert closed.flags == DeviceFlag.INCOMPLETE
    assert closed.whole


def test_a_step_without_its_end_is_not_whole_nor_is_the_next() -> None:
    rank = Rank(most=RESERVED + 1)
    closed = [rank.end(step) for step in range(RESERVED)]
    assert all(one.whole for one in closed)
    lost = rank.end()
    assert (lost.whole, lost.ended) == (False, False)
    rank.boundaries.pool.put(one.boundaries[0].event for one in closed)
    rank.device.host(10)
    rank.boundaries.mark(rank.device.now, FORWARD)
    assert [rank.end().whole, rank.end().whole] == [False, True]
    assert rank.reasons == []


def test_nothing_is_recorded_while_a_graph_is_captured(rank: Rank) -> None:
    rank.device.capturing = True
    before = rank.device.recorded
    rank.boundaries.mark(rank.device.now, FORWARD)
    rank.boundaries.back_to(rank.device.now, OTHER)
    rank.device.capturing = False
    assert rank.device.recorded == before
    assert rank.end().flags == DeviceFlag.CAPTURED


def test_events_that_fail_end_the_timing_with_the_first_reason(rank: Rank) -> None:
    rank.device.lost = True
    rank.boundaries.mark(rank.device.now, FORWARD)
    rank.boundaries.mark(rank.device.now, BACKWARD)
    rank.boundaries.enter_collective(rank.device.now, (1, 1))
    assert not rank.end().whole
    assert rank.reasons == ["RuntimeError: device lost"]

"""Steps on a scripted device become rows that say where its time went."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.hooks.core import COLLECTIVE
from stepwatch.hooks.device.marks import DeviceMarks
from stepwatch.hooks.device.pool import EventPool
from stepwatch.hooks.device.resolver import Resolver
from stepwatch.signals.records import BODIES, Kind, Phase

from .scripted import ScriptedDevice, ignore

OTHER, FORWARD, BACKWARD = int(Phase.OTHER), int(Phase.FORWARD), int(Phase.BACKWARD)
MS = 1_000_000
FIELDS = [name for name, _ in BODIES[Kind.DEVICE_STEP]]
PARTS = [name for name in FIELDS[1:] if name.endswith("_seconds") and "idle" not in name][:-2]


class Rank:
    """A rank that marks phases on a scripted device."""

    def __init__(self) -> None:
        self.device = ScriptedDevice()
        pool = EventPool(self.device.backend.new_event)
        self.marks = DeviceMarks(self.device.backend, pool, ignore, self.device.clock)
        self.resolver = Resolver(self.marks)
        self.marks.begin(self.device.now, OTHER)
        self.steps = 0

    def phase(self, bucket: int, host: int, work: int) -> None:
        self.marks.mark(self.device.now, bucket)
        self.device.work(work)
        self.device.host(host)
        self.marks.back_to(self.device.now, OTHER)

    def collective(self, host: int, work: int) -> None:
        self.marks.enter_collective(self.device.now, (9, 1))
        self.device.work(work)
        self.device.host(host)
        self.marks.leave_collective(self.device.now, OTHER)

    def end(self) -> None:
        self.resolver.resolve(self.device.now, most=4)
        self.resolver.add(self.marks.end_step(self.device.now, self.steps, 10**8, OTHER))
        self.steps += 1

    def rows(self, kind: Kind = Kind.DEVICE_STEP) -> list[dict[str, float]]:
        """Rows so far by field, `step` and `time_ns` among them."""
        self.resolver.resolve(self.device.now, most=10**6)
        names = ["step", "time_ns", *(name for name, _ in BODIES[kind])]
        rows = [row for row_kind, row in self.resolver.rows if row_kind == kind]
        return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.fixture
def rank() -> Rank:
    return Rank()


def seconds(ms: float) -> object:
    return pytest.approx(ms / 1e3, abs=1e-6)


def test_a_step_waits_for_its_device_and_for_nothing_else(rank: Rank) -> None:
    rank.phase(FORWARD, 2 * MS, 25 * MS)
    rank.phase(BACKWARD, 2 * MS, 50 * MS)
    rank.end()
    assert rank.rows() == []
    rank.device.synchronise()
    (row,) = rank.rows()
    assert row["step"] == 0
    assert row["forward_seconds"] == seconds(25)
    assert row["forward_idle_seconds"] <= 0.002
    assert row["backward_seconds"] == seconds(50)
    assert row["backward_idle_seconds"] == 0
    assert row["duration_seconds"] == seconds(75)
    assert row["host_lead_seconds"] == seconds(71)
    assert row["boundaries"] == 4


def test_steps_in_a_row_in_which_the_device_never_waited_are_counted(rank: Rank) -> None:
    counted = []
    for wait_count in (1, 0, 0, 0, 1):
        rank.device.host(wait_count * 400 * MS)
        rank.phase(FORWARD, 2 * MS, 25 * MS)
        rank.resolver.add(rank.marks.end_step(rank.device.now, 0, 10**8, OTHER))
    rank.device.synchronise()
    for _ in range(5):
        rank.resolver.resolve(rank.device.now, most=1)
        counted.append(rank.marks.ahead)
    assert counted == [0, 1, 2, 3, 0]


def test_a_host_that_is_late_shows_as_idle_time_of_its_phase(rank: Rank) -> None:
    for _ in range(2):
        rank.marks.mark(rank.device.now, FORWARD)
        rank.device.host(60 * MS)
        rank.device.work(25 * MS)
        rank.marks.back_to(rank.device.now, OTHER)
        rank.device.synchronise()
        rank.end()
    row = rank.rows()[1]
    assert row["forward_seconds"] == seconds(85 - 0)
    assert row["forward_idle_seconds"] == seconds(60)


def test_a_collective_is_the_time_for_which_the_stream_stands_there(rank: Rank) -> None:
    for work in (30, 10):
        rank.phase(FORWARD, MS, 5 * MS)
        rank.collective(MS, work * MS)
    rank.end()
    rank.device.synchronise()
    (row,) = rank.rows()
    assert row["collective_seconds"] == seconds(40)
    (collective,) = rank.rows(Kind.DEVICE_COLLECTIVE)
    assert (collective["group"], collective["op"], collective["count"], collective["timed"]) == (
        9,
        1,
        2,
        2,
    )
    assert collective["exposed_seconds"] == seconds(40)
    assert collective["longest_seconds"] == seconds(30)
    assert collective["first_arrival_ns"] == 10**12 + 5 * MS


STEPS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.sampled_from([FORWARD, BACKWARD, COLLECTIVE, OTHER]),
                st.integers(0, 100 * MS),
                st.integers(0, 100 * MS),
            ),
            max_size=8,
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, rate=st.floats(0.9999, 1.0001))
def test_whatever_a_trainer_does_the_parts_are_the_step(
    steps: list[tuple[list[tuple[int, int, int]], bool]], rate: float
) -> None:
    rank = Rank()
    rank.device.rate = rate
    for phases, synchronises in steps:
        for bucket, host, work in phases:
            rank.phase(bucket, host, work)
        if synchronises:
            rank.device.synchronise()
        rank.device.host(1)
        rank.end()
    rank.device.synchronise()
    rows = rank.rows()
    assert [row["step"] for row in rows] == list(range(len(steps)))
    for row in rows:
        assert sum(row[name] for name in PARTS) == pytest.approx(row["duration_seconds"], abs=1e-9)
        for phase in ("other", "forward", "backward"):
            assert 0 <= row[f"{phase}_idle_seconds"] <= row[f"{phase}_seconds"]
        assert row["clock_error_seconds"] >= 0


def test_events_are_used_again(rank: Rank) -> None:
    for _ in range(100):
        rank.phase(FORWARD, MS, MS)
        rank.phase(BACKWARD, MS, MS)
        rank.device.host(MS)
        rank.end()
    assert len(rank.rows()) >= 98
    assert rank.marks.pool.made <= 20
    assert rank.marks.passed_ns == {}


def test_the_position_stays_exact_over_many_steps(rank: Rank) -> None:
    """Float32 milliseconds since the first step would be off by 30 us after an hour."""
    for _ in range(4000):
        rank.phase(FORWARD, 1_000 * MS + 12_345, MS)
        rank.end()
    row = rank.rows()[-1]
    assert abs(rank.device.now - row["time_ns"]) < 10_000
    assert row["clock_error_seconds"] < 2e-3


def test_a_loss_that_is_read_keeps_the_clocks_together(rank: Rank) -> None:
    for _ in range(5):
        rank.phase(FORWARD, 2 * MS, 25 * MS)
        rank.device.synchronise()
        rank.marks.inside(rank.device.now, OTHER)
        rank.device.host(200_000)
        rank.end()
    assert rank.rows()[-1]["clock_error_seconds"] < 1e-3


def test_a_step_that_lost_its_end_gives_no_row_and_its_events_return(rank: Rank) -> None:
    rank.phase(FORWARD, MS, MS)
    closed = rank.marks.end_step(rank.device.now, 0, 10**8, OTHER)
    rank.resolver.add(closed._replace(complete=False))
    rank.steps = 1
    rank.device.host(10 * MS)
    rank.end()
    rank.device.host(10 * MS)
    assert [row["step"] for row in rank.rows()] == [1]


def test_what_is_resolved_elsewhere_is_left_alone(rank: Rank) -> None:
    rank.end()
    rank.device.host(MS)
    with rank.resolver.lock:
        assert rank.rows() == []
    assert len(rank.rows()) == 1
    assert not math.isnan(rank.rows()[0]["clock_error_seconds"])

"""Growth that ends in an exhausted memory, and all the growth that does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect import memory_growth
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.memory_growth import History
from stepwatch.collector.quantities import quantity
from stepwatch.collector.state.trackers.memory_history import (
    SHORT_DEPTH,
    MemoryHistory,
    Readings,
)
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.names import Cause
from stepwatch.signals.records import Kind, make_rows

LIMITS = memory_growth.LIMITS
MIB = float(1 << 20)
HELD, RANKS, N = 1000 * MIB, 4, SHORT_DEPTH
TIME = np.arange(N, dtype=float)
Values = np.ndarray[tuple[int], np.dtype[np.float64]]


def history(
    values: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    room: float = 10_000 * MIB,
    cause: Cause = Cause.HOST_MEMORY,
    step: int = 50,
) -> History:
    """Readings a second apart of ranks on one node, in bytes."""
    ranks = len(values)
    seconds = np.tile(TIME, (ranks, 1))
    return History(
        seconds,
        values,
        seconds + step,
        np.full(ranks, room),
        np.zeros(ranks, dtype=np.int64),
        cause,
        np.zeros(ranks),
    )


def growing_memory(*growths: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Ranks that hold `HELD` and grow by so many MiB a second each."""
    return HELD + np.outer(np.array(growths), TIME) * MIB


def detect(reported: History) -> list[Finding]:
    return memory_growth.detect(reported, 0, LIMITS)


def test_one_rank_on_its_way_out() -> None:
    (finding,) = detect(history(growing_memory(0, 20, 0, 0)))
    assert (finding.rank, finding.cause, finding.subject) == (1, Cause.HOST_MEMORY, "host")
    assert finding.evidence[-1].value == pytest.approx(500, rel=0.1)
    assert "full in" in finding.summary and finding.began_step == 50


def test_a_rank_and_its_peers_are_shown_in_the_same_unit() -> None:
    (finding,) = detect(history(growing_memory(1, 20, 1, 1)))
    growth = finding.evidence[0]
    assert f"by {quantity(growth.value, growth.unit)}" in finding.summary
    assert growth.against == "peers 1.1 MB per second"


def test_all_ranks_are_one_finding_and_share_the_room() -> None:
    (finding,) = detect(history(growing_memory(20, 20, 20, 20)))
    assert finding.rank == NO_RANK and "4 of 4 ranks" in finding.summary
    assert finding.evidence[-1].value == pytest.approx(125, rel=0.1)


def test_a_device_whose_limit_is_unknown() -> None:
    device = Cause.DEVICE_MEMORY
    (finding,) = detect(history(growing_memory(0, 0, 20, 0), math.nan, device))
    assert (finding.rank, finding.cause) == (2, device)
    assert math.isnan(finding.evidence[-1].value) and "full" not in finding.summary
    assert detect(history(growing_memory(20, 20, 20, 20), math.nan, device)) == []


JUMP = HELD + 500 * MIB * (TIME >= 8)
LEVELS_OFF = HELD + 800 * MIB * (1 - np.exp(-TIME / 4))
SPIKES = HELD + 600 * MIB * (TIME % 4 < 2)
SPIKE_OVER_A_PIECE = HELD + 600 * MIB * ((TIME >= 4) & (TIME < 10))
STAIRS_DOWN = HELD - 30 * MIB * TIME
SMALL = HELD + 2 * MIB * TIME


@pytest.mark.parametrize(
    "values", [JUMP, LEVELS_OFF, SPIKES, SPIKE_OVER_A_PIECE, STAIRS_DOWN, SMALL]
)
def test_what_ends_by_itself_raises_nothing(values: Values) -> None:
    quiet = growing_memory(0, 0, 0, 0)
    quiet[1] = values
    assert detect(history(quiet)) == []
    assert detect(history(np.tile(values, (RANKS, 1)))) == []


def test_a_limit_far_away_the_warm_up_and_missing_readings_raise_nothing() -> None:
    assert detect(history(growing_memory(0, 20, 0, 0), room=1e9 * MIB)) == []
    assert detect(history(growing_memory(0, 20, 0, 0), step=WARMUP_STEPS - 1)) == []
    missing = growing_memory(0, 20, 0, 0)
    missing[1, 0] = np.nan
    assert detect(history(missing)) == []
    assert detect(history(np.zeros((0, N)))) == []


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.02))
def test_noise_is_no_growth_and_hides_none(seed: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    jitter = generator.normal(0, noise * 100 * MIB, (RANKS, N))
    assert detect(history(growing_memory(0, 0, 0, 0) + jitter)) == []
    assert [finding.rank for finding in detect(history(growing_memory(0, 0, 40, 0) + jitter))] == [
        2
    ]


def memory_rows(seconds: Any, sizes: Any, ranks: Any = 0, **columns: Any) -> Rows:
    """RANK_STATE rows with resident memory of these sizes; a step a second, from 50 on."""
    times_ns, steps = np.asarray(seconds) * NANOSECONDS, np.asarray(seconds) + 50
    columns |= {"rank": ranks, "time_ns": times_ns, "step": steps, "resident_bytes": sizes}
    return make_rows(Kind.RANK_STATE, len(sizes), **columns)


@pytest.mark.parametrize(("minutes", "named"), [(2, False), (5, True)])
def test_what_fills_a_memory_in_an_hour_is_named_in_minutes(minutes: int, named: bool) -> None:
    """12 MiB a second of 64 GiB, read each second: a quarter minute of it says too little."""
    memory, seconds = MemoryHistory(), np.arange(60 * minutes)
    memory.resize(1)
    memory.add_states(memory_rows(seconds + 1, HELD + 12 * MIB * seconds))
    node = np.zeros(1, dtype=np.int64)
    findings = [
        finding
        for growth in memory.host
        if growth.full
        for finding in detect(
            History(
                *growth.trend(),
                np.array([64 << 10]) * MIB,
                node,
                Cause.HOST_MEMORY,
                np.zeros(1),
            )
        )
    ]
    assert [finding.rank for finding in findings] == ([0] if named else [])


def test_readings_are_kept_in_order_of_time_and_thinned() -> None:
    readings = Readings(4, 1.0)
    readings.resize(2)
    rows = memory_rows(np.arange(12) // 2 * 0.5, np.arange(12), np.arange(12) % 2)
    readings.add(rows[:5], "resident_bytes")
    assert not readings.full
    readings.add(rows[5:], "resident_bytes")
    trend = readings.trend()
    assert trend.seconds[0].tolist()[1:] == [0.0, 1.0, 2.0] and math.isnan(trend.seconds[0, 0])
    assert trend.bytes[1].tolist()[1:] == [1.0, 5.0, 9.0]
    readings.resize(3)
    assert readings.trend().bytes[1].tolist()[1:] == [1.0, 5.0, 9.0]


@given(
    growths=st.lists(st.floats(-20.0, 40.0), min_size=1, max_size=4),
    more=st.integers(0, 5),
    misses=st.booleans(),
)
def test_memory_that_does_not_span_the_least_growth_is_no_finding(
    growths: list[float], more: int, misses: bool
) -> None:
    readings = Readings(SHORT_DEPTH, 0.9)
    readings.resize(len(growths))
    for second in range(SHORT_DEPTH + more):
        sizes = [max(1.0, HELD + growth * second * MIB) for growth in growths]
        rows = memory_rows(second, sizes, range(len(growths)))
        readings.add(rows[: len(rows) - (misses and second % 2)], "resident_bytes")
    trend = readings.trend()
    memory = history(trend.bytes)._replace(seconds=trend.seconds, steps=trend.steps)
    if detect(memory):
        assert readings.spans(LIMITS.least_bytes)
    flat = all(abs(growth) * (SHORT_DEPTH + more) * MIB < LIMITS.least_bytes for growth in growths)
    assert not (flat and readings.spans(LIMITS.least_bytes))


def test_growth_of_loader_workers_is_that_of_their_rank() -> None:
    memory = MemoryHistory()
    memory.resize(1)
    for second in range(SHORT_DEPTH):
        memory.add_states(memory_rows(second + 1, [HELD], children_bytes=second * 100 * MIB))
    trend, node = memory.host[0].trend(), np.zeros(1, dtype=np.int64)
    children = np.array([(SHORT_DEPTH - 1) * 100 * MIB])
    room = np.array([2000 * MIB])
    (finding,) = detect(History(*trend, room, node, Cause.HOST_MEMORY, children))
    assert "rank 0, mostly in processes that it started, grows by" in finding.summary
    assert "children of rank 0 grew by" in [row.name for row in finding.evidence]
    (until_full,) = (row.value for row in finding.evidence if row.name == "until full")
    assert until_full == pytest.approx(20.0, rel=0.1)

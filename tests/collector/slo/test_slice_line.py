"""A line of slices: windows against a plain sum, replacement, room."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.slo.ladder import AT_ONCE, Rung
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice

PARTS = st.dictionaries(
    st.integers(0, 60), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=40
)


def slices(parts: dict[int, tuple[int, int]]) -> list[Slice]:
    """Slices at these places, of (good, lost) device-seconds and as many records."""
    result, good, total = [], 0.0, 0.0
    for place, (good_s, lost) in sorted(parts.items()):
        good, total = good + good_s, total + good_s + lost
        start = place * SLICE_SECONDS
        result.append(Slice(start, 1, good_s, good_s + lost, good_s, good_s + lost, good, total))
    return result


@given(PARTS, st.integers(-20, 700), st.integers(1, 800))
def test_a_window_is_the_sum_of_its_slices(
    parts: dict[int, tuple[int, int]], now: int, seconds: int
) -> None:
    line_slices = slices(parts)
    inside = [p for p in line_slices if now - seconds - SLICE_SECONDS < p.start_s <= now]
    slice_window = SliceLine(line_slices).window(now, seconds)
    assert slice_window.good == sum(Decimal(part.good) for part in inside)
    assert slice_window.total == sum(Decimal(part.total) for part in inside)
    expected = sum(part.expected for part in inside)
    observed = sum(part.observed for part in inside)
    assert slice_window.coverage == (Decimal(observed) / expected if expected else None)


@given(PARTS, PARTS)
def test_slices_take_the_place_of_those_that_start_when_they_do(
    first: dict[int, tuple[int, int]], second: dict[int, tuple[int, int]]
) -> None:
    line = SliceLine(slices(first))
    line.put(slices(second))
    merged = {part.start_s: part for part in (*slices(first), *slices(second))}
    assert list(line) == [merged[start] for start in sorted(merged)]
    assert len(line) == len(merged)
    slice_window = line.window(1e9, 2e9)
    expected = sum(part.expected for part in merged.values())
    if expected:
        assert slice_window.coverage == Decimal(sum(p.observed for p in merged.values())) / expected


def test_neighbours_of_a_moment() -> None:
    line = SliceLine(slices({0: (1, 0), 5: (2, 0), 9: (3, 0)}))
    assert line.slice_before(0) is None
    assert [part.start_s for part in line.since(50)] == [50, 90]
    previous, last = line.slice_before(50), line.last
    assert previous is not None and previous.start_s == 0
    assert last is not None and last.start_s == 90
    assert SliceLine().last is None


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_a_line_grows(count: int) -> None:
    line_slices = slices({place: (1, 1) for place in range(count)})
    line = SliceLine()
    for part in line_slices:
        line.put([part])
    assert list(line) == line_slices


STEEP = (Rung(50, 600), Rung(200, 3000))
END = 10_000


@pytest.fixture(scope="module")
def coarse() -> tuple[SliceLine, SliceLine]:
    """Slices as they are, and with the old ones joined."""
    parts = slices({place: (1, place % 3) for place in range(END // SLICE_SECONDS)})
    fine, line = SliceLine(parts), SliceLine(parts)
    while coarser := line.coarser(END, STEEP):
        assert len(coarser) <= AT_ONCE
        line.join(coarser)
    return fine, line


def test_old_slices_become_coarser_with_age(coarse: tuple[SliceLine, SliceLine]) -> None:
    fine, line = coarse
    assert [part.seconds for part in line] == [200] * 34 + [50] * 51 + [10] * 65
    ends = {part.start_s + part.seconds: part for part in fine}
    for part in line:
        sums = ends[part.start_s + part.seconds]
        assert part.cumulative_good == sums.cumulative_good
        assert part.cumulative_total == sums.cumulative_total


def test_an_open_slice_stays_as_it_is() -> None:
    line = SliceLine(slices({place: (1, 1) for place in range(END // SLICE_SECONDS)}))
    line.join(line.coarser(1030.0, STEEP))
    assert [part.start_s + part.seconds for part in line if part.seconds > 10][-1] == 1000


def test_a_joined_slice_has_the_highest_version() -> None:
    parts = slices({place: (1, 1) for place in range(END // SLICE_SECONDS)})
    line = SliceLine([*parts[:3], parts[3]._replace(version=2), *parts[4:]])
    line.join(line.coarser(END, STEEP))
    assert [part.version for part in line][:2] == [2, 1]


@given(st.integers(END - 100, END), st.integers(60, END))
def test_a_window_of_coarse_slices_is_that_of_whole_ones(
    coarse: tuple[SliceLine, SliceLine], now: int, seconds: int
) -> None:
    fine, line = coarse
    begins = now - seconds
    start = int(line.starts(np.array([float(begins)]))[0])
    assert line.window(now, seconds) == fine.window(now, now - start)
    assert line.window(now, seconds).total >= fine.window(now, seconds).total


@given(PARTS, st.integers(0, 700), st.integers(0, 3))
def test_slices_with_gaps_are_joined_as_they_are(
    parts: dict[int, tuple[int, int]], cutoff: int, rounds: int
) -> None:
    fine = SliceLine(slices(parts))
    line = SliceLine(slices(parts))
    for _ in range(rounds):
        line.join(line.coarser(cutoff, (Rung(20, 100), Rung(40, 200))))
    assert line.window(1e9, 2e9) == fine.window(1e9, 2e9)
    starts = [part.start_s for part in line]
    assert starts == sorted(set(starts))
    for earlier, later in itertools.pairwise(line):
        assert earlier.start_s + earlier.seconds <= later.start_s

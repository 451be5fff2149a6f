"""The engine against a brute-force oracle on random histories; and limits of SLIs over a run."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.slo.asked.windows import (
    CalendarWindow,
    RollingWindow,
    RunWindow,
    Window,
    shortest_seconds,
)
from stepwatch.collector.slo.objectives import (
    LEAST_SECONDS,
    SHORT_WINDOW_SECONDS,
    Limit,
    Slo,
    TimeSlices,
    evaluate_limit,
    evaluate_slo,
)
from stepwatch.collector.slo.over_run.sli import Reading, unknown
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.states import COVERAGE_FLOOR, SloState
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice

BEGAN = 1_774_000_000 // 3600 * 3600
"""March 2026: a week before clocks are set in Europe."""
DEVICES = 4

HISTORY = st.lists(
    st.tuples(
        st.integers(0, 40),  # slices without a step before this one
        st.integers(0, SLICE_SECONDS * DEVICES * 1000),  # total, in milliseconds
        st.floats(0.0, 1.0),  # share of it that is good
        st.integers(0, 4),  # records that came, of four
    ),
    min_size=1,
    max_size=60,
)
SPANS = st.lists(st.tuples(st.integers(0, 12_000), st.integers(1, 4000)), max_size=3)
WINDOWS = st.one_of(
    st.integers(60, 40_000).map(RollingWindow),
    st.just(RunWindow()),
    st.sampled_from(["d", "w"]).map(
        lambda unit: CalendarWindow(1, unit, datetime(2026, 1, 1), "Europe/Berlin")
    ),
)


def history_of(parts: list[tuple[int, int, float, int]]) -> list[Slice]:
    slices, start, good, total = [], BEGAN, 0.0, 0.0
    for gap, milliseconds, share, came in parts:
        start += gap * SLICE_SECONDS
        all_of_it = milliseconds / 1000
        good_s = round(all_of_it * share, 3)
        good, total = good + good_s, total + all_of_it
        slices.append(Slice(start, 1, good_s, all_of_it, came, 4, good, total))
        start += SLICE_SECONDS
    return slices


def apart(spans: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """Spans of planned work, in rising order and not touching."""
    merged_spans: list[tuple[float, float]] = []
    for first, length in sorted(spans):
        begins = BEGAN + first
        if not merged_spans or begins > merged_spans[-1][1]:
            merged_spans.append((begins, begins + length))
    return merged_spans


def brute(
    slices: list[Slice], begins: float, now: float, without: list[tuple[float, float]]
) -> tuple[Fraction, Fraction, int, int]:
    """Sums of the slices that count, one after the other."""
    good = total = Fraction(0)
    observed = expected = 0
    for part in slices:
        inside = part.start_s <= now and part.start_s + part.seconds > begins
        if inside and not any(first <= part.start_s < until for first, until in without):
            good += Fraction(Decimal(str(part.good)))
            total += Fraction(Decimal(str(part.total)))
            observed, expected = observed + part.observed, expected + part.expected
    return good, total, observed, expected


@settings(max_examples=300, deadline=None)
@given(HISTORY, SPANS, WINDOWS, st.integers(0, 500), st.sampled_from(["0.9", "0.95", "0.999"]))
def test_any_history_is_as_counting_finds(
    parts: list[tuple[int, int, float, int]],
    spans: list[tuple[int, int]],
    window: Window,
    later: int,
    target: str,
) -> None:
    slices, without = history_of(parts), apart(spans)
    now = float(slices[-1].start_s + later)
    slo = Slo("one", "", "goodput", Decimal(target), window)
    slo_status = evaluate_slo(slo, SliceLine(slices), now, (), without)
    begins = window.begins(now, float(slices[0].start_s))
    good, total, observed, expected = brute(slices, begins, now, without)
    if not total:
        assert (
            slo_status.state is SloState.UNKNOWN and slo_status.ratio is None and slo_status.reason
        )
        return
    bad, allowed = total - good, (1 - Fraction(Decimal(target))) * total
    assert slo_status.ratio is not None and slo_status.lost_seconds is not None
    assert Fraction(slo_status.lost_seconds) == bad
    assert abs(Fraction(slo_status.ratio) - good / total) < Fraction(1, 10**20)
    short = brute(slices, now - SHORT_WINDOW_SECONDS, now, without)
    coverage = Fraction(observed, expected) if expected else None
    if short[3]:
        coverage = Fraction(short[2], short[3])
    burn = None
    if short[1]:
        burn = (1 - short[0] / short[1]) / (1 - Fraction(Decimal(target)))
        assert slo_status.burn_rate is not None
        assert abs(Fraction(slo_status.burn_rate) - burn) < Fraction(1, 10**20)
    if coverage is None or coverage < Fraction(COVERAGE_FLOOR):
        expected_state = SloState.FROZEN
    elif now - max(begins, float(slices[0].start_s)) < min(LEAST_SECONDS, shortest_seconds(window)):
        stalled = short[1] > 0 and not short[0] and good > 0
        expected_state = SloState.BURNING if stalled else SloState.TOO_EARLY
    elif bad >= allowed:
        expected_state = SloState.EXHAUSTED
    else:
        expected_state = SloState.BURNING if burn is not None and burn > 1 else SloState.OK
    assert slo_status.state is expected_state


@settings(max_examples=300, deadline=None)
@given(
    HISTORY,
    SPANS,
    WINDOWS,
    st.integers(0, 500),
    st.sampled_from([10, 60, 300]),
    st.sampled_from(["0.5", "0.9", "1"]),
)
def test_slices_of_time_are_as_counting_finds(
    parts: list[tuple[int, int, float, int]],
    spans: list[tuple[int, int]],
    window: Window,
    later: int,
    length: int,
    share: str,
) -> None:
    slices, without = history_of(parts), apart(spans)
    now = float(slices[-1].start_s + later)
    time_slices = TimeSlices(Decimal(share), length)
    slo = Slo("one", "", "goodput", Decimal("0.9"), window, time_slices=time_slices)
    slo_status = evaluate_slo(slo, SliceLine(slices), now, (), without)
    begins = window.begins(now, float(slices[0].start_s))
    good = total = Fraction(0)
    observed = expected = 0
    start = int(begins // length) * length
    while start + length <= now:
        inside = [part for part in slices if start <= part.start_s < start + length]
        # The second that a slice starts in is the last one that is asked for.
        slice_sums = brute(inside, start, math.inf, without)
        observed, expected = observed + slice_sums[2], expected + slice_sums[3]
        if slice_sums[2] >= COVERAGE_FLOOR * slice_sums[3]:
            good += slice_sums[1] if slice_sums[0] >= Fraction(share) * slice_sums[1] else 0
            total += slice_sums[1]
        start += length
    if not total:
        assert slo_status.state is SloState.UNKNOWN and slo_status.ratio is None
        return
    assert slo_status.ratio is not None and slo_status.lost_seconds is not None
    assert Fraction(slo_status.lost_seconds) == total - good
    assert Fraction(slo_status.allowed_seconds or 0) == total * Fraction(1, 10)
    assert abs(Fraction(slo_status.ratio) - good / total) < Fraction(1, 10**20)


def test_a_slice_of_time_counts_once_it_is_over() -> None:
    """Five minutes of which the first ten seconds are bad: half way they would be spoilt, at their
    end they are good; and one with a tenth of its records is neither."""
    parts: list[tuple[int, int, float, int]] = [(0, 40_000, 0.0, 4)] + [(0, 40_000, 1.0, 4)] * 59
    time_slices = TimeSlices(Decimal("0.9"), 300)
    slo = Slo("one", "", "goodput", Decimal("0.9"), RollingWindow(600), time_slices=time_slices)
    slices = history_of(parts)
    assert evaluate_slo(slo, SliceLine(slices[:10]), BEGAN + 100.0).state is SloState.UNKNOWN
    slo_status = evaluate_slo(slo, SliceLine(slices), BEGAN + 600.0)
    assert slo_status.state is SloState.OK and slo_status.ratio == 1
    silent = history_of([*parts[:30], *[(0, 40_000, 0.0, 0)] * 30])
    slo_status = evaluate_slo(slo, SliceLine(silent), BEGAN + 600.0)
    assert slo_status.state is SloState.FROZEN and slo_status.ratio == 1
    # A long good time does not make up for the newest slice of which nothing is known.
    long = history_of([*parts[30:] * 20, *[(0, 40_000, 0.0, 0)] * 30])
    slo_status = evaluate_slo(slo, SliceLine(long), float(long[-1].start_s + 10))
    assert slo_status.coverage == 0 and slo_status.state is SloState.FROZEN


def test_planned_work_counts_for_nothing() -> None:
    slices = history_of([(0, 40_000, 1.0, 4)] * 100 + [(0, 40_000, 0.0, 4)] * 20)
    slo = Slo("one", "", "goodput", Decimal("0.95"), RollingWindow(1000))
    now = float(slices[-1].start_s + 5)
    assert evaluate_slo(slo, SliceLine(slices), now).state is SloState.EXHAUSTED
    planned = [(float(slices[100].start_s), now + 60.0)]
    slo_status = evaluate_slo(slo, SliceLine(slices), now, (), planned)
    assert slo_status.ratio == 1
    assert slo_status.lost_seconds == 0


def limited(op: str, value: str) -> Slo:
    return Slo("one", "", "checkpoint-success", Decimal(1), RunWindow(), Limit(op, Decimal(value)))


@pytest.mark.parametrize(
    ("slo", "reading", "state"),
    [
        (limited("lte", "0.01"), Reading(0.01), SloState.OK),
        (limited("lt", "0.01"), Reading(0.01), SloState.EXHAUSTED),
        (limited("gte", "0.9"), Reading(0.89), SloState.EXHAUSTED),
        (limited("gt", "0.9"), Reading(0.9), SloState.EXHAUSTED),
        (limited("gte", "0.9"), unknown("nobody says"), SloState.UNKNOWN),
        (limited("gte", "0.9"), Reading(0.5, 2, 0.1, 0.95), SloState.TOO_EARLY),
        (limited("gte", "0.9"), Reading(0.5, 50, 0.4, 0.6), SloState.EXHAUSTED),
        (limited("lte", "2"), Reading(5.0, 1, 0.1, 9.0), SloState.TOO_EARLY),
    ],
)
def test_a_limit_is_missed_only_where_no_chance_explains_it(
    slo: Slo, reading: Reading, state: SloState
) -> None:
    slo_status = evaluate_limit(slo, reading)
    assert slo_status.state is state
    assert bool(slo_status.reason) == (state in (SloState.UNKNOWN, SloState.TOO_EARLY))
    assert (slo_status.ratio is None) == math.isnan(reading.value)
    assert slo_status.budget_remaining is None, "a limit has no budget"


def test_a_revision_changes_with_what_is_asked_for_and_not_with_its_name() -> None:
    slo = limited("lte", "0.01")
    assert slo.revision == slo._replace(name="two").revision
    assert slo.revision != limited("lte", "0.02").revision
    assert slo.revision != slo._replace(window=RollingWindow(60)).revision


def test_an_average_of_ratios_would_have_said_fine() -> None:
    """Nine runs take a device for an hour, all of it good, one 1,000 of which a tenth is good: the
    mean of the ratios is 0.91, what devices did is 0.108 of it."""
    good = total = 0.0
    parts, ratios = [], []
    for number, (devices, share) in enumerate([(1, 1.0)] * 9 + [(1000, 0.1)]):
        seconds = devices * 3600.0
        good, total = good + seconds * share, total + seconds
        ratios.append(share)
        parts.append(
            Slice(BEGAN + number * 3600, 1, seconds * share, seconds, 4, 4, good, total, 3600)
        )
    slo = Slo("one", "", "goodput", Decimal("0.9"), RunWindow())
    slo_status = evaluate_slo(slo, SliceLine(parts), BEGAN + 10 * 3600 - 1.0)
    assert sum(ratios) / len(ratios) > 0.9
    assert slo_status.state is SloState.EXHAUSTED
    assert slo_status.ratio is not None and float(slo_status.ratio) == pytest.approx(
        0.108, abs=1e-3
    )

"""Slices against a slow reference; cumulative sums; versions when the past turns bad."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.slo.registry import AttemptSteps, discover
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.slices import RunningSlices, Shares, summed
from stepwatch.collector.slo.slis.step_time import SLOW_STEP_FACTOR
from stepwatch.collector.state.trackers.steps.step_history import PARTS, StepFacts, StepHistory
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice
from tests.collector.made import EPOCH, step_rows

OFFSET = EPOCH * 10**9
SLIS = discover()
SUMS = ("good", "total", "cumulative_good", "cumulative_total")
Step = tuple[float, float, int, bool]
"""Seconds since the step before, longest rank's seconds, ranks that reported, lost."""

# Whole milliseconds: what changes a sum by less than a microsecond is taken for its noise.
MILLISECONDS = st.integers(0, 30_000).map(lambda count: count / 1000)
STEPS = st.lists(
    st.tuples(MILLISECONDS, MILLISECONDS, st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=30,
)


def with_baseline(facts: StepFacts, baseline: float) -> AttemptSteps:
    return AttemptSteps(facts, np.full(len(facts.end_s), baseline))


def step_time_slices(attempts: list[StepFacts], baselines: list[float]) -> list[Slice]:
    with_baselines = map(with_baseline, attempts, baselines)
    return summed([Shares.from_steps(SLIS["step-time"], steps) for steps in with_baselines])


def goodput_slices(attempts: list[StepFacts], baselines: list[float] | None = None) -> list[Slice]:
    with_baselines = map(with_baseline, attempts, baselines or [1.0] * len(attempts))
    return summed([Shares.from_steps(SLIS["goodput"], steps) for steps in with_baselines])


def facts_of(steps: list[Step], began: float = 1000.0, world: int = 4) -> StepFacts:
    gaps_ns = np.rint(np.array([gap for gap, *_ in steps]) * 1e9).astype(np.int64)
    began_ns = round(began * 1e9)
    ends = began_ns + np.cumsum(gaps_ns)
    longest = np.array([seconds if rank_count else 0.0 for _, seconds, rank_count, _ in steps])
    observed = np.array([rank_count for _, _, rank_count, _ in steps])
    lost = np.array([is_lost for *_, is_lost in steps], dtype=np.bool_)
    on_device = np.zeros(len(steps), dtype=np.bool_)
    gaps = gaps_ns / 1e9
    busy = longest * observed
    parts = np.zeros(len(steps), dtype=[(name, "<f4") for name in PARTS])
    tokens = np.full(len(steps), 100)
    facts = (world, began_ns, ends, busy, longest, observed, lost, gaps, on_device, parts, tokens)
    return StepFacts(*facts, np.zeros(len(steps), dtype=np.bool_), np.full(len(steps), world))


def reference(attempts: list[StepFacts], baselines: list[float], sli: str) -> list[Slice]:
    """The same, one step at a time."""
    sums: dict[int, list[float]] = {}
    for facts, baseline in zip(attempts, baselines, strict=True):
        previous_s = facts.began_ns / 1e9
        for index, end in enumerate(facts.end_s):
            cell = sums.setdefault(int(end // SLICE_SECONDS) * SLICE_SECONDS, [0.0, 0.0, 0, 0])
            busy, longest = float(facts.busy[index]), float(facts.longest[index])
            if sli == "step-time":
                total = 0.0 if math.isnan(baseline) else busy
                good = 0.0 if longest > SLOW_STEP_FACTOR * baseline else total
            else:
                total = max(0.0, end - previous_s) * facts.world if facts.observed[index] else 0.0
                stands = longest > max(8.0 * baseline, baseline + 5.0)
                moved = busy * baseline / longest if stands else busy
                good = 0.0 if facts.lost[index] else min(moved, total)
            previous_s = end
            cell[0] += good
            cell[1] += total
            cell[2] += int(facts.observed[index])
            cell[3] += facts.world
    result, cumulative_good, cumulative_total = [], 0.0, 0.0
    for start in sorted(sums):
        good, total, observed, expected = sums[start]
        cumulative_good += good
        cumulative_total += total
        result.append(
            Slice(start, 1, good, total, int(observed), int(expected), cumulative_good,
                  cumulative_total)
        )  # fmt: skip
    return result


@given(first=STEPS, second=STEPS, baseline=st.floats(0.1, 5) | st.just(math.nan))
def test_slices_are_those_of_the_reference(
    first: list[Step], second: list[Step], baseline: float
) -> None:
    attempts = [facts_of(first), facts_of(second, began=1900.0)]
    baselines = [baseline, 1.0]
    for name, actual in (
        ("step-time", step_time_slices(attempts, baselines)),
        ("goodput", goodput_slices(attempts, baselines)),
    ):
        expected = reference(attempts, baselines, name)
        assert len(actual) == len(expected)
        for part, reference_part in zip(actual, expected, strict=True):
            assert part == pytest.approx(reference_part)


@given(first=STEPS, second=STEPS)
def test_any_window_is_the_difference_of_two_sums(first: list[Step], second: list[Step]) -> None:
    slices = goodput_slices([facts_of(first), facts_of(second, began=1500.0)])
    assert [part.start_s for part in slices] == sorted({part.start_s for part in slices})
    for low in range(len(slices)):
        for high in range(low, len(slices)):
            total = sum(part.total for part in slices[low : high + 1])
            earlier_total = slices[low - 1].cumulative_total if low else 0.0
            assert slices[high].cumulative_total - earlier_total == pytest.approx(total, abs=1e-6)
        assert 0 <= slices[low].good <= slices[low].total + 1e-9
        assert slices[low].observed <= slices[low].expected


def test_no_step_is_no_slice() -> None:
    assert step_time_slices([], []) == []
    assert goodput_slices([facts_of([])]) == []


def goodput_line() -> RunningSlices:
    return RunningSlices(SLIS["goodput"])


def accept_changes(running: RunningSlices, attempts: list[StepFacts]) -> list[Slice]:
    """What an evaluation of these attempts changes."""
    slices = running.changed(
        {(n, 0): with_baseline(steps, 1.0) for n, steps in enumerate(attempts)}
    )
    running.accept(slices)
    return slices


def without_versions(slices: Iterable[Slice]) -> list[Slice]:
    """Slices with steps, all of version 1: what `summed` makes."""
    return [part._replace(version=1) for part in slices if part.expected]


def assert_same(actual: list[Slice], brute: list[Slice]) -> None:
    """Counts are the very same. Sums may differ by a microsecond: a slice that changed by less, as
    one does when a sum is taken in another order, is not stored again."""
    assert len(actual) == len(brute)
    for part, reference_part in zip(actual, brute, strict=True):
        for name in Slice._fields:
            actual_value, expected_value = getattr(part, name), getattr(reference_part, name)
            assert (
                abs(actual_value - expected_value) <= 1e-6
                if name in SUMS
                else actual_value == expected_value
            ), name


def test_a_sum_in_another_order_is_no_change() -> None:
    """A fraction of a picosecond is rounding; ten microseconds are steps that changed."""
    running, first = goodput_line(), facts_of([(1.0, 1.0, 4, False)] * 3)
    assert accept_changes(running, [first])
    assert accept_changes(running, [first._replace(allocated=first.allocated + 2e-13)]) == []
    assert accept_changes(running, [first._replace(allocated=first.allocated + 1e-5)])


@given(
    st.sampled_from(["step-time", "goodput"]),
    st.lists(st.tuples(STEPS, STEPS, st.integers(0, 2)), min_size=1, max_size=6),
)
def test_whatever_changes_the_slices_are_those_of_all_steps(
    sli: str, looks: list[tuple[list[Step], list[Step], int]]
) -> None:
    running, versions = RunningSlices(SLIS[sli]), dict[int, int]()
    for first, second, count in looks:
        attempts = [facts_of(first), facts_of(second, began=1200.0)][:count]
        by_attempt = {(n, 0): with_baseline(steps, 1.0) for n, steps in enumerate(attempts)}
        slices = running.changed(by_attempt)
        assert running.changed(by_attempt) == slices, "until they are stored the same differ"
        running.accept(slices)
        brute = summed([Shares.from_steps(SLIS[sli], steps) for steps in by_attempt.values()])
        assert_same(without_versions(running.line), brute)
        for part in running.line:
            assert part.version >= versions.get(part.start_s, 1)
            versions[part.start_s] = part.version
        assert running.changed(by_attempt) == []


@given(STEPS, st.integers(1, 30))
def test_steps_that_are_added_sum_up_to_the_same(steps: list[Step], size: int) -> None:
    running = goodput_line()
    for end in range(size, len(steps) + size, size):
        accept_changes(running, [facts_of(steps[:end])])
    assert without_versions(running.line) == goodput_slices([facts_of(steps)])


def test_only_what_changed_is_summed_again() -> None:
    steps: list[Step] = [(1.0, 1.0, 4, False)] * 400
    running = goodput_line()
    accept_changes(running, [facts_of(steps)])
    starts = [part.start_s for part in accept_changes(running, [facts_of(steps + steps[:12])])]
    assert starts == [1400, 1410], "the slice of the last step, and those behind it"


def test_slices_of_an_earlier_collector_stay_where_no_step_is_known_any_more() -> None:
    steps: list[Step] = [(1.0, 1.0, 4, False)] * 100
    slices = goodput_slices([facts_of(steps)])
    running = RunningSlices(SLIS["goodput"], SliceLine(slices))
    newest = facts_of(steps[59:], began=1059.0)  # the first of them ends at 1060
    assert accept_changes(running, [newest]) == [], "the rest comes out as it was"
    assert list(running.line) == slices


def test_work_that_is_redone_turns_bad_and_counts_a_version() -> None:
    steps: list[Step] = [(1.0, 1.0, 4, False)] * 40
    running = goodput_line()
    earlier_slices = {part.start_s: part for part in accept_changes(running, [facts_of(steps)])}
    redone = [(*step[:3], index >= 30) for index, step in enumerate(steps)]
    changed = accept_changes(running, [facts_of(redone)])
    starts = sorted(earlier_slices)
    assert [part.start_s for part in changed] == starts[3:], "only what the resume undid, and later"
    assert {part.version for part in changed} == {2}
    assert sum(part.good for part in changed) < sum(earlier_slices[p.start_s].good for p in changed)
    assert [part.total for part in changed] == [
        earlier_slices[part.start_s].total for part in changed
    ]
    assert accept_changes(running, [facts_of(redone)]) == [], "the same again is not news"


def test_a_slice_whose_step_moved_on_is_emptied() -> None:
    """A late rank ends the step later than was known: it must not count in two slices."""
    early_facts = [facts_of([(5.0, 5.0, 4, False), (12.0, 12.0, 3, False), (30.0, 9.0, 4, False)])]
    late_facts = [facts_of([(5.0, 5.0, 4, False), (16.0, 16.0, 4, False), (26.0, 9.0, 4, False)])]
    running = goodput_line()
    accept_changes(running, early_facts)
    accept_changes(running, late_facts)
    fresh, line_slices = goodput_slices(late_facts), list(running.line)
    assert sum(part.total for part in line_slices) == pytest.approx(fresh[-1].cumulative_total)
    assert sum(part.expected for part in line_slices) == 12
    sums = [part.cumulative_total for part in line_slices]
    assert sums == sorted(sums)


def test_steps_nobody_reported_are_expected_and_neither_good_nor_bad() -> None:
    step_history = StepHistory()
    for steps in (range(10), range(20, 30)):
        step_history.add(step_history.make_room(step_rows(steps, range(4), seconds=1.0)), OFFSET)
    facts = step_history.facts(4, EPOCH * 10**9, None)
    slices = goodput_slices([facts])
    assert sum(part.expected for part in slices) == 120
    assert sum(part.observed for part in slices) == 80
    assert sum(part.total for part in slices) == pytest.approx(80.0)
    assert [part.observed for part in slices if part.start_s == EPOCH + 10] == [4]


def test_a_start_that_was_not_heard_allocates_nothing() -> None:
    step_history = StepHistory()
    rows = step_rows(range(5, 15), range(4), seconds=1.0)
    step_history.add(step_history.make_room(rows), OFFSET)
    slices = goodput_slices([step_history.facts(4, 0, None)])
    assert slices[-1].cumulative_total == pytest.approx(40.0)


def test_checkpoint_and_evaluation_are_not_step_time() -> None:
    step_history = StepHistory()
    rows = step_rows(range(20), range(2))
    rows["duration_ns"][20:] += 10 * 10**9
    rows["checkpoint_ns"][20:] = 6 * 10**9
    rows["eval_ns"][20:] = 4 * 10**9
    step_history.add(step_history.make_room(rows), OFFSET)
    slices = step_time_slices(
        [step_history.facts(2, EPOCH * 10**9, None)], [step_history.baseline()]
    )
    assert slices[-1].cumulative_good == pytest.approx(slices[-1].cumulative_total)
    assert slices[-1].cumulative_total == pytest.approx(20 * 2 * 0.2)

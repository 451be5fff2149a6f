"""Every allocated device-second goes to exactly one cause."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.collector.slo.slices import Shares
from stepwatch.collector.slo.slis.goodput import good_and_total as goodput
from stepwatch.collector.slo.waste import (
    CAUSES,
    COLUMNS,
    DEFINITIONS,
    Run,
    Spent,
    Tail,
    document_of,
    entry_of,
    job_days,
    partition,
    tails_of,
)
from stepwatch.collector.state.trackers.steps.dropped_steps import REDOABLE, DroppedSteps
from stepwatch.collector.state.trackers.steps.step_history import PARTS, StepFacts
from stepwatch.signals.arrays import Vector

SECONDS = st.floats(0.0, 5_000.0) | st.sampled_from([0.0, 1e-7, 1e-6, 0.333333])
BEGAN = 1_790_000_000.0


def attempt_of(
    allocated: list[float],
    busy: list[float],
    longest: list[float],
    observed: list[int],
    world: int = 2,
    baseline: float = 1.0,
    lost: list[bool] | None = None,
    **parts: list[float],
) -> AttemptSteps:
    count = len(allocated)
    ends = np.rint((BEGAN + np.cumsum(allocated)) * 1e9).astype(np.int64)
    table = np.zeros(count, dtype=[(name, "<f4") for name in PARTS])
    for name, values in parts.items():
        table[name] = values
    lost_mask = np.zeros(count, dtype=np.bool_) if lost is None else np.array(lost)
    facts = StepFacts(
        world,
        round(BEGAN * 1e9),
        ends,
        np.array(busy, dtype=np.float64),
        np.array(longest, dtype=np.float64),
        np.array(observed),
        lost_mask,
        np.array(allocated, dtype=np.float64),
        np.zeros(count, dtype=np.bool_),
        table,
        np.full(count, 100),
        np.zeros(count, dtype=np.bool_),
        np.full(count, world),
    )
    dropped = DroppedSteps()
    dropped.count = 1  # a first step would be start-up
    return AttemptSteps(facts, np.full(count, baseline), dropped, 1)


def seconds(attempt: AttemptSteps) -> dict[Spent, float]:
    sums = partition(attempt).sum(axis=0) / 1e6
    return {cause: float(s) for cause, s in zip(CAUSES, sums, strict=True) if s}


def test_every_cause_has_a_definition() -> None:
    assert tuple(DEFINITIONS) == CAUSES
    assert all(definition.what and definition.formula for definition in DEFINITIONS.values())


def test_the_worked_example() -> None:
    attempt_steps = attempt_of([1.0], [1.8], [0.9], [2], collective=[0.4], least_collective=[0.1])
    assert seconds(attempt_steps) == pytest.approx(
        {
            Spent.PRODUCTIVE: 1.4,
            Spent.STRAGGLING: 0.2,
            Spent.EXPOSED_COMMUNICATION: 0.2,
            Spent.UNKNOWN: 0.2,
        },
        abs=2e-6,
    )


def test_where_each_part_goes() -> None:
    attempt_steps = attempt_of(
        [10.0], [6.0], [3.0], [2], data=[1.0], pipeline_wait=[2.0], checkpoint=[8.0], eval=[6.0]
    )
    assert seconds(attempt_steps) == pytest.approx(
        {
            Spent.PRODUCTIVE: 3.0,
            Spent.DATA_WAIT: 1.0,
            Spent.BUBBLE: 2.0,
            Spent.CHECKPOINT_STALL: 8.0,
            Spent.EVALUATION: 6.0,
        }
    )


def test_a_step_that_hangs_and_time_between_steps_are_a_stall() -> None:
    inside = attempt_of([100.0], [200.0], [100.0], [2], collective=[99.0])
    assert seconds(inside)[Spent.STALL] == pytest.approx(198.0)
    between = attempt_of([101.0], [2.0], [1.0], [2])
    assert seconds(between) == pytest.approx({Spent.PRODUCTIVE: 2.0, Spent.STALL: 200.0})


def test_a_step_that_an_exception_ended_is_a_stall_if_it_was_long() -> None:
    """Of a step that hung for a minute one of two ranks was killed; a short one was interrupted."""
    attempt_steps = attempt_of([60.0, 1.0], [60.0, 2.0], [60.0, 1.0], [1, 2])
    attempt_steps = attempt_steps._replace(
        steps=attempt_steps.steps._replace(unfinished=np.array([True, True]))
    )
    assert seconds(attempt_steps) == {Spent.STALL: 120.0, Spent.UNKNOWN: 2.0}
    good, total = goodput(attempt_steps)
    assert (good.tolist(), total.tolist()) == ([0.0, 0.0], [120.0, 2.0])
    shares = Shares.from_steps(Sli("goodput", goodput), attempt_steps)
    assert (shares.observed.tolist(), shares.expected.tolist()) == ([1, 2], [1, 2])


def test_redone_steps_are_all_redone_and_a_silent_rank_is_unknown() -> None:
    redone = attempt_of([1.0, 1.0], [2.0, 2.0], [1.0, 1.0], [2, 2], lost=[False, True])
    assert seconds(redone) == pytest.approx({Spent.PRODUCTIVE: 2.0, Spent.REDONE: 2.0})
    silent = attempt_of([1.0], [1.0], [1.0], [1])
    assert seconds(silent) == pytest.approx({Spent.PRODUCTIVE: 1.0, Spent.UNKNOWN: 1.0})


def test_what_comes_before_the_first_step_is_start_up() -> None:
    attempt_steps = attempt_of([30.0, 1.0], [10.0, 2.0], [5.0, 1.0], [2, 2])._replace(
        dropped=DroppedSteps()
    )
    by_cause = seconds(attempt_steps)
    assert by_cause[Spent.START_UP] == pytest.approx(58.0)
    assert by_cause[Spent.PRODUCTIVE] == pytest.approx(4.0)


def test_parts_that_no_device_took_apart_are_unknown_and_not_productive() -> None:
    nan = [float("nan")]
    attempt_steps = attempt_of(
        [1.0], [2.0], [1.0], [2], data=nan, collective=nan, pipeline_wait=nan
    )
    assert seconds(attempt_steps) == {Spent.UNKNOWN: 2.0}


@st.composite
def attempts(draw: st.DrawFn) -> AttemptSteps:
    count, world = draw(st.integers(1, 12)), draw(st.integers(1, 9))

    def column(values: st.SearchStrategy[float] = SECONDS) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    observed = draw(st.lists(st.integers(0, world), min_size=count, max_size=count))
    lost = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    attempt_steps = attempt_of(
        column(),
        column(),
        column(),
        observed,
        world,
        draw(st.sampled_from([float("nan"), 0.001, 1.0])),
        lost,
        **{name: column(SECONDS | st.just(float("nan"))) for name in PARTS},
    )
    return attempt_steps if draw(st.booleans()) else attempt_steps._replace(dropped=DroppedSteps())


@settings(max_examples=300, deadline=None)
@given(attempts())
def test_the_causes_sum_to_the_allocation_to_the_microsecond(attempt: AttemptSteps) -> None:
    accounts = partition(attempt)
    assert (accounts >= 0).all()
    allocated = float(attempt.steps.allocated.sum()) * attempt.steps.world
    assert abs(int(accounts.sum()) - allocated * 1e6) <= 1.0 + allocated * 1e-9
    days = job_days([attempt])
    assert sum(int(account[: len(CAUSES)].sum()) for account in days.values()) == int(
        accounts.sum()
    )
    step_count = (~attempt.steps.lost & (attempt.steps.observed > 0)).sum()
    counts = np.sum([account[len(CAUSES) :] for account in days.values()], axis=0)
    assert counts.tolist() == [100 * step_count, step_count]
    for entry in days.values():
        assert entry_of(document_of(entry)).tolist() == entry.tolist()


def test_steps_that_left_count_on_and_are_redone_by_a_late_resume() -> None:
    attempt_steps = attempt_of([1.0], [2.0], [1.0], [2])
    dropped = DroppedSteps()
    dropped.count = 10
    day = int(BEGAN // 86_400) * 86_400
    sums = np.zeros(len(COLUMNS), dtype=np.int64)
    sums[CAUSES.index(Spent.PRODUCTIVE)] = 20_000_000
    dropped.accounts = {day: sums}
    rows = np.zeros(2, dtype=REDOABLE)
    rows["first_step"], rows["start_s"], rows["kept"] = [0, 5], int(BEGAN), [10.0, 10.0]
    dropped.redoable = {"goodput": rows}
    attempt_steps = attempt_steps._replace(dropped=dropped, first_step=10)
    assert total(job_days([attempt_steps])) == {Spent.PRODUCTIVE: 22.0}
    resumed = attempt_steps._replace(redone_from=5)
    assert total(job_days([resumed])) == {Spent.PRODUCTIVE: 12.0, Spent.REDONE: 10.0}


def total(days: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]) -> dict[Spent, float]:
    sums: Vector = np.sum([*days.values()], axis=0)[: len(CAUSES)] / 1e6
    return {cause: float(s) for cause, s in zip(CAUSES, sums, strict=True) if s}


NEVER = Run(2, True, BEGAN, BEGAN, 1.0, None, None)
"""A run whose last step ended at BEGAN; nothing is known since then."""
BY_SECOND: dict[str, tuple[dict[str, float], list[tuple[Spent, float]]]] = {
    "nothing is known": ({}, []),
    "in its next step": ({"seen_s": 4.0}, []),
    "it stands": ({"seen_s": 60.0}, [(Spent.STALL, 120.0)]),
    "it evaluates": ({"seen_s": 60.0, "evaluated_s": 60.0}, [(Spent.EVALUATION, 120.0)]),
    "it evaluated a moment ago": (
        {"seen_s": 60.0, "evaluated_s": 58.0},
        [(Spent.EVALUATION, 116.0)],
    ),
    "it saved, and stands": (
        {"seen_s": 60.0, "evaluated_s": 5.0, "saved_s": 10.0},
        [(Spent.CHECKPOINT_STALL, 20.0), (Spent.STALL, 100.0)],
    ),
    "it evaluated before its last step": (
        {"seen_s": 60.0, "evaluated_s": -5.0},
        [(Spent.STALL, 120.0)],
    ),
    "it stood, and ended": ({"over_s": 50.0}, [(Spent.STALL, 100.0)]),
    "it ended": ({"over_s": 2.0}, []),
    "on other devices": ({"over_s": 2.0, "next_began_s": 30.0}, []),
    "on the same": (
        {"over_s": 50.0, "next_began_s": 60.0, "next_allocated_s": -9.0},
        [(Spent.STALL, 100.0), (Spent.IDLE_ALLOCATED, 20.0)],
    ),
    "on devices held for a while": (
        {"over_s": 2.0, "next_began_s": 30.0, "next_allocated_s": 20.0},
        [(Spent.IDLE_ALLOCATED, 20.0)],
    ),
    "nobody saw the end": (
        {"next_began_s": 30.0, "next_allocated_s": -9.0},
        [(Spent.STALL, 60.0)],
    ),
}


@pytest.mark.parametrize("name", BY_SECOND)
def test_time_in_no_step(name: str) -> None:
    moments, expected = BY_SECOND[name]
    run = NEVER._replace(**{key: BEGAN + offset_s for key, offset_s in moments.items()})  # type: ignore[arg-type]
    tails = [*tails_of(run)]
    assert [tail.cause for tail in tails] == [cause for cause, _ in expected]
    assert [tail.seconds for tail in tails] == pytest.approx([seconds for _, seconds in expected])


def test_a_run_that_makes_no_step_starts_up_from_its_first_second_on() -> None:
    (tail,) = tails_of(NEVER._replace(has_steps=False, usual_s=0.0, seen_s=BEGAN + 2.0))
    assert (tail.cause, tail.seconds) == (Spent.START_UP, 4.0)


def test_a_clock_that_was_set_makes_no_stall_longer() -> None:
    set_s = 3600.0
    (tail,) = tails_of(NEVER._replace(last_s=BEGAN + set_s, over_s=BEGAN + 50.0))
    assert (tail.begins_s - BEGAN, tail.seconds) == (set_s, 100.0)


@given(
    st.floats(0, 1e6),
    st.one_of(st.floats(0, 100), st.floats(0, 1e5), st.floats(0, 1e8)),
    st.floats(0, 100),
)
def test_pieces_sum_to_the_whole_and_stay_while_it_grows(
    begins: float, length: float, more: float
) -> None:
    tail = Tail(Spent.STALL, begins, begins + length, 3)
    moments, seconds = tail.pieces()
    assert seconds.sum() == pytest.approx(tail.seconds, abs=1e-3)
    assert (np.diff(moments) > 0).all() and (seconds > 0).all()
    assert ((moments >= begins) & (moments <= begins + length)).all()
    assert len(moments) <= 362 + 278 + 9602
    grown = tail._replace(ends_s=begins + length + more).pieces()
    common_length = max(len(moments) - 1, 0)
    assert grown[0][:common_length].tolist() == moments[:common_length].tolist()
    assert grown[1][:common_length].tolist() == seconds[:common_length].tolist()


def test_the_worked_example_of_pieces() -> None:
    moments, seconds = Tail(Spent.STALL, 7.0, 31.0, 2).pieces()
    assert moments.tolist() == [8.5, 15.0, 25.0, 30.5]
    assert seconds.tolist() == [6.0, 20.0, 20.0, 2.0]

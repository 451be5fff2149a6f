"""A step counts once, on its devices' clock when their rows are in, else on the hosts'."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.steps.settled_steps import LATE_SECONDS
from stepwatch.collector.state.trackers.steps.step_history import ON_DEVICE, ON_HOST, UNSETTLED
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows
from tests.collector.histories import differences
from tests.collector.made import (
    JOB,
    device_step_rows,
    lifecycle_rows,
    read_every_tenth_rows,
    segment,
    step_rows,
    timing_rows,
)

WORLD = 2
RANKS = range(WORLD)
NOW = Received(0.0, 0.0)
START = {
    Kind.LIFECYCLE: np.concatenate(
        [lifecycle_rows(LifecycleEvent.START, RANKS, WORLD), timing_rows(RANKS)]
    )
}
Tables = dict[Kind, Rows]


def sent(*tables: Tables, together: bool = False, start: Tables = START) -> LiveJob:
    """A job that was sent these tables, a segment each, folded in one by one or together."""
    job = LiveJob(JOB)
    for number, rows in enumerate((start, *tables)):
        job.append(segment(number + 1, rows), NOW)
        if not together:
            job.fold()
    job.fold()
    return job


def host(steps: range, seconds: float = 0.2, ranks: range = RANKS) -> Tables:
    return {Kind.STEP: step_rows(steps, ranks, seconds)}


def device(steps: range, seconds: float = 0.2, ranks: range = RANKS) -> Tables:
    return {Kind.DEVICE_STEP: device_step_rows(steps, ranks, seconds)}


def clocks(job: LiveJob) -> list[int]:
    clock_ids: list[int] = job.current.steps.history.rows["clock"].tolist()
    return clock_ids


def test_even_steps_of_devices_count_where_hosts_return_in_bursts() -> None:
    job = sent({Kind.STEP: read_every_tenth_rows(range(60), RANKS)}, device(range(60), 0.3))
    counted = job.totals
    assert counted.steps_on == {"device": 60, "host": 0}
    assert counted.steps[:4].tolist() == [0, 0, 0, 60], "all of them in 0.2 to 0.5 s"
    assert counted.step_seconds == pytest.approx(18.0)


def test_a_step_waits_for_the_rows_of_every_device() -> None:
    parts = [
        host(range(10)),
        device(range(10), ranks=range(1)),
        device(range(6), ranks=range(1, 2)),
    ]
    assert sent(*parts[:2]).totals.steps.sum() == 0
    job = sent(*parts)
    assert clocks(job) == [ON_DEVICE] * 6 + [UNSETTLED] * 4
    assert job.totals.steps_on == {"device": 6, "host": 0}


def test_a_step_that_devices_passed_untimed_is_the_hosts() -> None:
    rows = device_step_rows([0, 1, 3], RANKS, 0.3)
    job = sent(host(range(5), 0.1), {Kind.DEVICE_STEP: rows})
    assert clocks(job) == [ON_DEVICE, ON_DEVICE, ON_HOST, ON_DEVICE, UNSETTLED]
    assert job.totals.step_seconds == pytest.approx(3 * 0.3 + 0.1)


def test_rows_of_devices_are_not_awaited_for_ever() -> None:
    late_steps = round(LATE_SECONDS / 0.2)
    job = sent(host(range(late_steps + 21)))
    assert clocks(job) == [ON_HOST] * 20 + [UNSETTLED] * (late_steps + 1)
    job = sent(host(range(late_steps + 21)), device(range(20, 30)))
    assert clocks(job)[:31] == [ON_HOST] * 20 + [ON_DEVICE] * 10 + [UNSETTLED]
    assert job.totals.steps_on == {"device": 10, "host": 20}, "none twice"


def test_rows_of_devices_that_come_too_late_change_nothing() -> None:
    late_steps = round(LATE_SECONDS / 0.2)
    job = sent(host(range(late_steps + 21)))
    seconds = job.totals.step_seconds
    job.append(segment(9, device(range(20), 0.9)), NOW)
    job.fold()
    assert clocks(job)[:20] == [ON_HOST] * 20
    assert job.totals.step_seconds == pytest.approx(seconds)


def test_one_rank_on_its_host_puts_all_there_at_once() -> None:
    mixed = {
        Kind.LIFECYCLE: np.concatenate(
            [
                lifecycle_rows(LifecycleEvent.START, RANKS, WORLD),
                timing_rows([0]),
                timing_rows([1], b"no timing events"),
            ]
        )
    }
    job = sent(host(range(10)), device(range(10), ranks=range(1)), start=mixed)
    assert job.totals.steps_on == {"device": 0, "host": 10}


def test_a_device_that_is_lost_leaves_the_rest_to_the_host() -> None:
    lost = {Kind.LIFECYCLE: timing_rows([1], b"device lost", time_s=3.0)}
    job = sent(host(range(10)), device(range(8)), lost, host(range(10, 20)))
    assert clocks(job) == [ON_DEVICE] * 8 + [ON_HOST] * 12
    restored = {Kind.LIFECYCLE: timing_rows([1], time_s=4.0)}
    parts = [host(range(10)), device(range(8)), lost, restored, host(range(10, 20))]
    job = sent(*parts, device(range(10, 20)))
    assert clocks(job) == [ON_DEVICE] * 8 + [ON_HOST] * 2 + [ON_DEVICE] * 10


def test_without_a_word_the_first_row_says_that_there_are_devices() -> None:
    silent = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, RANKS, WORLD)}
    job = sent(host(range(4)), {**host(range(4, 8)), **device(range(6))}, start=silent)
    assert clocks(job) == [ON_HOST] * 4 + [ON_DEVICE] * 2 + [UNSETTLED] * 2


def test_at_the_end_every_step_counts_as_it_stands() -> None:
    job = sent(host(range(10)), device(range(8)))
    ends = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, RANKS)}
    job.append(segment(9, ends), NOW)
    job.fold()
    assert job.totals.steps_on == {"device": 8, "host": 2}


def test_late_rows_of_an_earlier_attempt_await_no_device() -> None:
    """Its ranks are gone: steps that still come count as they stand, and rows of devices do not."""
    job = sent(host(range(10)), device(range(8)))
    assert job.totals.steps_on == {"device": 8, "host": 0}
    job.apply(segment(1, START, attempt=1), NOW)
    assert job.totals.steps_on == {"device": 8, "host": 2}
    job.apply(segment(8, host(range(10, 12))), NOW)
    assert job.totals.steps_on == {"device": 8, "host": 4}
    job.apply(segment(9, device(range(8, 12))), NOW)
    assert job.totals.steps_on == {"device": 8, "host": 4}


@pytest.mark.parametrize("late_s", [0.5, 20.0])
def test_any_groups_settle_what_one_after_the_other_does(
    monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """Each order of a step's rows, a row that is late, and a later step that is complete."""
    module = "stepwatch.collector.state.trackers.steps.settled_steps.LATE_SECONDS"
    monkeypatch.setattr(module, late_s)
    parts = [
        host(range(4)),
        device(range(2), 0.5, range(1)),
        device(range(2), 0.3, range(1, 2)),
        device(range(2, 4)),
        host(range(4, 7)),
    ]
    counted = set()
    for order in itertools.islice(itertools.permutations(parts), 0, None, 9):
        separate, grouped = sent(*order), sent(*order, together=True)
        assert differences(grouped, separate) == []
        counted.add(tuple(separate.totals.steps_on.values()))
    assert len(counted) > 1, "the order matters"


def test_what_two_agents_kept_while_the_collector_was_away_counts_on_the_devices() -> None:
    """Minutes of steps of one rank come at once, and then those of the other."""
    spooled = [
        {**host(range(60), 5.0, ranks), **device(range(60), 5.0, ranks)}
        for ranks in (range(1), range(1, 2))
    ]
    for together in (False, True):
        job = sent(*spooled, together=together)
        assert job.totals.steps_on == {"device": 60, "host": 0}


def test_a_step_counts_without_the_ranks_of_an_agent_that_is_gone() -> None:
    job = sent(
        host(range(10)), start={Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, RANKS, WORLD)}
    )
    for number in range(10, 30):
        moment = Received(10.0 * number, 10.0 * number)
        job.apply(segment(number, host(range(number, number + 1), 10.0, range(1))), moment)
    assert job.totals.steps.sum() == 10 + 20 - 6, "those of the last minute wait"

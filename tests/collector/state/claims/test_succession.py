"""A later attempt takes over where a launcher started it, and not where a segment claims it."""

from __future__ import annotations

import pytest

from stepwatch.collector.state import job as jobs
from stepwatch.collector.state.claims.rank_claims import SILENT_SECONDS
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent, ProcessState
from stepwatch.signals.wire import Rows
from tests.collector.histories import state_of
from tests.collector.made import EPOCH, JOB, lifecycle_rows, segment, state_rows, step_rows

NODES = {"gpu-1": range(4), "gpu-2": range(4, 8)}


def say(
    job: LiveJob, node: str, tables: dict[Kind, Rows], attempt: int = 0, time_s: float = 0.0
) -> None:
    clock = ClockPair(0, round((EPOCH + time_s) * NANOSECONDS))
    item = segment(1, tables, attempt=attempt, node=node)._replace(clock=clock)
    job.apply(item, Received(EPOCH + time_s, time_s))


def start(
    job: LiveJob, node: str, ranks: range, world: int, attempt: int, time_s: float = 0.0
) -> None:
    tables = {
        Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, ranks, world),
        Kind.RANK_STATE: state_rows(ranks, world, 1.0),
        Kind.STEP: step_rows([3], ranks),
    }
    say(job, node, tables, attempt, time_s)


def running() -> LiveJob:
    """Eight ranks on two nodes."""
    job = LiveJob(JOB)
    for node, ranks in NODES.items():
        start(job, node, ranks, 8, 0)
    return job


def end(job: LiveJob, node: str, time_s: float = 1.0) -> None:
    """A node reports that its ranks are gone."""
    rows = state_rows(NODES[node], 8, 2.0)
    rows["process_state"] = ProcessState.GONE
    say(job, node, {Kind.RANK_STATE: rows}, time_s=time_s)


@pytest.mark.parametrize("number", [1, 7, 2**32 - 1])
@pytest.mark.parametrize("world", [1, 8])
def test_one_segment_replaces_no_attempt_that_runs(number: int, world: int) -> None:
    job, reference = running(), running()
    start(job, "gpu-9", range(world), world, number)
    assert job.current is job.attempts[0]
    assert list(job.attempts) == [0]
    assert dict(state_of(job.current)) == dict(state_of(reference.current))
    assert job.totals.rows == reference.totals.rows, "and counts nothing"
    start(job, "gpu-9", range(world), world, number, time_s=SILENT_SECONDS / 2)
    for node, ranks in NODES.items():
        say(job, node, {Kind.STEP: step_rows([4], ranks)}, time_s=SILENT_SECONDS)
    start(job, "gpu-9", range(world), world, number, time_s=SILENT_SECONDS + 30)
    assert job.current.number == 0
    assert job.current.steps.history.rows["reported"].tolist() == [8, 8]


def test_a_node_of_the_job_replaces_no_attempt_alone() -> None:
    job = running()
    start(job, "gpu-1", range(1), 1, 7)
    assert job.current.number == 0


@pytest.mark.parametrize("world", [8, 4])
def test_a_restart_on_the_same_nodes_follows_though_ends_are_told_late(world: int) -> None:
    job = running()
    start(job, "gpu-1", range(4), world, 1)
    assert job.current.number == (1 if world == 4 else 0)
    start(job, "gpu-2", range(4, 8), world, 1)
    assert job.current.number == 1
    assert job.totals.rows == job.attempts[0].steps.history.rows["reported"].sum() + world


def test_a_restart_with_another_node_follows_once_half_of_the_ranks_have_ended() -> None:
    job = running()
    for node, ranks in (("gpu-1", range(4)), ("gpu-3", range(4, 8))):
        start(job, node, ranks, 8, 1)
    start(job, "gpu-9", range(8), 8, 7)
    assert job.current.number == 0
    end(job, "gpu-1")
    assert job.current.number == 1, "gpu-2 is lost"
    assert job.current.steps.history.rows["reported"].tolist() == [8], "what came before counts"


def test_a_restart_follows_once_nothing_is_heard_of_the_attempt_before() -> None:
    job = running()
    start(job, "gpu-3", range(4), 4, 1, time_s=SILENT_SECONDS)
    assert job.current.number == 0
    start(job, "gpu-3", range(4), 4, 1, time_s=SILENT_SECONDS + 1)
    assert job.current.number == 1


def test_an_attempt_that_is_over_is_followed_on_other_nodes_once_it_is_silent() -> None:
    job = running()
    for node in NODES:
        end(job, node, time_s=1.0)
    for time_s, number in ((2.0, 0), (SILENT_SECONDS, 0), (SILENT_SECONDS + 2, 1)):
        start(job, "gpu-3", range(4), 4, 1, time_s)
        assert job.current.number == number


def test_an_attempt_that_never_got_far_lies_before_the_one_that_did() -> None:
    job = running()
    start(job, "gpu-1", range(1), 8, 1)
    start(job, "gpu-1", range(4), 8, 2)
    end(job, "gpu-2")
    assert list(job.attempts) == [0, 1, 2] and not job.candidates


def test_candidates_are_bounded_and_the_one_with_most_ranks_stays() -> None:
    job = running()
    start(job, "gpu-1", range(4), 16, 1)
    for number in range(2, 50):
        start(job, "gpu-9", range(1), 1, number)
    assert len(job.candidates) == jobs.MAX_CANDIDATES and 1 in job.candidates
    end(job, "gpu-1")
    assert 1 in job.attempts


def test_where_an_earlier_attempt_is_told_late_nothing_of_the_newest_is_given_up() -> None:
    job = LiveJob(JOB)
    start(job, "gpu-1", range(4), 8, 3)
    start(job, "gpu-1", range(4), 8, 1)
    start(job, "gpu-2", range(4, 8), 8, 3)
    assert job.current.number == 3
    assert job.current.steps.history.rows["reported"].tolist() == [8]


def test_a_restart_of_a_job_that_is_watched_in_part_follows() -> None:
    """Agents on one of four nodes: the ranks of the others are not missed."""
    job = LiveJob(JOB)
    start(job, "gpu-1", range(4), 16, 0)
    rows = state_rows(range(4), 16, 2.0)
    rows["process_state"] = ProcessState.GONE
    say(job, "gpu-1", {Kind.RANK_STATE: rows}, time_s=1.0)
    start(job, "gpu-1", range(4), 16, 1, time_s=2.0)
    assert job.current.number == 1


def test_a_process_that_cannot_be_killed_holds_up_no_restart_elsewhere() -> None:
    job = running()
    end(job, "gpu-2")
    rows = state_rows(range(1, 4), 8, 2.0)
    rows["process_state"] = ProcessState.GONE
    say(job, "gpu-1", {Kind.RANK_STATE: rows}, time_s=1.0)
    stuck = state_rows(range(1), 8, 2.0)
    for time_s in (20.0, 40.0, 60.0, 80.0):
        say(job, "gpu-1", {Kind.RANK_STATE: stuck}, time_s=time_s)
        start(job, "gpu-8", range(4), 8, 1, time_s=time_s)
        start(job, "gpu-9", range(4, 8), 8, 1, time_s=time_s)
    assert job.current.number == 1

"""Two runs under one name are noticed; a rank that moves to another node is none."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.cli.jobs.status_text import job_text
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.shared_name import REMEMBERED_SECONDS, SharedName
from stepwatch.collector.store import Store
from stepwatch.collector.web.job_view import job_summary
from stepwatch.signals import names
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind, ProcessState
from stepwatch.signals.wire import Segment, SegmentKey
from tests.collector.exported import metric
from tests.collector.made import EPOCH, JOB, HandClock, body, state_rows

SECONDS = 60


def report(node: str, second: int, ranks: range = range(4), *, exited: bool = False) -> Segment:
    """What the agent of a node says of its ranks `at` seconds into the run."""
    rows = state_rows(ranks, 8, float(second), second)
    if exited:
        rows["process_state"] = ProcessState.GONE
    clock = ClockPair(second * 10**9, (EPOCH + second) * 10**9)
    return Segment(SegmentKey(JOB, 0, node, 1, second + 1), clock, {Kind.RANK_STATE: rows})


def attempt_of(store: Store, clock: HandClock, sent: list[Segment]) -> Attempt:
    service = Service(store, clock)
    clock.advance(SECONDS)
    for item in sent:
        service.receive(body([item]))
    job_state = service.job(JOB)
    assert job_state is not None
    return job_state[0].current


def sharing(attempt: Attempt, second: float = SECONDS) -> dict[int, tuple[str, str]]:
    return attempt.tracker(SharedName).sharing(EPOCH + second)


@pytest.mark.parametrize("together", [True, False])
def test_two_runs_that_report_the_same_ranks_are_named(
    store: Store, clock: HandClock, together: bool
) -> None:
    sent = [report(node, second) for second in range(SECONDS) for node in ("one", "two")]
    service = Service(store, clock)
    for second in range(SECONDS):
        service.receive(body(sent[2 * second : 2 * second + 2]))
        clock.advance(1.0)
        if not together:
            service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    job, verdicts = job_state
    shared = sharing(job.current)
    assert sorted(shared) == [0, 1, 2, 3]
    assert sorted(shared[0]) == ["one", "two"]
    summary: Any = job_summary(job, verdicts, service.now())
    assert summary["shared_name"] == {"ranks": 4, "rank": 0, "nodes": ["one", "two"]}
    text = " ".join(job_text(summary, None, 80).split())
    assert "two runs report under this name: rank 0 runs on one and on two at once" in text
    assert metric(service, names.RANKS_ON_TWO_NODES) == 4.0
    later = EPOCH + SECONDS + REMEMBERED_SECONDS
    assert job_summary(job, verdicts, later)["shared_name"] is None


@pytest.mark.parametrize(
    ("situation", "sent"),
    [
        (
            "moved, while its old agent says what became of it",
            [report("one", second) for second in range(20)]
            + [
                report(node, second, exited=node == "one")
                for second in range(20, SECONDS)
                for node in ("one", "two")
            ],
        ),
        (
            "moved, and the old agent's backlog comes late",
            [report("one", second) for second in range(10)]
            + [report("two", second) for second in range(20, SECONDS)]
            + [report("one", second) for second in range(10, 20)],
        ),
        (
            "moved there and back",
            [
                report("one" if second // 20 % 2 == 0 else "two", second)
                for second in range(SECONDS)
            ],
        ),
        (
            "two nodes with different ranks",
            [
                report(node, second, ranks)
                for second in range(SECONDS)
                for node, ranks in (("one", range(4)), ("two", range(4, 8)))
            ],
        ),
    ],
)
def test_one_run_shares_its_name_with_nobody(
    store: Store, clock: HandClock, situation: str, sent: list[Segment]
) -> None:
    assert sharing(attempt_of(store, clock, sent)) == {}, situation

"""A job launched once more by hand: the same name, attempt 0 again, steps from the beginning."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.store import Store
from stepwatch.collector.web.recorded.checkpoints_view import job_checkpoints
from stepwatch.collector.web.recorded.metrics_view import job_metrics
from stepwatch.signals.records import (
    CheckpointEvent,
    Kind,
    LifecycleEvent,
    ProcessState,
    Verification,
)
from stepwatch.signals.wire import Rows, Segment
from tests.collector.made import (
    EPOCH,
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
)
from tests.collector.state.trackers.test_checkpoints import read_rows

SLOW = {(2, "forward"): 0.4}
PAUSE = 100


def newest_attempt(service: Service) -> tuple[Attempt, Verdicts]:
    job_state = service.job(JOB)
    assert job_state is not None
    return job_state[0].current, job_state[1]


def take(service: Service, clock: HandClock, *segments: Segment) -> None:
    for item in segments:
        assert [verdict.verdict for verdict in service.receive(body([item]))] == ["accepted"]
        clock.advance(1.0)
        service.evaluate()
    assert service.evaluation_failures == 0


def second_run(steps: int, pause: int = PAUSE, sequence: int = 600) -> list[Segment]:
    """The ranks again, `pause` seconds later; rank 2 is slow from step 20 on."""
    later = []
    for number, item in enumerate(run_segments(steps, excess=SLOW, slow_from=20)):
        tables: dict[Kind, Rows] = dict(item.tables)
        for rows in tables.values():
            for name in {"time_ns", "since_ns", "heartbeat_ns"} & set(rows.dtype.names or ()):
                rows[name] += np.uint64(pause * 10**9)
        later.append(segment(sequence + number, tables))
    return later


def first_run(service: Service, clock: HandClock, event: LifecycleEvent | None) -> None:
    """40 steps, and an end of all ranks: reported, or by SIGKILL."""
    take(service, clock, *run_segments(40))
    states = state_rows(range(4), 4, 9.0, 39)
    tables: dict[Kind, Rows] = {Kind.RANK_STATE: states}
    if event is None:
        states["process_state"], states["exit_code"] = ProcessState.GONE, -1
        states["gone_ns"] = 9 * 10**9 + np.arange(4) * 10**9
    else:
        tables[Kind.LIFECYCLE] = lifecycle_rows(event, range(4), time_s=9.0)
    take(service, clock, segment(500, tables))
    for _ in range(20):
        clock.advance(1.0)
        service.evaluate()


def on_two_nodes(run: list[Segment], sequence: int) -> list[Segment]:
    """The segments of a run as two nodes send them, two ranks on each; numbers of the second one
    begin at `sequence`."""
    segments = []
    for number, item in enumerate(run):
        for node in range(2):
            tables = {kind: rows[rows["rank"] // 2 == node] for kind, rows in item.tables.items()}
            own_sequence = item.key.sequence if node == 0 else sequence + number
            segments.append(segment(own_sequence, tables, node=f"node-{node}"))
    return segments


@pytest.mark.parametrize("event", [LifecycleEvent.FINISH, LifecycleEvent.FAILURE, None])
def test_a_second_run_under_the_same_name_is_judged(
    store: Store, clock: HandClock, event: LifecycleEvent | None
) -> None:
    service = Service(store, clock)
    first_run(service, clock, event)
    take(service, clock, *second_run(60))
    attempt, verdicts = newest_attempt(service)
    assert not attempt.outcome.finished and not attempt.outcome.failed
    assert (attempt.steps.history.first, len(attempt.steps.history)) == (0, 60)
    assert [(item.kind.value, item.rank) for item in verdicts.findings] == [("straggler", 2)]
    assert [item.kind for item in verdicts.open_incidents()] == ["straggler"]
    restored, _ = newest_attempt(Service(store, clock))
    assert (restored.steps.history.first, len(restored.steps.history), restored.outcome.failed) == (
        0,
        60,
        False,
    )


def test_why_the_first_run_failed_stays_until_the_second_makes_progress(
    store: Store, clock: HandClock
) -> None:
    service = Service(store, clock)
    first_run(service, clock, LifecycleEvent.FAILURE)
    start, *later_segments = second_run(120)
    only = dict(start.tables)
    del only[Kind.STEP]
    take(service, clock, segment(599, only))
    for number in range(30):
        states = state_rows(range(4), 4, 1.0 + PAUSE + number)
        take(service, clock, segment(550 + number, {Kind.RANK_STATE: states}))
    _, verdicts = newest_attempt(service)
    assert [item.kind for item in verdicts.open_incidents()] == ["rank-failed"]
    take(service, clock, *later_segments)
    _, verdicts = newest_attempt(service)
    states_of = {item.kind: item.state for item in verdicts.incidents.values()}
    assert states_of["rank-failed"] == "resolved"


def test_a_second_run_that_fails_at_once_goes_on_with_the_same_incident(
    store: Store, clock: HandClock
) -> None:
    service = Service(store, clock)
    first_run(service, clock, LifecycleEvent.FAILURE)
    for number in range(3):
        time_s = float(PAUSE + number)
        reported = [
            lifecycle_rows(event, range(4), 4, time_s)
            for event in (LifecycleEvent.START, LifecycleEvent.FAILURE)
        ]
        tables: dict[Kind, Rows] = {Kind.RANK_STATE: state_rows(range(4), 4, time_s)}
        take(
            service,
            clock,
            segment(600 + number, {**tables, Kind.LIFECYCLE: np.concatenate(reported)}),
        )
    _, verdicts = newest_attempt(service)
    assert [(item.kind, item.state) for item in verdicts.incidents.values()] == [
        ("rank-failed", "open")
    ]


def test_the_end_of_a_node_that_is_told_late_hides_nothing(store: Store, clock: HandClock) -> None:
    service = Service(store, clock)
    take(service, clock, *on_two_nodes(run_segments(40), 300))
    ends = lifecycle_rows(LifecycleEvent.FINISH, range(4), time_s=9.0)
    take(service, clock, segment(500, {Kind.LIFECYCLE: ends[:2]}))
    start, *later_segments = second_run(60)
    starts = start.tables[Kind.LIFECYCLE]
    take(service, clock, segment(510, {Kind.LIFECYCLE: starts[:2]}))
    take(service, clock, segment(501, {Kind.LIFECYCLE: ends[2:]}, node="node-1"))
    take(service, clock, segment(511, {Kind.LIFECYCLE: starts[2:]}, node="node-1"))
    other_tables = dict(start.tables)
    del other_tables[Kind.LIFECYCLE]
    take(service, clock, *on_two_nodes([segment(512, other_tables), *later_segments], 700))
    attempt, verdicts = newest_attempt(service)
    assert len(attempt.steps.history) == 60
    assert [(item.kind.value, item.rank) for item in verdicts.findings] == [("straggler", 2)]


def test_steps_are_left_of_a_run_and_the_metrics_of_the_newest_one(
    store: Store, clock: HandClock
) -> None:
    service = Service(store, clock)
    first_run(service, clock, LifecycleEvent.FAILURE)
    earlier, _ = newest_attempt(service)
    cells = earlier.cells
    take(service, clock, *second_run(60))
    attempt, _ = newest_attempt(service)
    assert [len(run.steps.history) for run in attempt.runs] == [40]
    assert 0 < attempt.runs[0].cells == attempt.runs[0].tracker(Metrics).cells < cells
    ends = lifecycle_rows(LifecycleEvent.FAILURE, range(4), time_s=PAUSE + 20.0)
    take(service, clock, segment(700, {Kind.LIFECYCLE: ends}))
    take(service, clock, *second_run(50, 2 * PAUSE, 800))
    attempt, _ = newest_attempt(service)
    assert [len(run.steps.history) for run in attempt.runs] == [40, 60]
    assert attempt.runs[0].cells == 0 < attempt.runs[1].cells < cells
    attempt.release()
    assert attempt.runs[1].cells == 0


def test_curves_go_on_in_the_second_run(store: Store, clock: HandClock) -> None:
    service = Service(store, clock)
    first_run(service, clock, None)
    start, *later_segments = second_run(60)
    starts = {Kind.LIFECYCLE: start.tables[Kind.LIFECYCLE]}
    take(service, clock, segment(600, starts), *later_segments[5:])
    job_state = service.job(JOB)
    assert job_state is not None
    metrics = {item["name"]: item for item in job_metrics(*job_state, clock.wall)["metrics"]}
    curve = metrics["loss"]["curves"]["steps"]
    assert curve["step"] == [*range(60)], "40 steps, a kill, and a resume at step 30"


def checkpoint_states(service: Service) -> list[tuple[int, str]]:
    job_state = service.job(JOB)
    assert job_state is not None
    document = job_checkpoints(*job_state, EPOCH + PAUSE + 50.0)
    return [(item["step"], item["state"]) for item in document["checkpoints"]]


def test_checkpoints_of_the_first_run_remain(store: Store, clock: HandClock) -> None:
    service = Service(store, clock)
    first_run(service, clock, None)
    saves = [checkpoint_rows(CheckpointEvent.BEGIN, range(4), step) for step in (20, 30)]
    read = [read_rows(20, Verification.VERIFIED), read_rows(30, Verification.DAMAGED)]
    tables = {Kind.CHECKPOINT: np.concatenate(saves), Kind.VERIFICATION: np.concatenate(read)}
    take(service, clock, segment(510, tables))
    known = [(30, "damaged"), (20, "verified")]
    assert checkpoint_states(service) == known
    take(service, clock, *second_run(35))
    assert checkpoint_states(service) == known
    assert checkpoint_states(Service(store, clock)) == known, "a restarted collector has them, too"
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    assert "damaged" in [item.subject for item in job_state[1].findings]

    again = checkpoint_rows(CheckpointEvent.BEGIN, range(4), 30)
    again["time_ns"] += np.uint64(PAUSE * 10**9)
    take(service, clock, segment(620, {Kind.CHECKPOINT: again}))
    assert checkpoint_states(service) == [(30, "written"), *known[1:]], "it saves step 30 again"
    take(service, clock, segment(621, {Kind.VERIFICATION: read_rows(30, Verification.VERIFIED)}))
    assert checkpoint_states(service) == [(30, "verified"), *known[1:]]


def relaunched(store: Store, clock: HandClock, *verifications: Rows) -> Service:
    """A job that saved in step 30, whose files were reported, and that was launched again."""
    service = Service(store, clock)
    first_run(service, clock, None)
    tables = {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.BEGIN, range(4), 30)}
    if verifications:
        tables[Kind.VERIFICATION] = np.concatenate(verifications)
    take(service, clock, segment(510, tables), *second_run(35))
    return service


def test_a_damaged_file_stays_when_another_one_verifies_after_a_relaunch(
    store: Store, clock: HandClock
) -> None:
    service = relaunched(store, clock, read_rows(30, Verification.DAMAGED))
    whole = read_rows(30, Verification.VERIFIED, path="/runs/b", rank=1)
    take(service, clock, segment(620, {Kind.VERIFICATION: whole}))
    assert checkpoint_states(service) == [(30, "damaged")]


def test_a_verification_after_a_relaunch_is_of_the_earlier_save(
    store: Store, clock: HandClock
) -> None:
    service = relaunched(store, clock)
    take(service, clock, segment(620, {Kind.VERIFICATION: read_rows(30, Verification.VERIFIED)}))
    job_state = service.job(JOB)
    assert job_state is not None
    ((_, item),) = job_state[0].checkpoints()
    assert (item.is_good, item.saved_s) == (True, EPOCH + 3.0)


def test_files_of_one_save_verify_together_across_a_relaunch(
    store: Store, clock: HandClock
) -> None:
    waiting = [
        read_rows(30, Verification.WAITING, path=f"/runs/{rank}", rank=rank) for rank in (0, 1)
    ]
    service = relaunched(store, clock, *waiting)
    for number, rank, state in ((620, 1, "written"), (621, 0, "verified")):
        read = read_rows(30, Verification.VERIFIED, path=f"/runs/{rank}", rank=rank)
        take(service, clock, segment(number, {Kind.VERIFICATION: read}))
        assert checkpoint_states(service) == [(30, state)]
    assert checkpoint_states(Service(store, clock)) == [(30, "verified")]


def test_a_step_that_is_saved_again_has_files_of_its_own(store: Store, clock: HandClock) -> None:
    waiting = read_rows(30, Verification.WAITING, path="/runs/first", rank=1)
    service = relaunched(store, clock, waiting)
    again = checkpoint_rows(CheckpointEvent.BEGIN, range(4), 30)
    again["time_ns"] += np.uint64(PAUSE * 10**9)
    take(service, clock, segment(620, {Kind.CHECKPOINT: again}))
    read = read_rows(30, Verification.VERIFIED, path="/runs/second", rank=1)
    take(service, clock, segment(621, {Kind.VERIFICATION: read}))
    assert checkpoint_states(service) == [(30, "verified")], "the first file is no part of it"

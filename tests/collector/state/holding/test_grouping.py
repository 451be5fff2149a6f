"""Folding segments together, in whatever groups, is folding them one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stepwatch.collector.state import newest_rows
from stepwatch.collector.state.evidence import buckets, step_window, work_counts
from stepwatch.collector.state.evidence.cells import Cells
from stepwatch.collector.state.folding.batches import Batches, batch_of
from stepwatch.collector.state.holding.grouping import Grouping
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication import collective_records
from stepwatch.collector.state.trackers.communication.exchanges import Exchanges
from stepwatch.collector.state.trackers.metrics import metrics
from stepwatch.collector.state.trackers.steps import (
    baseline,
    given_up,
    rank_evidence,
    rank_history,
    settled_steps,
)
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.signals import wire
from stepwatch.signals.arrays import Integers
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, ProcessState
from stepwatch.signals.wire import Rows, Segment
from tests.collector.histories import History, Taken, differences
from tests.collector.made import (
    JOB,
    checkpoint_rows,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
)

NOW = Received(0.0, 0.0)
WORLD = 4


def one_by_one(arrivals: list[Taken]) -> LiveJob:
    live_job = LiveJob(JOB)
    for sent_segment, received in arrivals:
        live_job.apply(sent_segment, received)
    return live_job


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so small that random histories cross them."""
    monkeypatch.setattr(given_up, "GIVE_UP_STEPS", 7)
    monkeypatch.setattr(given_up, "GIVE_UP_FEW", 2)
    monkeypatch.setattr(given_up, "GIVE_UP_SECONDS", 6.0)
    monkeypatch.setattr(settled_steps, "LATE_SECONDS", 1.5)
    monkeypatch.setattr(baseline, "BASELINE_STEPS", 6)
    monkeypatch.setattr(baseline, "GRACE_STEPS", 6)
    monkeypatch.setattr(collective_records, "MAX_ROWS", 256)
    monkeypatch.setattr(newest_rows, "_FIRST_ROWS", 16)
    monkeypatch.setattr(step_window, "MAX_STEPS", 8)
    monkeypatch.setattr(step_window, "LEAST_STEPS", 4)
    monkeypatch.setattr(rank_evidence, "SUSPECT_LOG", 0.3)
    monkeypatch.setattr(buckets, "BUCKET_SECONDS", 0.7)
    monkeypatch.setattr(buckets, "BUCKETS", 5)
    monkeypatch.setattr(work_counts, "_LEAST_STEPS", 2)
    monkeypatch.setattr(rank_history, "MOST_SPANS", 4)
    monkeypatch.setattr(rank_history, "LEAST_SPANS", 2)
    monkeypatch.setattr(metrics, "RECENT_STEPS", 5)
    monkeypatch.setattr(metrics, "EVALUATIONS", 3)
    monkeypatch.setattr(metrics, "SPANS", {"seconds": (1, 4), "longer": (3, 2)})


@pytest.mark.usefixtures("narrow")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60),
    cuts=st.sets(st.integers(0, 60), max_size=6),
)
@example(seed=100, count=3, cuts=set())  # a node without rows about ranks
@example(seed=129, count=35, cuts=set())  # a metric whose values are all too old
def test_any_groups_give_the_state_of_one_after_the_other(
    seed: int, count: int, cuts: set[int]
) -> None:
    arrivals = list(History(seed).segments(count))
    expected, grouped = one_by_one(arrivals), LiveJob(JOB)
    for index, (sent_segment, received) in enumerate(arrivals):
        grouped.append(wire.decode(wire.encode(sent_segment)), received)
        if index in cuts:
            grouped.fold()
    grouped.fold()
    assert differences(grouped, expected) == []


def test_evidence_is_taken_in_such_histories(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step that a rank did not report, of devices, of stages and nodes, with suspects and
    tokens that explain times, and begun anew by a move: each now and then."""
    covered: set[str] = set()
    bet = RankEvidence._take

    def noting(evidence: RankEvidence, cells: Cells, ranks: Integers) -> None:
        capital_before = evidence.log_capital.max(initial=0.0)
        bet(evidence, cells, ranks)
        covered.add(f"on {evidence.clock}")
        covered.update(["nodes"] if len(evidence.members) else [])
        covered.update(["without a rank"] if len(ranks) < cells.reported.shape[1] else [])
        covered.update(["suspects"] if capital_before >= rank_evidence.SUSPECT_LOG else [])
        covered.update(["tokens"] if evidence.counts.exponent else [])
        covered.update(["buckets"] if len(evidence.buckets.course().steps) == 5 else [])

    monkeypatch.setattr(RankEvidence, "_take", noting)
    wanted = {"on host", "on device", "nodes", "without a rank", "suspects", "tokens", "buckets"}
    for seed in itertools.takewhile(lambda seed: seed < 40 and not covered > wanted, range(40)):
        job = one_by_one(list(History(seed).segments(40)))
        shown = [attempt.tracker(Exchanges).stage for attempt in job.attempts.values()]
        covered.update(["late stages"] if any(stage is not None for stage in shown) else [])
    assert covered == {*wanted, "late stages"}


def of_node(steps: Sequence[int], node: int, **more: Rows) -> Segment:
    """STEP rows of the two ranks of a node, with whatever else is named by its kind."""
    tables = {Kind[name]: rows for name, rows in more.items()}
    if len(steps):
        tables[Kind.STEP] = step_rows(steps, range(2 * node, 2 * node + 2), 0.2 + 0.1 * node)
    return segment(0, tables, node=f"node-{node}")


def began() -> LiveJob:
    """A job of four ranks on two nodes that made its first step."""
    job = LiveJob(JOB)
    job.apply(of_node([], 1, RANK_STATE=state_rows([2, 3], WORLD, 1.0)), NOW)
    job.apply(of_node([0], 0, RANK_STATE=state_rows([0, 1], WORLD, 1.0)), NOW)
    job.apply(of_node([], 1, STEP=step_rows([0], [2, 3])), NOW)
    return job


def together(segments: Sequence[Segment], job: LiveJob) -> int:
    """How many of the segments are folded in at once."""
    batches = Batches([batch_of(segment, NOW) for segment in segments])
    return Grouping(batches).size(0, job.current)


def test_steps_of_all_nodes_go_together() -> None:
    segments = [of_node([step], node) for step in range(1, 9) for node in range(2)]
    assert together(segments, began()) == len(segments)


@pytest.mark.parametrize(
    ("odd", "size"),
    [
        ({"RANK_STATE": state_rows([0], WORLD + 1, 1.0)}, 2),
        ({"LIFECYCLE": lifecycle_rows(LifecycleEvent.START, [0], WORLD + 1)}, 2),
        ({"LIFECYCLE": lifecycle_rows(LifecycleEvent.FAILURE, [0])}, 4),
        ({"LIFECYCLE": lifecycle_rows(LifecycleEvent.FAILURE, range(WORLD))}, 3),
        ({"STEP": step_rows([1 << 20], [0])}, 2),
        ({"STEP": step_rows([513], [0])}, 2),
        ({"STEP": step_rows([100], [0])}, 3),
    ],
    ids=[
        "larger world",
        "more ranks start",
        "failure",
        "all fail",
        "no place",
        "same slot",
        "baseline closes",
    ],
)
def test_what_changes_what_others_see_ends_a_group(odd: dict[str, Rows], size: int) -> None:
    segments = [of_node([1], 0), of_node([1], 1), of_node([], 0, **odd), of_node([2], 1)]
    assert together(segments, began()) == size


@pytest.mark.parametrize("moves", ["node", "stage"])
def test_a_rank_that_moves_goes_alone(moves: str) -> None:
    """Steps that settle in the same group are compared with its peers of before, or of after."""
    rows = state_rows([0], WORLD, 1.0)
    rows["stage"] += moves == "stage"
    moved = of_node([], int(moves == "node"), RANK_STATE=rows)
    segments = [of_node([1], 0), of_node([1], 1), moved, of_node([2], 0)]
    assert together(segments, began()) == 2
    assert together(segments[2:], began()) == 1


def test_the_last_rank_that_reports_goes_alone() -> None:
    segments = [
        of_node([1], node, RANK_STATE=state_rows([2 * node, 2 * node + 1], WORLD, 1.0))
        for node in (0, 1, 0, 1)
    ]
    job = LiveJob(JOB)
    job.apply(segment(1, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, [0], WORLD)}), NOW)
    job.apply(of_node([0], 0), NOW)
    assert together(segments, job) == 1
    job.apply(segments[0], NOW)
    assert together(segments[1:], job) == 1
    job.apply(segments[1], NOW)
    assert together(segments[2:], job) == 2


def exit_rows(ranks: Sequence[int]) -> Rows:
    rows = state_rows(ranks, WORLD, 1.0)
    rows["process_state"] = ProcessState.GONE
    return rows


def test_the_last_rank_that_ends_or_vanishes_ends_a_group() -> None:
    ended = lifecycle_rows(LifecycleEvent.FINISH, [1, 2])
    segments = [
        of_node([1], 0, RANK_STATE=exit_rows([0, 1])),
        of_node([1], 1, LIFECYCLE=ended),
        of_node([2], 0),
        of_node([2], 1, RANK_STATE=exit_rows([3])),
        of_node([3], 1),
    ]
    assert together(segments, began()) == 4


def test_a_start_does_not_go_with_an_end_before_it() -> None:
    ended = lifecycle_rows(LifecycleEvent.FINISH, [1])
    start = lifecycle_rows(LifecycleEvent.START, [1], WORLD, time_s=2.0)
    segments = [of_node([1], 0, LIFECYCLE=ended), of_node([], 0), of_node([0], 0, LIFECYCLE=start)]
    assert together(segments, began()) == 2


def test_steps_of_a_run_that_is_over_go_alone() -> None:
    job = began()
    for node in range(2):
        ranks = range(2 * node, 2 * node + 2)
        job.apply(of_node([], node, LIFECYCLE=lifecycle_rows(LifecycleEvent.FINISH, ranks)), NOW)
    assert job.current.outcome.is_over
    quiet = of_node([], 0, RANK_STATE=exit_rows([0]))
    assert together([quiet, quiet, of_node([2], 1), quiet], job) == 2
    assert together([of_node([2], 1), quiet], job) == 1


def test_a_start_does_not_go_with_the_checkpoint_before_it() -> None:
    """How long a save can have taken is known from the start of its node."""
    save = checkpoint_rows(CheckpointEvent.WRITTEN, [0], 1)
    start = lifecycle_rows(LifecycleEvent.START, [0], WORLD, time_s=2.0)
    segments = [of_node([1], 0, CHECKPOINT=save), of_node([2], 0, LIFECYCLE=start)]
    assert together(segments, began()) == 1
    job = began()
    for sent_segment in segments:
        job.append(sent_segment, NOW)
    job.fold()
    assert job.current.checkpoints.by_step[1].durable_seconds == 2.0
    assert together(segments[::-1], began()) == 2


def test_a_step_that_counts_before_its_last_rank_comes_counts_as_it_stood() -> None:
    """Node 1 reports step 1 after step 2 was complete: too late, also within one group."""
    late_segments = [of_node([1], 0), of_node([2], 0), of_node([2], 1), of_node([1], 1)]
    job, expected = began(), began()
    for sent_segment in late_segments:
        job.append(sent_segment, NOW)
        expected.apply(sent_segment, NOW)
    assert together(late_segments, began()) == len(late_segments)
    job.fold()
    assert job.totals.step_seconds == expected.totals.step_seconds
    assert job.totals.step_seconds == pytest.approx(0.2 + 0.2 + 0.3)
    assert differences(job, expected) == []


def test_times_of_any_length_are_summed_without_rounding() -> None:
    job, ranks = began(), np.arange(2)
    month = 30 * 86_400 * 1_000_000_000
    seconds_before = job.totals.seconds["duration"]
    for step in range(1, 5):
        rows = step_rows([step], ranks)
        rows["duration_ns"] = month - step
        job.append(segment(step, {Kind.STEP: rows}), NOW)
    job.fold()
    assert job.totals.seconds["duration"] - seconds_before == pytest.approx((8 * month - 20) / 1e9)

"""One node speaks for a rank: what others say of it is left out."""

from __future__ import annotations

import pytest

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.claims import rank_claims
from stepwatch.collector.state.claims.rank_claims import (
    FREE_WORLD,
    MAX_VOUCHING,
    SILENT_SECONDS,
    VOUCHED,
)
from stepwatch.collector.state.folding.batches import batch_of
from stepwatch.collector.state.snapshot import put_together, taken_apart
from stepwatch.collector.state.tracker import CELL_BYTES, Received
from stepwatch.collector.state.trackers.shared_name import SharedName
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, ProcessState, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.gathered import group_rows
from tests.collector.made import (
    EPOCH,
    checkpoint_rows,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
)

OWN, FOREIGN = "gpu-1", "gpu-9"


def say(
    attempt: Attempt,
    node: str,
    tables: dict[Kind, Rows],
    time_s: float = 0.0,
    wall_s: float | None = None,
) -> None:
    """A node says something `at` seconds into the run, which its clock dates `made`."""
    wall_ns = round((EPOCH + (time_s if wall_s is None else wall_s)) * NANOSECONDS)
    item = segment(1, tables, node=node)._replace(clock=ClockPair(0, wall_ns))
    attempt.apply(item, Received(EPOCH + time_s, time_s))


def begins_again(attempt: Attempt, node: str, tables: dict[Kind, Rows]) -> bool:
    return attempt.begins_again(batch_of(segment(1, tables, node=node), Received(EPOCH, 0.0)))


def running() -> Attempt:
    """Four ranks on one node."""
    attempt = Attempt(0)
    started = lifecycle_rows(LifecycleEvent.START, range(4), 4)
    say(attempt, OWN, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.LIFECYCLE: started})
    return attempt


def exit_rows(ranks: range) -> Rows:
    rows = state_rows(ranks, 4, 2.0)
    rows["process_state"] = ProcessState.GONE
    return rows


@pytest.mark.parametrize(
    "tables",
    [
        {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [2])},
        {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [4])},
        {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4))},
        {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(4), 4)},
        {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.RESUME, [0], 0)},
        {Kind.RANK_STATE: exit_rows(range(4))},
        {Kind.RANK_STATE: state_rows([0], 64, 2.0)},
        {Kind.STEP: step_rows(range(9), [1])},
        {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.FAILED, [0], 3)},
        {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.FAILED, [7], 3)},
        {Kind.GROUP: group_rows(5, [0, 1])},
        {Kind.GROUP: group_rows(5, [9])},
    ],
)
def test_nothing_of_a_rank_is_believed_from_another_node(tables: dict[Kind, Rows]) -> None:
    attempt, reference = running(), running()
    say(attempt, FOREIGN, tables, time_s=5.0)
    assert not attempt.outcome.failed and not attempt.outcome.finished and not attempt.outcome.gone
    assert (attempt.world, attempt.lifecycle.resumed_from) == (4, None)
    assert len(attempt.steps.history) == 0 == len(attempt.checkpoints.by_step)
    assert attempt.collective_records.groups == {}
    view, unchanged = attempt.ranks.views[2], reference.ranks.views[2]
    assert (view[:2], view.row.tobytes()) == (unchanged[:2], unchanged.row.tobytes())
    assert attempt.refused_records == sum(map(len, tables.values()))
    assert not begins_again(attempt, FOREIGN, tables)


def test_what_is_about_a_node_is_taken_from_any() -> None:
    attempt = running()
    host = make_rows(Kind.HOST, 3)
    say(attempt, FOREIGN, {Kind.HOST: host})
    assert attempt.refused_records == 0


def test_a_rank_that_no_node_reported_is_taken_from_the_first_that_does() -> None:
    attempt = Attempt(0)
    say(attempt, OWN, {Kind.RANK_STATE: state_rows(range(2), 4, 1.0)})
    say(attempt, "gpu-2", {Kind.RANK_STATE: state_rows(range(2, 4), 4, 1.0)})
    say(attempt, OWN, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [2])})
    assert attempt.refused_records == 1 and not attempt.outcome.failed
    say(attempt, "gpu-2", {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [2])})
    assert attempt.outcome.failed


def test_two_runs_under_one_name_are_still_noticed() -> None:
    attempt = running()
    for second in range(2, 60):
        say(
            attempt,
            (OWN, FOREIGN)[second % 2],
            {Kind.RANK_STATE: state_rows([0], 4, float(second))},
            second,
        )
    assert attempt.tracker(SharedName).nodes_of[0] == (FOREIGN, OWN)


@pytest.mark.parametrize(
    ("seconds", "moves"), [(SILENT_SECONDS - 1, False), (SILENT_SECONDS + 1, True)]
)
def test_ranks_of_a_node_that_is_silent_may_move(seconds: float, moves: bool) -> None:
    attempt = running()
    moved = {Kind.RANK_STATE: state_rows(range(4), 4, seconds)}
    say(attempt, FOREIGN, moved, time_s=seconds)
    assert (attempt.ranks.views[2].node == FOREIGN) is moves
    assert attempt.refused_records == (0 if moves else 4)


def test_a_node_whose_clock_is_slow_takes_over_from_a_silent_one() -> None:
    attempt, later = running(), SILENT_SECONDS + 1
    moved = {Kind.STEP: step_rows([0], range(4)), Kind.RANK_STATE: state_rows(range(4), 4, later)}
    say(attempt, FOREIGN, moved, time_s=later, wall_s=later - 3600.0)
    assert attempt.refused_records == 0 and len(attempt.steps.history) == 1


def test_an_agent_that_was_renamed_loses_nothing() -> None:
    """Two runs of the same rows: in one the agent has another name from step 3 on."""
    renamed, original = running(), running()
    for step in range(80):
        time_s = 1.0 + step
        rows = {
            Kind.STEP: step_rows([step], range(4), 1.0),
            Kind.RANK_STATE: state_rows(range(4), 4, time_s, step),
        }
        if step == 30:
            renamed = put_together(taken_apart(renamed))
        say(renamed, OWN if step < 3 else FOREIGN, rows, time_s=time_s)
        say(original, OWN, rows, time_s=time_s)
        assert (renamed.refused_records > 0) is (3 <= step <= 2 + SILENT_SECONDS), step
    assert renamed.steps.history.rows["reported"].tolist() == [4] * 80
    assert (
        renamed.ranks.views[2].node == FOREIGN
        and renamed.ranks.views[2].row.tobytes() == original.ranks.views[2].row.tobytes()
    )


def test_what_another_node_said_while_the_ranks_node_spoke_is_never_taken() -> None:
    attempt = running()
    say(attempt, FOREIGN, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [2])}, time_s=5.0)
    say(attempt, OWN, {Kind.RANK_STATE: state_rows(range(4), 4, 6.0)}, time_s=6.0)
    later = 7.0 + SILENT_SECONDS
    say(attempt, FOREIGN, {Kind.RANK_STATE: state_rows(range(4), 4, later)}, time_s=later)
    assert attempt.ranks.views[2].node == FOREIGN
    assert not attempt.outcome.failed and attempt.refused_records == 1


def test_what_is_kept_of_ranks_of_other_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, cells = running(), running().claims.cells
    monkeypatch.setattr(rank_claims, "MAX_WITHHELD_BYTES", 100_000)
    for index in range(200):
        rows = {Kind.STEP: step_rows(range(10), range(4))}
        say(attempt, FOREIGN, rows, time_s=0.1 * index)
    assert attempt.claims.cells - cells <= 100_000 // CELL_BYTES + 1
    assert attempt.refused_records == 200 * 40


def test_a_node_whose_clock_is_slow_keeps_its_ranks() -> None:
    attempt = running()
    for second in range(1, 100):
        own_states = {Kind.RANK_STATE: state_rows(range(4), 4, float(second))}
        say(attempt, OWN, own_states, time_s=second, wall_s=second - 3600.0)
    say(attempt, FOREIGN, {Kind.STEP: step_rows([0], range(4))}, time_s=100.0)
    assert attempt.refused_records == 4


def test_a_clock_that_is_ahead_takes_no_rank_over() -> None:
    attempt = running()
    say(attempt, FOREIGN, {Kind.STEP: step_rows([0], [1])}, time_s=5.0, wall_s=1e6)
    assert len(attempt.steps.history) == 0


def test_a_rank_that_ended_alone_is_not_started_elsewhere() -> None:
    attempt = running()
    say(attempt, OWN, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, [3])})
    started = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, [3], 4)}
    assert not begins_again(attempt, FOREIGN, started)
    assert begins_again(attempt, OWN, started)


def test_a_run_that_ended_may_be_launched_on_another_node() -> None:
    attempt = running()
    say(attempt, OWN, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4))})
    started = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(4), 4)}
    assert begins_again(attempt, FOREIGN, started)


def test_a_world_grows_only_where_most_of_its_ranks_say_so() -> None:
    attempt = running()
    say(attempt, FOREIGN, {Kind.RANK_STATE: state_rows(range(4, 60), 60, 2.0)})
    say(attempt, OWN, {Kind.RANK_STATE: state_rows([0, 1], 8, 3.0)})
    assert attempt.world == 4
    say(attempt, OWN, {Kind.RANK_STATE: state_rows([2], 8, 4.0)})
    assert attempt.world == 8


def test_as_many_ranks_are_believed_as_those_seen_vouch_for() -> None:
    attempt = Attempt(0)
    claims = attempt.claims
    ranks = FREE_WORLD // VOUCHED + 1
    world = ranks * VOUCHED
    say(attempt, OWN, {Kind.RANK_STATE: state_rows(range(ranks - 1), world, 1.0)})
    assert attempt.world == 0 == claims.believed_world(0)
    say(attempt, FOREIGN, {Kind.RANK_STATE: state_rows([ranks - 1], world, 1.0)})
    assert attempt.world == world
    many = Attempt(0)
    say(many, OWN, {Kind.RANK_STATE: state_rows(range(2 * MAX_VOUCHING), 100_000, 1.0)})
    for world, believed in ((VOUCHED * MAX_VOUCHING + 1, 0), (VOUCHED * MAX_VOUCHING, 1)):
        rows = state_rows(range(2 * MAX_VOUCHING), world, 1.0)
        say(many, OWN, {Kind.RANK_STATE: rows})
        assert many.world == world * believed

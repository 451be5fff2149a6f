"""From segments to verdicts: restarts, silent nodes, clocks that jump, a store that fails once."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.runtime.evaluation.job_state import ABANDONED_SECONDS
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view
from stepwatch.signals.records import Kind, LifecycleEvent, ProcessState, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)

SLOW = {(2, "forward"): 0.2}


class Site:
    """A service fed second by second, from the nodes that still live."""

    def __init__(self, store: Store, clock: HandClock, world: int = 4, nodes: int = 1) -> None:
        self.clock = clock
        self.world = world
        self.service = Service(store, clock)
        self.nodes = {f"node-{n}": range(n * world // nodes, (n + 1) * world // nodes)
                      for n in range(nodes)}  # fmt: skip
        self.sequence = 0
        self.step = 0

    def send(self, tables: dict[Kind, Rows], node: str = "node-0", attempt: int = 0) -> None:
        self.sequence += 1
        item = segment(self.sequence, tables, attempt=attempt, node=node)
        assert [v.verdict for v in self.service.receive(body([item]))] == ["accepted"]

    def run(
        self,
        seconds: int,
        silent: tuple[str, ...] = (),
        excess: dict[tuple[int, str], float] | None = None,
        moved_ago: float | None = None,
        attempt: int = 0,
        busy: bool = False,
        every: int = 1,
    ) -> None:
        """Let time pass, one step a second unless `moved_ago` says that the job stands, and
        evaluate `every` so many seconds.

        Then rank 0 sleeps, or is `busy`, and the others wait for it in a collective.
        """
        stands = moved_ago
        for second in range(1, seconds + 1):
            self.clock.advance(1.0)
            for node, ranks in self.nodes.items():
                if node in silent:
                    continue
                now_s = self.clock.monotonic
                ago = 0.05 if stands is None else stands
                states = state_rows(ranks, self.world, now_s, self.step, ago)
                if stands is not None:
                    states["in_collective"] = states["rank"] > 0
                    states["cpu_seconds"] = now_s if busy else 1.0
                tables = {Kind.RANK_STATE: states}
                if stands is None:
                    rows = step_rows([self.step], ranks, 1.0, excess)
                    rows["time_ns"] = round(now_s * 1e9)
                    tables[Kind.STEP] = rows
                self.send(tables, node, attempt)
            stands = None if stands is None else stands + 1.0
            self.step += stands is None
            if second % every == 0 or second == seconds:
                self.service.evaluate()
        assert self.service.evaluation_failures == 0

    def view(self) -> Any:
        job_state = self.service.job(JOB)
        assert job_state is not None
        return job_view.job_summary(*job_state, self.service.now())

    def incidents(self) -> list[tuple[str, str, int]]:
        return [(i["kind"], i["state"], i["rank"]) for i in self.view()["incidents"]]


def test_a_straggler_from_beginning_to_end(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    assert site.incidents() == []
    site.run(8, excess={(2, "forward"): 0.9})
    (incident,) = site.view()["incidents"]
    assert (incident["rank"], incident["phase"], incident["since_step"]) == (2, "forward", 20)
    assert 0 < incident["detected_after_seconds"] <= 10
    site.run(30)
    assert site.incidents() == [("straggler", "resolved", 2)]


def test_silent_agents_freeze_what_is_open(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    site.run(10, excess={(2, "forward"): 0.9})
    site.run(14, silent=("node-0",))
    assert site.incidents() == [("straggler", "open", 2)], "silence heals nothing"
    site.run(10, silent=("node-0",))
    assert site.incidents() == [("straggler", "open", 2), ("telemetry-lost", "open", -1)]
    assert site.view()["state"] == "unknown"
    site.run(25)
    assert site.incidents() == [("straggler", "resolved", 2), ("telemetry-lost", "resolved", -1)]
    assert site.view()["state"] == "running"


def test_one_silent_node_among_others_is_named(store: Store, clock: HandClock) -> None:
    site = Site(store, clock, world=8, nodes=2)
    site.run(20)
    site.run(20, silent=("node-1",))
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["node"]) == ("telemetry-lost", "node-1")
    assert "the other ranks report steps, so the job trains" in incident["summary"].lower()
    assert site.view()["state"] == "degraded", "the other node shows that it trains"


def flushes_every(seconds: float) -> dict[Kind, Rows]:
    rows = make_rows(Kind.AGENT, 1, flush_seconds=seconds)
    return {Kind.AGENT: rows}


def test_an_agent_that_flushes_rarely_has_longer_before_it_is_missed(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock)
    site.run(20)
    site.send(flushes_every(20.0))
    site.run(30, silent=("node-0",))
    assert site.incidents() == [], "one flush is late"
    site.run(60, silent=("node-0",))
    assert [item[:2] for item in site.incidents()] == [("telemetry-lost", "open")]


def test_an_agent_that_flushes_rarely_freezes_nothing_between_two_flushes(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock)
    site.run(20)
    site.run(10, excess={(2, "forward"): 0.9})
    site.run(8)
    site.send(flushes_every(20.0))
    assert site.incidents() == [("straggler", "open", 2)]
    site.run(20, silent=("node-0",))
    assert site.incidents() == [("straggler", "resolved", 2)]


def test_a_node_that_was_never_heard_is_missed(store: Store, clock: HandClock) -> None:
    site = Site(store, clock, world=8, nodes=2)
    site.run(5, silent=("node-1",), moved_ago=0.1)
    assert site.incidents() == [], "it may still be starting"
    site.run(20, silent=("node-1",))
    (incident,) = site.view()["incidents"]
    assert incident["kind"] == "telemetry-lost"


def test_finished_and_dead_ranks_are_not_missed(store: Store, clock: HandClock) -> None:
    site = Site(store, clock, world=8, nodes=2)
    site.run(20)
    site.send({Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4, 6))}, "node-1")
    dead = state_rows(range(6, 8), 8, clock.monotonic, 20)
    dead["process_state"] = ProcessState.GONE
    site.send({Kind.RANK_STATE: dead}, "node-1")
    site.run(20, silent=("node-1",), moved_ago=0.1)
    assert site.incidents() == [("hang", "open", 6)], "the dead rank, not lost telemetry"


def test_a_wait_is_a_ticket_then_a_hang_and_ends_with_the_next_step(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock)
    site.run(20)
    site.run(8, moved_ago=0.1)
    assert site.incidents() == [], "eight steps' time is allowed"
    site.run(5, moved_ago=9.0)
    assert site.incidents() == [("pause", "open", 0)]
    site.run(66, moved_ago=14.0)
    assert site.incidents() == [("pause", "merged", 0), ("hang", "open", 0)]
    site.run(17)
    assert site.incidents() == [("pause", "merged", 0), ("hang", "resolved", 0)]


def test_a_rank_at_work_is_a_ticket_after_a_minute_then_a_hang_and_one_incident(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock)
    site.run(20)
    began = clock.monotonic
    for until, expected in (
        (15, []),
        (70, []),
        (80, [("pause", "open", 0)]),
        (475, [("pause", "open", 0)]),
    ):
        clock.advance(until - 5 - (clock.monotonic - began))
        site.run(5, moved_ago=clock.monotonic - began, busy=True)
        assert site.incidents() == expected
    site.run(10, moved_ago=clock.monotonic - began, busy=True)
    assert site.incidents() == [("pause", "merged", 0), ("hang", "open", 0)]
    site.run(17)
    assert site.incidents() == [("pause", "merged", 0), ("hang", "resolved", 0)]


def test_a_restart_of_the_job_ends_the_old_attempt(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(30)
    site.run(10, excess={(2, "forward"): 0.9})
    earlier_slices = {part.start_s: part for part in store.slices(JOB, "goodput")}
    start = lifecycle_rows(LifecycleEvent.START, range(4), 4, clock.monotonic)
    resume = lifecycle_rows(LifecycleEvent.RESUME, range(4), 20, clock.monotonic)
    site.send({Kind.LIFECYCLE: np.concatenate([start, resume])}, attempt=1)
    site.step = 20
    site.run(10, attempt=1)
    assert site.incidents() == [("straggler", "ended", 2)]
    view = site.view()
    assert (view["attempt"], view["step"], view["state"]) == (1, 29, "running")
    assert [item["redone_from"] for item in view["attempts"]] == [20, None]
    later_slices = {part.start_s: part for part in store.slices(JOB, "goodput")}
    turned = [
        start for start, part in earlier_slices.items() if later_slices[start].good < part.good
    ]
    assert turned and all(
        later_slices[start].version > earlier_slices[start].version for start in turned
    )
    assert all(
        later_slices[start].total == earlier_slices[start].total
        for start in sorted(earlier_slices)[:-1]
    )


def test_own_downtime_is_no_lost_telemetry(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    clock.advance(600)
    site.service = Service(store, clock)
    site.service.evaluate()
    assert site.incidents() == []
    site.run(10)
    assert site.incidents() == [] and site.view()["state"] == "running"
    clock.advance(600)
    site.service = Service(store, clock)
    for _ in range(20):
        clock.advance(1.0)
        site.service.evaluate()
    assert site.incidents() == [("telemetry-lost", "open", -1)], "but lasting silence is"


def test_a_wall_clock_that_jumps_is_no_silence(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    for jump in (3600.0, -7200.0):
        clock.wall += jump
        site.service.evaluate()
        site.run(5)
        assert site.incidents() == []
    clock.wall -= 3600
    site.run(20, silent=("node-0",))
    assert site.incidents() == [("telemetry-lost", "open", -1)], "and hides none"


def test_what_could_not_be_written_is_written_later(
    store: Store, clock: HandClock, tmp_path: Path
) -> None:
    service = Service(store, clock)
    service.receive(body(run_segments(60, excess=SLOW, slow_from=40)))
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("alter table sli_slice rename to away")
    database.commit()
    service.evaluate()
    assert service.evaluation_failures == 1
    database.execute("alter table away rename to sli_slice")
    database.commit()
    database.close()
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    assert store.slices(JOB, "goodput") == list(job_state[1].slices["goodput"].line) != []
    assert [item["rank"] for item in store.incidents.newest(JOB)] == [2]
    assert len(store.account_days(0, 1 << 40, JOB)) == 1


def test_a_finished_job_raises_nothing_and_rests(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    site.send({Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4))})
    site.run(60, silent=("node-0",))
    assert site.incidents() == [] and site.view()["state"] == "finished"


def test_a_late_spool_is_judged_even_after_the_end(store: Store, clock: HandClock) -> None:
    site = Site(store, clock, world=8, nodes=2)
    site.run(20, silent=("node-1",))
    for node, ranks in site.nodes.items():
        site.send({Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, ranks)}, node)
    site.run(20, silent=("node-0", "node-1"))
    earlier_slice = store.slices(JOB, "goodput")[0]
    late_rows = step_rows(range(20), range(4, 8), 1.0)
    late_rows["time_ns"] += round(60 * 1e9)
    site.send({Kind.STEP: late_rows}, "node-1")
    site.service.evaluate()
    later_slice = store.slices(JOB, "goodput")[0]
    assert (
        later_slice.observed == 2 * earlier_slice.observed
        and later_slice.version > earlier_slice.version
    )


def test_ranks_that_fail_end_the_job_as_failed(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    site.send({Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [1])})
    assert site.view()["state"] == "running", "the others may go on"
    exit_rows = state_rows([0, 2, 3], 4, clock.monotonic, 20)
    exit_rows["process_state"] = ProcessState.GONE
    site.send({Kind.RANK_STATE: exit_rows})
    site.run(20, silent=("node-0",))
    assert site.view()["state"] == "failed"
    assert site.incidents() == [("rank-failed", "open", 1)]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_said_of_a_failed_attempt_ends_when_nobody_comes_back(
    store: Store, clock: HandClock, restarted: bool
) -> None:
    site = Site(store, clock)
    site.run(20)
    site.send({Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, range(4))})
    site.run(20, silent=("node-0",))
    if restarted:
        site.send({Kind.RANK_STATE: state_rows(range(4), 4, clock.monotonic)}, attempt=1)
        site.service.evaluate()
    kind, state, _ = site.incidents()[0]
    assert (kind, state) == ("rank-failed", "open")
    clock.advance(ABANDONED_SECONDS - 60.0)
    site.service.evaluate()
    assert site.incidents()[0][:2] == ("rank-failed", "open")
    clock.advance(61.0)
    site.service.evaluate()
    assert {incident[1] for incident in site.incidents()} == {"ended"}
    restarted_service = Service(store, clock)
    restarted_service.evaluate()
    assert restarted_service.jobs_now()[0][0][1].open_incidents() == []

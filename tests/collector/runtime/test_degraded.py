"""With one of two agents gone the rest is still evaluated, and what is unknown is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect import hang, telemetry
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind, LifecycleEvent, Op, ProcessState
from tests.collector.gathered import call_rows, group_rows
from tests.collector.made import HandClock, lifecycle_rows, state_rows
from tests.collector.runtime.test_evaluation import Site

WORLD, GROUP = 8, 7


class Hung(Site):
    """Eight ranks on two nodes; all that send wait in one all-reduce, but those outside it."""

    def __init__(self, store: Store, clock: HandClock) -> None:
        super().__init__(store, clock, WORLD, nodes=2)
        members = group_rows(GROUP, range(WORLD))
        for node, ranks in self.nodes.items():
            self.send({Kind.GROUP: members[list(ranks)]}, node)

    def hang(
        self,
        seconds: int,
        outside: tuple[int, ...] = (),
        silent: tuple[str, ...] = ("node-1",),
        stood: float = 0.1,
        process: ProcessState = ProcessState.SLEEPING,
        op: Op = Op.ALL_REDUCE,
    ) -> None:
        """Let time pass in which nothing moves; it began so long before."""
        for passed in range(seconds):
            self.clock.advance(1.0)
            if passed % 3 and passed < seconds - 3:
                continue  # agents may miss a flush or two
            for node, ranks in self.nodes.items():
                if node in silent:
                    continue
                rows = state_rows(
                    ranks, WORLD, self.clock.monotonic, self.step, stood + passed + 1.0
                )
                absent = [rank in outside for rank in ranks]
                rows["collective_group"], rows["collective_op"] = GROUP, op
                rows["in_collective"], rows["cpu_seconds"] = 1, 1.0
                rows["in_collective"][absent] = 0
                rows["process_state"][absent] = process
                self.send({Kind.RANK_STATE: rows}, node)
            self.service.evaluate()
        assert self.service.evaluation_failures == 0

    def open(self) -> dict[str, dict[str, Any]]:
        incidents = [
            incident for incident in self.view()["incidents"] if incident["state"] == "open"
        ]
        return {incident["kind"]: incident for incident in incidents}


@pytest.mark.parametrize(
    ("process", "seconds"), [(ProcessState.SLEEPING, 80), (ProcessState.STOPPED, 12)]
)
def test_a_hang_among_the_observed_is_found(
    store: Store, clock: HandClock, process: ProcessState, seconds: int
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(20, silent=("node-1",))
    site.hang(seconds, outside=(2,), process=process)
    hang = site.open()["hang"]
    assert (hang["rank"], hang["node"]) == (2, "node-0")
    assert "what ranks 4-7 do is unknown" in hang["summary"]
    assert "telemetry-lost" in site.open()


def test_a_hang_where_nobody_looks_is_found_after_a_pause_would_be_over(
    store: Store, clock: HandClock
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(20, silent=("node-1",))
    site.hang(60)
    assert site.open().keys() == {"telemetry-lost"}, "it may be a pause"
    site.hang(int(hang.LIMITS.legal_seconds) - 59, stood=60.0)
    hang_incident = site.open()["hang"]
    assert (hang_incident["rank"], hang_incident["node"], hang_incident["confidence"]) == (
        -1,
        "node-1",
        "one of",
    )
    assert (
        "ranks 0-3 wait in all_reduce of group 0,1,2,3,4,5,6,7 for one of ranks 4-7 on node "
        "node-1, which is not observed" in hang_incident["summary"]
    )


def with_calls(site: Hung, *ops: Op) -> None:
    """The observed ranks report these operations, in this order, of each step so far."""
    ranks = dict.fromkeys(site.nodes["node-0"], 0.01)
    records = [call_rows([step], ranks, GROUP, op) for step in range(site.step) for op in ops]
    site.send({Kind.COLLECTIVE: np.concatenate(records)})


def test_who_has_entered_a_step_is_in_no_pause_though_nobody_looks(
    store: Store, clock: HandClock
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(20, silent=("node-1",))
    with_calls(site, Op.ALL_GATHER, Op.REDUCE_SCATTER)
    site.hang(12, op=Op.REDUCE_SCATTER)
    hang = site.open()["hang"]
    assert (hang["node"], hang["cause"], hang["confidence"]) == ("node-1", "unknown", "one of")
    assert "wait in reduce_scatter" in hang["summary"]


@pytest.mark.parametrize("op", [Op.ALL_GATHER, Op.ALL_REDUCE])
def test_who_waits_where_a_step_begins_may_wait_for_a_pause(
    store: Store, clock: HandClock, op: Op
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(20, silent=("node-1",))
    with_calls(site, Op.ALL_GATHER, Op.REDUCE_SCATTER)
    site.hang(60, op=op)
    assert site.open().keys() == {"telemetry-lost"}


def test_a_rank_that_stood_when_it_was_last_seen_stays_the_one(
    store: Store, clock: HandClock
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.hang(12, outside=(5,), silent=())
    assert site.open()["pause"]["rank"] == 5
    site.hang(70, outside=(5,), stood=12.0)
    assert site.open().keys() == {"hang", "telemetry-lost"}
    hang = site.open()["hang"]
    assert (hang["rank"], hang["confidence"]) == (5, "likely")
    assert "it was last seen" in hang["summary"]


def test_steps_that_go_on_prove_that_the_unobserved_ranks_take_part(
    store: Store, clock: HandClock
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(20, silent=("node-1",))
    (incident,) = site.open().values()
    assert "The job trains" in incident["summary"]
    assert "complete collectives with ranks 4-7" in incident["summary"]


def test_who_is_not_observed_stays_as_it_was(store: Store, clock: HandClock) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(10, excess={(5, "forward"): 0.9})
    site.run(40, silent=("node-1",))
    assert site.open().keys() == {"straggler", "telemetry-lost"}
    site.run(25)
    assert site.open() == {}


def test_who_is_observed_with_a_peer_is_healthy_again(store: Store, clock: HandClock) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(10, excess={(2, "forward"): 0.9})
    assert site.open()["straggler"]["rank"] == 2
    site.run(40, silent=("node-1",))
    assert site.open().keys() == {"telemetry-lost"}


def test_the_observed_are_compared_with_each_other(store: Store, clock: HandClock) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(20, silent=("node-1",))
    site.run(20, silent=("node-1",), excess={(2, "forward"): 0.9})
    incidents = site.open()
    assert (incidents["straggler"]["rank"], incidents["straggler"]["phase"]) == (2, "forward")
    rows = {row["name"]: row["text"] for row in incidents["straggler"]["evidence"]}
    assert rows["ranks not observed"] == "ranks 4-7"
    site.run(130, silent=("node-1",), excess={(2, "forward"): 0.9})
    assert site.open().keys() == {"straggler", "telemetry-lost"}, "it explains the regression"


def test_a_rank_whose_peers_nobody_observes_is_compared_with_nobody(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock, world=2, nodes=2)
    site.run(20)
    site.run(20, silent=("node-1",))
    site.run(20, silent=("node-1",), excess={(0, "forward"): 0.9})
    kinds = {incident["kind"] for incident in site.view()["incidents"]}
    assert kinds == {"telemetry-lost"}


def test_data_that_all_observed_ranks_wait_for_are_named(store: Store, clock: HandClock) -> None:
    site = Hung(store, clock)
    site.run(60)
    site.run(20, silent=("node-1",))
    site.run(20, silent=("node-1",), excess={(rank, "data"): 0.9 for rank in range(8)})
    assert "nothing is known of ranks 4-7" in site.open()["data-stall"]["summary"]


def test_a_job_that_slows_down_may_wait_for_those_who_are_not_observed(
    store: Store, clock: HandClock
) -> None:
    site = Hung(store, clock)
    site.run(60)
    site.run(20, silent=("node-1",))
    site.run(160, silent=("node-1",), excess={(5, "forward"): 0.9})
    regression = site.open()["throughput-regression"]
    assert (regression["rank"], regression["cause"]) == (-1, "unknown")
    assert "nothing is known of ranks 4-7, for which the others may wait" in regression["summary"]


LOST_PEER = b"RuntimeError: [gloo/transport/tcp/pair.cc:537] Connection closed by peer"


def survivors_fail(site: Site, stood: float = 0.1) -> None:
    """The ranks of the first node, which made no progress for so long, raise and end."""
    now_s, ranks = site.clock.monotonic, site.nodes["node-0"]
    failed = lifecycle_rows(LifecycleEvent.FAILURE, ranks, time_s=now_s)
    failed["text"] = LOST_PEER
    states = state_rows(ranks, WORLD, now_s, site.step, stood)
    states["process_state"], states["exit_code"] = ProcessState.GONE, 1
    states["gone_ns"] = round(now_s * 1e9)
    site.send({Kind.LIFECYCLE: failed, Kind.RANK_STATE: states})


def wait(site: Site, seconds: int) -> None:
    for _ in range(seconds):
        site.clock.advance(1.0)
        site.service.evaluate()


@pytest.mark.parametrize("seconds", [0, 20])
def test_a_lost_node_is_the_cause_and_no_survivor(
    store: Store, clock: HandClock, seconds: int
) -> None:
    """Its peers notice at once, or when their connections time out."""
    site = Hung(store, clock)
    site.run(20)
    site.hang(seconds)
    survivors_fail(site, stood=seconds + 0.1)
    wait(site, 6)
    (incident,) = site.open().values()
    assert (incident["kind"], incident["cause"], incident["rank"]) == (
        "rank-failed",
        "node-lost",
        -1,
    )
    assert (incident["node"], incident["confidence"]) == ("node-1", "likely")


def test_what_failed_where_nobody_looks_is_one_of_those_ranks(
    store: Store, clock: HandClock
) -> None:
    site = Hung(store, clock)
    site.run(20)
    site.run(30, silent=("node-1",))
    survivors_fail(site)
    wait(site, 6)
    failure = site.open()["rank-failed"]
    assert (failure["node"], failure["confidence"]) == ("node-1", "one of")
    assert "one of ranks 4-7 on node node-1, which is not observed" in failure["summary"]


@pytest.mark.parametrize("silent_before", [0, 2])
def test_a_lost_node_whose_peers_wait_on_is_one_incident(
    store: Store, clock: HandClock, silent_before: int
) -> None:
    """It is found before telemetry counts as missing, or with it, and goes on."""
    site = Hung(store, clock)
    site.run(20)
    site.run(silent_before, silent=("node-1",))
    site.hang(int(telemetry.LIMITS.least_seconds) - silent_before)
    (incident,) = site.open().values()
    assert (incident["kind"], incident["cause"], incident["node"]) == (
        "hang",
        "node-lost",
        "node-1",
    )
    site.hang(60, stood=telemetry.LIMITS.least_seconds)
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["state"]) == ("hang", "open")
    assert incident["confidence"] == "one of"


def test_a_node_that_was_silent_while_the_others_made_steps_may_evaluate(
    store: Store, clock: HandClock
) -> None:
    """Three steps of a second with its ranks: its agent ended before them. That nothing is received
    pages at once, that nothing moves after a minute and a half."""
    site = Hung(store, clock)
    site.run(20)
    site.run(3, silent=("node-1",))
    least = int(telemetry.LIMITS.least_seconds)
    site.hang(least)
    (incident,) = site.open().values()
    assert (incident["kind"], incident["node"]) == ("telemetry-lost", "node-1")
    site.hang(80, stood=least)
    hang = site.open()["hang"]
    assert (hang["cause"], hang["node"], hang["confidence"]) == ("unknown", "node-1", "one of")

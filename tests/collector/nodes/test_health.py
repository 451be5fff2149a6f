"""The health of a node, and what many nodes have at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from stepwatch.collector.detect.node_fault.detector import LIMITS as SHARED
from stepwatch.collector.nodes.fleet import Fleet, Node, fleet_of
from stepwatch.collector.nodes.health import Health, part_state
from stepwatch.collector.nodes.limits import LIMITS
from stepwatch.collector.store.nodes import NodeRow, Sighted, report_of
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.node_facts.actions import Action
from stepwatch.signals.records import NodeFact
from stepwatch.signals.wire import Segment
from tests.collector.made import EPOCH, JOB

from .sightings import DEGRADED, DISK_SLOW, FAILED, HEALTHY, UNKNOWN, XID_79, report

DAY = 86_400.0
UNREAD = {"fact": NodeFact.SOURCE_UNREAD, "code": -1, "subject": "kernel-log", "text": "denied"}
EVIDENCE = {"fact": NodeFact.OUT_OF_MEMORY, "code": -1, "subject": "python3", "text": "killed"}
SILENT = LIMITS.silent_seconds


def fleet(
    *segments: Segment, now: float = 100.0, incidents: Iterable[Mapping[str, Any]] = ()
) -> Fleet:
    """Nodes as they are `now` seconds after `EPOCH`, each segment received when it was made."""
    rows: dict[str, NodeRow] = {}
    sighted: list[Sighted] = []
    for segment in segments:
        node_report = report_of(segment, segment.clock.wall_ns)
        assert node_report is not None
        previous = rows.get(node_report.node, NodeRow(node_report.node, 0, 0, ""))
        newest = max(previous.received_ns, node_report.received_ns)
        rows[node_report.node] = NodeRow(node_report.node, newest, newest, node_report.version)
        sighted += node_report.sighted
    return fleet_of(rows.values(), sighted, incidents, EPOCH + now)


def node(*segments: Segment, now: float = 100.0) -> Node:
    return fleet(*segments, now=now).nodes["node-0"]


@pytest.mark.parametrize(
    ("facts", "health", "action", "reason"),
    [
        ([], HEALTHY, Action.NONE, "no fault"),
        ([EVIDENCE], HEALTHY, Action.NONE, "no fault"),
        ([DISK_SLOW], DEGRADED, Action.DRAIN, "disk slow (nvme0n1)"),
        ([DISK_SLOW, XID_79], FAILED, Action.REBOOT, "XID 79"),
        ([DISK_SLOW, XID_79], FAILED, Action.REBOOT, "and 1 more"),
        ([UNREAD], UNKNOWN, Action.NONE, "kernel-log cannot be read: denied"),
        ([UNREAD, DISK_SLOW], DEGRADED, Action.DRAIN, "disk slow"),
    ],
)
def test_the_state_is_that_of_the_worst_fact(
    facts: list[dict[str, Any]], health: str, action: Action, reason: str
) -> None:
    node_view = node(report(100, *facts))
    assert (node_view.state.health, node_view.state.action) == (health, action)
    assert reason in node_view.state.reason


def test_a_silent_agent_is_unknown_whatever_it_reported_last() -> None:
    for facts in ([], [XID_79]):
        last = report(100, *facts)
        assert node(last, now=100 + SILENT).state.health is not UNKNOWN
        state = node(last, now=100 + SILENT + 1).state
        assert state.health is UNKNOWN and "no report for 91" in state.reason
        assert state.since_at == EPOCH + 100
    assert "It was failed then: XID 79" in state.reason and state.action is Action.REBOOT
    only_jobs = node(report(100, XID_79, job=JOB))
    assert only_jobs.state.health is UNKNOWN and "upgrade the agent" in only_jobs.state.reason


def test_a_fact_that_a_restarted_agent_does_not_find_is_over() -> None:
    last = report(100, {**DISK_SLOW, "began": 10.0})
    within = [last, report(100 + SILENT, spool=8)]
    assert node(*within, now=100 + SILENT).state.health is DEGRADED
    later_reports = [last, report(101 + SILENT, spool=8)]
    node_view = node(*later_reports, now=101 + SILENT)
    assert node_view.state.health is HEALTHY and len(node_view.episodes) == 1


def test_faults_are_counted_over_a_week_and_a_month() -> None:
    def once(day: float) -> list[Segment]:
        time_s = day * DAY
        fact = {**DISK_SLOW, "began": time_s}
        return [report(time_s, fact), report(time_s + 60, {**fact, "present": 0})]

    now = 40 * DAY
    history = [segment for day in (5, 20, 25, 38) for segment in once(day)]
    node_view = node(*history, report(now), now=now)
    assert (node_view.faults_week, node_view.faults_month) == (1, 3)
    assert node_view.is_offender() and node_view.state.health is HEALTHY
    few = node(*once(25), *once(38), report(now), now=now)
    assert (few.faults_week, few.faults_month) == (1, 2) and not few.is_offender()
    soon = node(*once(37), *once(38), report(now), now=now)
    assert soon.faults_week == 2 and soon.is_offender()


def test_jobs_whose_incidents_name_the_node_are_counted() -> None:
    def incident(job: str, **fields: Any) -> dict[str, Any]:
        return {"job": job, "node": "node-0", "opened_at": EPOCH + 50.0, **fields}

    fleet_view = fleet(
        report(100),
        incidents=[
            incident("a"), incident("a"), incident("b"), incident("c", node="node-1"),
            incident("d", merged_into="0123"), incident("e", severity="info"),
            incident("f", opened_at=EPOCH - 31 * DAY),
        ],
    )  # fmt: skip
    assert fleet_view.nodes["node-0"].jobs_month == 2


@pytest.mark.parametrize(
    ("having", "reporting", "shared"),
    [(3, 6, True), (3, 7, False), (2, 2, False), (4, 6, True), (6, 6, True)],
)
def test_many_at_once_are_not_drained_one_by_one(having: int, reporting: int, shared: bool) -> None:
    assert (SHARED.together_nodes, SHARED.together_ratio) == (3, 0.5)
    segments = [
        report(100, *([XID_79] if number < having else []), node=f"node-{number}")
        for number in range(reporting)
    ]
    silent = [report(1, XID_79, node=f"silent-{number}") for number in range(5)]
    fleet_view = fleet(*segments, *silent)
    first = fleet_view.nodes["node-0"].state
    assert first.health is FAILED
    if not shared:
        assert not fleet_view.shared and first.action is Action.REBOOT
        return
    (together,) = fleet_view.shared
    assert f"{having} of {reporting} nodes have XID 79" in together.summary
    assert "before draining any" in together.summary and "silent-0" not in together.nodes
    assert first.action is Action.NONE
    assert first.reason.endswith(f"{having} of {reporting} nodes have it at once")


def test_a_worse_fault_of_its_own_keeps_its_action() -> None:
    segments = [report(100, DISK_SLOW, node=f"node-{number}") for number in range(1, 4)]
    own_report = report(100, DISK_SLOW, XID_79)
    fleet_view = fleet(own_report, *segments)
    assert len(fleet_view.shared) == 1
    assert fleet_view.nodes["node-0"].state.action is Action.REBOOT
    assert fleet_view.nodes["node-1"].state.action is Action.NONE


def test_a_fault_of_its_own_beside_one_that_many_have_keeps_its_action() -> None:
    shared = [report(100, XID_79, node=f"node-{number}") for number in range(1, 4)]
    state = fleet(report(100, XID_79, DISK_SLOW), *shared).nodes["node-0"].state
    assert state.health is FAILED and state.action is Action.DRAIN
    assert state.reason.endswith("4 of 4 nodes have it at once, and not disk slow (nvme0n1)")


def test_a_part_of_which_nothing_is_known_is_unknown() -> None:
    def part(node_view: Node, fact: NodeFact) -> Health:
        return part_state(
            [episode for episode in node_view.episodes if episode.fact is fact], node_view.state
        )[0]

    only_jobs = node(report(100, XID_79, job=JOB))
    assert part(only_jobs, NodeFact.XID) is UNKNOWN
    unread = node(report(100, UNREAD, DISK_SLOW))
    assert part(unread, NodeFact.SOURCE_UNREAD) is UNKNOWN
    assert part(unread, NodeFact.DISK_SLOW) is DEGRADED
    over = {**UNREAD, "present": 0}
    assert part(node(report(90, UNREAD), report(100, over)), NodeFact.SOURCE_UNREAD) is HEALTHY


def test_the_clock_of_a_node_may_be_wrong() -> None:
    fact = {**DISK_SLOW, "began": 50.0}
    reports = [report_of(segment, (EPOCH + 100) * NANOSECONDS) for segment in (report(100, fact),)]
    (early_report,) = [candidate for candidate in reports if candidate is not None]
    year_ns = round(365 * DAY) * NANOSECONDS
    moved = [
        sighting._replace(began_ns=sighting.began_ns - year_ns, seen_ns=sighting.seen_ns - year_ns)
        for sighting in early_report.sighted
    ]
    row = NodeRow("node-0", early_report.reported_ns - year_ns, early_report.received_ns, "")
    (node_view,) = fleet_of([row], moved, [], EPOCH + 110.0).nodes.values()
    assert node_view.state.health is DEGRADED and node_view.faults_week == 1

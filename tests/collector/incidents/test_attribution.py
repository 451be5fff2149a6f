"""Which fact explains a finding, and what is said when none does or none is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.incidents.attribution import RULES, attribute
from stepwatch.collector.state.newest_hosts import Neighbour
from stepwatch.collector.state.trackers.nodes.node_facts import (
    DEVICE_FACTS,
    NODE_FACTS,
    RANK_FACTS,
    View,
)
from stepwatch.signals.names import Cause, FindingKind

WORLD = 8
SLOW = 5
"""Two nodes of four ranks; rank 5 is on the second."""


def view(
    now: dict[str, dict[int, float]] | None = None,
    past_value: float = 0.0,
    *,
    nodes: int = 2,
    healthy: float = 0.0,
    neighbour: Neighbour | None = None,
    devices_read: bool = False,
) -> View:
    """Facts that are `healthy` everywhere but where `now` says otherwise."""
    sizes = dict.fromkeys(NODE_FACTS, nodes) | dict.fromkeys((*RANK_FACTS, *DEVICE_FACTS), WORLD)
    values = {name: np.full(size, healthy) for name, size in sizes.items()}
    for name, cells in (now or {}).items():
        for rank, value in cells.items():
            values[name][rank] = value
    past = {name: np.full(size, past_value) for name, size in sizes.items()}
    node_at = np.arange(WORLD) // (WORLD // nodes)
    names = tuple(f"node-{number}" for number in range(nodes))
    return View(values, past, node_at, names, (neighbour,) * nodes, devices_read)


def finding(
    kind: FindingKind = FindingKind.STRAGGLER,
    rank: int = SLOW,
    phase: str = "forward",
    cause: Cause = Cause.SLOW_COMPUTE,
) -> Finding:
    rows = (Evidence("self time", 1.0, "seconds", "peers 0.5 s"),)
    return build_finding(
        kind=kind,
        rank=rank,
        phase=phase,
        cause=cause,
        summary="rank 5 is slow",
        began_step=812,
        began_ago_seconds=4.0,
        ratio=2.0,
        lost_ratio=0.3,
        evidence=rows,
    )


def test_stolen_cpu_is_named_with_its_row() -> None:
    attributed = attribute(finding(), view({"cpu_steal_ratio": {1: 0.3, 0: 0.01}}))
    assert attributed.cause is Cause.CPU_STEAL
    assert attributed.summary == "rank 5 is slow, because its CPU is stolen"
    row = Evidence("CPU stolen by the hypervisor", 0.3, "ratio", "usual 1%", reference=0.01)
    assert attributed.evidence[1] == row


def test_what_all_nodes_have_is_no_cause() -> None:
    attributed = attribute(finding(), view({"cpu_steal_ratio": {0: 0.3, 1: 0.3}}))
    assert attributed.cause is Cause.SLOW_COMPUTE and attributed.summary.endswith(
        "; node facts are normal"
    )


def test_a_finding_without_a_rank_names_the_node_whose_fact_explains_it() -> None:
    stalled = finding(FindingKind.DATA_STALL, NO_RANK, "data", Cause.SLOW_DATA)
    attributed = attribute(stalled, view({"io_pressure_ratio": {1: 0.6}}))
    assert attributed.summary.endswith(", because node node-1 waits for storage")
    assert attributed.evidence[-1].name == "storage pressure on node-1"


def test_ranks_of_one_node_share_its_facts() -> None:
    shared = view({"cpu_steal_ratio": {0: 0.3}}, nodes=1)
    attributed = attribute(finding(), shared)
    assert attributed.cause is Cause.SLOW_COMPUTE
    assert "shared by all ranks" in attributed.summary
    assert any("shared by all ranks" in row.against for row in attributed.evidence)
    with_faults = attribute(finding(), view({"major_faults_per_second": {SLOW: 400.0}}, nodes=1))
    assert with_faults.cause is Cause.PAGE_FAULTS


@pytest.mark.parametrize(
    ("fact", "cause"),
    [
        ("thermal_ratio", Cause.THERMAL_THROTTLE),
        ("power_cap_ratio", Cause.POWER_CAP),
        ("clock_loss_ratio", Cause.LOW_CLOCKS),
        ("ecc_uncorrected_per_second", Cause.ECC_ERRORS),
        ("xid_per_second", Cause.XID),
        ("lost_ratio", Cause.XID),
    ],
)
def test_facts_of_the_device_explain_a_slow_rank(fact: str, cause: Cause) -> None:
    hot = view({fact: {SLOW: 1.0}}, nodes=1, devices_read=True)
    assert attribute(finding(), hot).cause is cause
    if fact != "lost_ratio":
        data = attribute(finding(phase="data", cause=Cause.SLOW_DATA), hot)
        assert data.cause is Cause.SLOW_DATA, "clocks make no loader slow"


@pytest.mark.parametrize("fact", ["thermal_ratio", "power_cap_ratio", "clock_loss_ratio"])
def test_clocks_make_no_device_wait_for_its_host(fact: str) -> None:
    hot = view({fact: {SLOW: 1.0}}, nodes=1, devices_read=True)
    assert attribute(finding(cause=Cause.LAUNCH_BOUND), hot).cause is Cause.LAUNCH_BOUND
    assert attribute(finding(cause=Cause.SLOW_COMPUTE), hot).cause is not Cause.SLOW_COMPUTE


def test_facts_of_the_host_explain_a_device_that_waits_for_it() -> None:
    launch_bound = finding(cause=Cause.LAUNCH_BOUND)
    assert attribute(launch_bound, view({"cpu_steal_ratio": {1: 0.3}})).cause is Cause.CPU_STEAL
    paging = view({"major_faults_per_second": {SLOW: 400.0}}, nodes=1)
    assert attribute(launch_bound, paging).cause is Cause.PAGE_FAULTS
    assert attribute(launch_bound, view()).summary == "rank 5 is slow; node facts are normal"


def test_an_error_of_the_device_explains_why_it_is_stuck() -> None:
    stuck = finding(FindingKind.HANG, cause=Cause.DEVICE_STUCK)
    ill = view({"xid_per_second": {SLOW: 1.0}}, devices_read=True)
    assert attribute(stuck, ill).cause is Cause.XID


def test_a_fact_must_fit_the_phase() -> None:
    waits = view({"io_pressure_ratio": {1: 0.6}})
    assert attribute(finding(), waits).cause is Cause.SLOW_COMPUTE
    loader = finding(phase="data", cause=Cause.SLOW_DATA)
    assert attribute(loader, waits).cause is Cause.IO_PRESSURE
    torn = view({"nic_errors_per_second": {1: 40.0}})
    assert attribute(finding(), torn).cause is Cause.SLOW_COMPUTE
    link = finding(FindingKind.SLOW_COLLECTIVE, phase="backward", cause=Cause.SLOW_TRANSFER)
    assert attribute(link, torn).cause is Cause.NIC_ERRORS


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (FindingKind.SLOW_COLLECTIVE, Cause.SLOW_TRANSFER),
        (FindingKind.THROUGHPUT_REGRESSION, Cause.ALL_RANKS_SLOWER),
    ],
)
def test_a_node_that_is_short_of_cpu_slows_its_transfers_and_its_steps(
    kind: FindingKind, cause: Cause
) -> None:
    slow = finding(kind, NO_RANK, "", cause)
    # TCP sends again on such a node, which is not a fault of its network.
    short = {"cpu_pressure_ratio": {1: 0.8}, "tcp_retransmit_ratio": {1: 0.05}}
    explained = attribute(slow, view(short, nodes=2))
    assert explained.cause is Cause.CPU_CONTENTION
    assert "because node node-1 is short of CPU" in explained.summary
    always_full = attribute(slow, view({"cpu_pressure_ratio": {1: 0.8}}, past_value=0.7))
    assert always_full.cause is cause
    stolen = attribute(slow, view({"cpu_steal_ratio": {0: 0.3}}))
    assert stolen.cause is Cause.CPU_STEAL
    assert stolen.summary.endswith("because node node-0's CPU is stolen")


def test_without_facts_nothing_is_called_normal() -> None:
    nothing = view(healthy=math.nan, past_value=math.nan)
    assert attribute(finding(), nothing).summary.endswith("; node facts unknown")
    unknown_view = view(healthy=math.nan, past_value=math.nan)
    unknown_view.now["cpu_steal_ratio"][:] = 0.01
    summary = attribute(finding(), unknown_view).summary
    assert "that are known are normal" in summary and "memory-pressure" in summary
    assert "cpu-steal" not in summary


def test_a_device_that_is_not_read_is_unknown_where_others_are() -> None:
    unread = view(devices_read=True)
    for name in DEVICE_FACTS:
        unread.now[name][SLOW] = math.nan
    assert "low-clocks" in attribute(finding(), unread).summary
    assert attribute(finding(), view()).summary.endswith("; node facts are normal")


def test_the_own_past_counts_where_there_are_no_peers() -> None:
    pressure = {"io_pressure_ratio": {0: 0.6, 1: 0.1}}
    stall = finding(FindingKind.DATA_STALL, NO_RANK, "data", Cause.UNKNOWN)
    assert attribute(stall, view(pressure)).cause is Cause.IO_PRESSURE
    assert attribute(stall, view(pressure, past_value=0.55)).cause is Cause.UNKNOWN
    unread = attribute(stall, view(pressure, past_value=math.nan))
    assert unread.cause is Cause.UNKNOWN and "unknown" in unread.summary


def test_ranks_in_trouble_are_nobodys_healthy_peers() -> None:
    facts = {"major_faults_per_second": {rank: 300.0 for rank in range(WORLD)} | {0: 0.0}}
    assert attribute(finding(), view(facts)).cause is Cause.SLOW_COMPUTE
    degraded_ranks = frozenset(range(1, WORLD)) - {SLOW}
    assert attribute(finding(), view(facts), degraded_ranks).cause is Cause.PAGE_FAULTS


def test_contention_names_the_neighbour() -> None:
    named = finding(cause=Cause.CPU_CONTENTION)
    noisy = Neighbour("backup", 4242, 0.97)
    attributed = attribute(named, view({"run_queue_ratio": {SLOW: 0.5}}, neighbour=noisy))
    assert attributed.cause is Cause.CPU_CONTENTION
    assert "because it is ready to run and gets no CPU: backup (pid 4242)" in attributed.summary
    assert attributed.evidence[-1].name == "noisy neighbour backup, pid 4242"
    quiet = attribute(named, view(neighbour=noisy._replace(cpu_ratio=0.01)))
    assert quiet.cause is Cause.CPU_CONTENTION and "backup" not in quiet.summary
    stolen = attribute(named, view({"cpu_steal_ratio": {1: 0.3}}, neighbour=noisy))
    assert stolen.cause is Cause.CPU_STEAL, "who takes the CPU is outside"
    queue = view({"run_queue_ratio": {SLOW: 0.5}})
    assert attribute(finding(), queue).cause is Cause.SLOW_COMPUTE, "the detector weighs it"


def test_a_long_run_queue_that_explains_little_is_not_called_normal() -> None:
    attributed = attribute(finding(), view({"run_queue_ratio": {SLOW: 0.4}}))
    assert "it is ready to run and gets no CPU 40% of the time" in attributed.summary
    assert "normal" not in attributed.summary
    assert any(row.name == "time on the run queue" for row in attributed.evidence)


def test_what_a_detector_knows_stays() -> None:
    stopped = finding(FindingKind.HANG, cause=Cause.PROCESS_STOPPED)
    assert attribute(stopped, view({"xid_per_second": {SLOW: 1.0}}, devices_read=True)) == stopped


@settings(max_examples=200)
@given(
    st.sampled_from(FindingKind),
    st.integers(-1, WORLD + 1),
    st.sampled_from([Cause.UNKNOWN, Cause.SLOW_DATA, Cause.CPU_CONTENTION, Cause.XID]),
    st.lists(st.sampled_from([0.0, 0.3, 1e9, math.nan]), min_size=16, max_size=16),
    st.integers(1, 2),
)
def test_any_facts_give_one_of_the_causes_and_keep_the_evidence(
    kind: FindingKind, rank: int, cause: Cause, values: list[float], nodes: int
) -> None:
    odd = view(nodes=nodes, devices_read=True)
    for index, name in enumerate((*NODE_FACTS, *RANK_FACTS, *DEVICE_FACTS)):
        odd.now[name][:] = values[index % len(values)]
        odd.now[name][0] = values[(index * 7 + 3) % len(values)]
    original = finding(kind, rank, "data", cause)
    attributed = attribute(original, odd)
    assert attributed.evidence[: len(original.evidence)] == original.evidence
    assert attributed.cause is cause or attributed.cause in {rule.cause for rule in RULES}
    assert (attributed.kind, attributed.rank, attributed.began_step) == (
        kind,
        rank,
        original.began_step,
    )


@pytest.mark.parametrize(
    ("clock", "limit", "words"),
    [
        (1.2e9, 1.98e9, ", from 1980 to 1200 MHz"),
        (math.nan, 1.98e9, ""),
        (1.2e9, math.nan, ""),
        (1.98e9, 1.98e9, ""),
    ],
)
def test_a_device_that_throttles_says_how_far(clock: float, limit: float, words: str) -> None:
    clocks = {"clock_hertz": {SLOW: clock}, "clock_limit_hertz": {SLOW: limit}}
    attributed = attribute(finding(), view({"thermal_ratio": {SLOW: 0.9}, **clocks}))
    assert attributed.summary == f"rank 5 is slow, because its device is hot and throttles{words}"
    stolen = attribute(finding(), view({"cpu_steal_ratio": {1: 0.3}, **clocks}))
    assert "MHz" not in stolen.summary

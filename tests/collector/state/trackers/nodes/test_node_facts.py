"""What the readings of nodes and ranks come to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepwatch.collector.state.readings import EARLIER, NEWEST, Rates, Readings
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import Batch, Batches, Received, TrackedAttempt
from stepwatch.collector.state.trackers.nodes.node_facts import MAX_RANKS, NodeFacts, View
from stepwatch.signals.records import Kind, Throttle, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.histories import state_of

SECOND = 10**9
ATTEMPT = TrackedAttempt(0, Totals(), ())
ATTEMPT.offsets.update(a=0, b=0)
NODES = {0: "a", 1: "a", 2: "b", 3: "b"}


def row(kind: Kind, time_s: float, **values: float | bytes) -> Rows:
    """One row; what is not given is unknown."""
    return make_rows(kind, 1, time_ns=round(time_s * SECOND), **values)


def add(facts: NodeFacts, tables: dict[Kind, Rows], node: str) -> None:
    """Fold one segment's tables of one node in."""
    facts.fold(Batches([Batch(node, 0, Received(0.0, 0.0), tables)]), ATTEMPT)


def view_of(facts: NodeFacts, seconds: float = 4.0) -> View:
    return facts.view(NODES, 4, seconds)


def test_facts_are_those_since_the_trouble_began_and_before() -> None:
    facts = NodeFacts()
    for second in range(60):
        host = row(Kind.HOST, second, cpu_steal_ratio=0.5 if second >= 56 else 0.01)
        add(facts, {Kind.HOST: host}, "a")
    view = view_of(facts, 3.0)
    assert view.nodes == ("a", "b") and view.node_at.tolist() == [0, 0, 1, 1]
    assert view.now["cpu_steal_ratio"][0] == pytest.approx(0.5)
    assert view.earlier["cpu_steal_ratio"][0] == pytest.approx(0.01)
    assert math.isnan(view.now["cpu_steal_ratio"][1]), "another node says nothing of this one"
    assert math.isnan(view.now["io_pressure_ratio"][0])


def test_counters_become_rates_and_one_that_goes_back_is_unknown() -> None:
    facts = NodeFacts()
    for second, faults in enumerate([100.0, 150.0, 250.0]):
        states = row(
            Kind.RANK_STATE, second, rank=2, run_queue_seconds=second / 2, major_faults=faults
        )
        add(facts, {Kind.RANK_STATE: states}, "b")
    view = view_of(facts)
    assert view.now["major_faults_per_second"][2] == pytest.approx(75.0)
    assert view.now["run_queue_ratio"][2] == pytest.approx(0.5)
    rates = Rates(1, 10)
    counters = [np.array([value]) for value in (5.0, 3.0, 4.0)]
    per_second = [float(rates.rate("x", second, value)[0]) for second, value in enumerate(counters)]
    assert math.isnan(per_second[0]) and math.isnan(per_second[1]) and per_second[2] == 1.0


def test_interfaces_of_a_node_are_taken_together() -> None:
    facts = NodeFacts()
    for second in range(3):
        nics = np.concatenate(
            [
                row(Kind.NIC, second, interface=b"eth0", errors=2.0 * second, drops=0.0),
                row(
                    Kind.NIC,
                    second,
                    interface=b"eth1",
                    errors=0.0,
                    drops=3.0 * second,
                    carrier_changes=1,
                ),
                row(
                    Kind.NIC, second, tcp_sent_segments=100.0 * second, tcp_retransmits=2.0 * second
                ),
            ]
        )
        add(facts, {Kind.HOST: row(Kind.HOST, second), Kind.NIC: nics}, "b")
    view = view_of(facts)
    assert view.now["nic_errors_per_second"][1] == pytest.approx(5.0)
    assert view.now["tcp_retransmit_ratio"][1] == pytest.approx(0.02)


def test_devices_are_those_of_their_ranks() -> None:
    facts = NodeFacts()
    for second in range(3):
        device = row(
            Kind.DEVICE, second, rank=3, device=1, throttle=int(Throttle.THERMAL), lost=0,
            busy_ratio=1, clock_hertz=1e9, clock_limit_hertz=2e9, xid_count=second,
            ecc_uncorrected=0,
        )  # fmt: skip
        nobodys = row(Kind.DEVICE, second, rank=-1, device=2, throttle=-1, lost=1)
        add(facts, {Kind.DEVICE: np.concatenate([device, nobodys])}, "b")
    view = view_of(facts)
    assert view.devices_read
    assert view.now["thermal_ratio"][3] == 1.0 and view.now["power_cap_ratio"][3] == 0.0
    assert view.now["clock_loss_ratio"][3] == pytest.approx(0.5)
    assert view.now["xid_per_second"][3] == 1.0 and view.now["lost_ratio"][3] == 0.0
    assert np.isnan(view.now["thermal_ratio"][:3]).all()


def test_a_device_that_rests_says_nothing_of_its_clocks() -> None:
    facts = NodeFacts()
    idle = row(
        Kind.DEVICE, 1, rank=0, throttle=1, lost=0, busy_ratio=0.0, clock_hertz=2e8,
        clock_limit_hertz=2e9,
    )  # fmt: skip
    add(facts, {Kind.DEVICE: idle}, "a")
    assert math.isnan(view_of(facts).now["clock_loss_ratio"][0])


def test_the_neighbour_is_the_newest_one_known() -> None:
    facts = NodeFacts()
    named = row(Kind.HOST, 1, neighbour=b"backup", neighbour_pid=7, neighbour_cpu_ratio=0.9)
    add(facts, {Kind.HOST: named}, "a")
    first, second = view_of(facts).neighbours
    assert first is not None and (first.name, first.pid) == ("backup", 7) and second is None
    add(facts, {Kind.HOST: row(Kind.HOST, 2)}, "a")
    assert view_of(facts).neighbours == (None, None)


def test_readings_are_bounded_and_reach_back_for_minutes() -> None:
    readings = Readings(("x",), limit=2)
    for second in range(300):
        readings.add("a", float(second), np.array([float(second)]))
    for name in ("b", "c"):
        readings.add(name, 1.0, np.array([1.0]))
    assert "b" in readings and "c" not in readings
    assert readings._values.shape[1] == NEWEST + EARLIER
    now, earlier = readings.over(["a", "c"], 4.0)
    assert now[0, 0] == pytest.approx(297.0, abs=1.0) and np.isnan(now[1]).all()
    assert earlier[0, 0] < 200, "the earlier readings weigh, not only the newest"
    facts = NodeFacts()
    add(facts, {Kind.RANK_STATE: row(Kind.RANK_STATE, 1, rank=MAX_RANKS)}, "a")
    assert MAX_RANKS not in facts.ranks


def test_what_nodes_send_is_the_same_in_whatever_parts_it_is_taken() -> None:
    random = np.random.default_rng(4)
    batches = [some_batch(random) for _ in range(120)]
    apart, together = NodeFacts(), NodeFacts()
    for batch in batches:
        apart.fold(Batches([batch]), ATTEMPT)
    for first in range(0, len(batches), 17):
        together.fold(Batches(batches[first : first + 17]), ATTEMPT)
    assert list(state_of(apart)) == list(state_of(together))


def some_batch(random: np.random.Generator) -> Batch:
    """A node's host, interfaces and devices, some twice in it, some unknown."""
    time_s = float(random.integers(1000))
    tables = {Kind.HOST: row(Kind.HOST, time_s, cpu_steal_ratio=random.random() * 1.2)}
    nics = [
        row(
            Kind.NIC,
            time_s,
            interface=name,
            **{field: float(random.integers(5)) for field in COUNTERS},
        )
        for name in (b"", b"eth0", b"ib0", b"eth0")
        if random.random() < 0.6
    ]
    if nics:
        tables[Kind.NIC] = np.concatenate(nics)
    devices = [
        row(Kind.DEVICE, time_s, clock_hertz=random.random(), clock_limit_hertz=1.0,
            **{name: float(random.integers(*span)) for name, span in DEVICE_SPANS.items()})
        for _ in range(int(random.integers(4)))
    ]  # fmt: skip
    if devices:
        tables[Kind.DEVICE] = np.concatenate(devices)
    return Batch(f"n{random.integers(5)}", 0, Received(time_s, time_s), tables)


COUNTERS = ("errors", "drops", "carrier_changes", "tcp_sent_segments", "tcp_retransmits")
DEVICE_SPANS = {
    "rank": (-1, 6),
    "device": (0, 2),
    "throttle": (-1, 99),
    "lost": (-1, 2),
    "busy_ratio": (0, 2),
    "ecc_uncorrected": (0, 5),
    "xid_count": (0, 5),
}

"""What a simulated fleet sends is what a real one could: complete, consistent, on own clocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.cli.simulate.faults import FAULTS
from stepwatch.cli.simulate.fleet import Fleet
from stepwatch.cli.simulate.plan import Plan
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import PHASE_NAMES, Kind, LifecycleEvent, ProcessState
from stepwatch.signals.wire import Segment

from .conftest import EPOCH_NS, plan_with, rows_of, sent

ENDLESS = ("hang", "kill")
"""Faults after which no step ends."""
SLOWING = sorted(set(FAULTS) - set(ENDLESS))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    nodes, ranks_per_node = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    steps = draw(st.integers(2, 14))
    fault = draw(st.sampled_from(["none", *SLOWING]))
    rank, step = draw(st.integers(0, nodes * ranks_per_node - 1)), draw(st.integers(0, steps - 1))
    words = fault if fault == "none" else f"{fault}:rank={rank},step={step}"
    return plan_with(
        words,
        ranks=nodes * ranks_per_node,
        nodes=nodes,
        steps=steps,
        step_seconds=draw(st.sampled_from([0.05, 0.7, 1.0, 9.0])),
        collectives=draw(st.integers(1, 6)),
        seed=draw(st.integers(0, 99)),
    )


@settings(max_examples=15)
@given(plans(), st.integers(1, 4))
def test_every_rank_sends_every_step_once_and_its_parts_add_up(plan: Plan, at_once: int) -> None:
    count = plan.steps or 0
    segments = [*sent(plan, at_once)]
    steps, collectives = rows_of(segments, Kind.STEP), rows_of(segments, Kind.COLLECTIVE)
    pairs = steps["rank"].astype(np.int64) * count + steps["step"]
    assert np.array_equal(np.sort(pairs), np.arange(plan.ranks * count))
    parts = [steps[f"{name}_ns"].astype(np.int64) for name in (*PHASE_NAMES, "collective")]
    assert np.array_equal(np.sum(parts, axis=0), steps["duration_ns"].astype(np.int64))
    assert min(part.min() for part in parts) >= 0
    assert len(collectives) == plan.collectives * len(steps)
    waited = np.zeros(plan.ranks * count, dtype=np.int64)
    cells = collectives["rank"].astype(np.int64) * count + collectives["step"]
    np.add.at(waited, cells, collectives["exposed_ns"].astype(np.int64))
    assert np.array_equal(waited[pairs], steps["collective_ns"].astype(np.int64))


@settings(max_examples=15)
@given(plans(), st.integers(1, 4))
def test_the_rank_that_arrives_last_waits_least(plan: Plan, at_once: int) -> None:
    count = plan.steps or 0
    rows = rows_of([*sent(plan, at_once)], Kind.COLLECTIVE)
    first = rows[rows["op"] == rows["op"][0]]
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, first["step"], first["exposed_ns"].astype(np.int64))
    assert (least > 0).all()
    waits = first["exposed_ns"].astype(np.int64) - least[first["step"]]
    assert (waits >= 0).all()
    assert len(np.unique(first["step"][waits == 0])) == count


@settings(max_examples=15)
@given(plans(), st.integers(1, 4))
def test_clocks_and_counters_of_a_node_never_go_back(plan: Plan, at_once: int) -> None:
    by_node: dict[str, list[Segment]] = {}
    for segment in sent(plan, at_once):
        by_node.setdefault(segment.key.node, []).append(segment)
    assert len(by_node) == plan.nodes
    for segments in by_node.values():
        moments = [segment.clock for segment in segments]
        assert moments == sorted(set(moments))
        assert [segment.key.sequence for segment in segments] == [*range(1, len(segments) + 1)]
        for segment in segments:
            for rows in segment.tables.values():
                assert (rows["time_ns"] <= segment.clock.monotonic_ns).all()
        states = rows_of(segments, Kind.RANK_STATE)
        for rank in np.unique(states["rank"]).tolist():
            own_rows = states[states["rank"] == rank]
            for name in ("time_ns", "step", "since_ns", "cpu_seconds", "seq"):
                assert (np.diff(own_rows[name].astype(np.float64)) >= 0).all(), name


@settings(max_examples=15)
@given(plans(), st.integers(1, 4))
def test_a_step_lasts_from_one_end_to_the_next_on_the_clock_of_its_node(
    plan: Plan, at_once: int
) -> None:
    steps = rows_of([*sent(plan, at_once)], Kind.STEP)
    for rank in range(plan.ranks):
        own_rows = np.sort(steps[steps["rank"] == rank], order="step")
        passed = np.diff(own_rows["time_ns"].astype(np.int64))
        lasted = own_rows["duration_ns"].astype(np.int64)[1:]
        assert (np.abs(passed - lasted) <= 1e-4 * lasted + 2).all()  # clocks drift by ppm


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    first, repeated, different = ([*sent(plan_with(seed=seed))] for seed in (3, 3, 4))
    step_tables = (
        rows_of(first, Kind.STEP),
        rows_of(repeated, Kind.STEP),
        rows_of(different, Kind.STEP),
    )
    assert np.array_equal(step_tables[0], step_tables[1])
    assert not np.array_equal(step_tables[0]["duration_ns"], step_tables[2]["duration_ns"])


def test_a_healthy_run_takes_about_as_long_as_planned() -> None:
    steps = rows_of([*sent(plan_with(ranks=512, nodes=64, steps=80))], Kind.STEP)
    assert 0.95 <= float(np.median(steps["duration_ns"])) / NANOSECONDS <= 1.05


def test_nodes_differ_in_their_clocks_by_milliseconds_and_ppm() -> None:
    segments = [*sent(plan_with(ranks=64, nodes=64, steps=60))]
    first, last = segments[:64], segments[-64:]
    offsets = np.array([segment.clock.wall_ns - segments[0].clock.wall_ns for segment in first])
    assert 1e6 < np.ptp(offsets) < 20e6
    begun, ended = ([segment.clock.monotonic_ns for segment in part] for part in (first, last))
    rates = np.subtract(ended, begun)
    assert 5e-6 < np.ptp(rates) / np.mean(rates) < 100e-6


def test_who_hangs_falls_asleep_outside_and_the_others_wait_inside_for_ever() -> None:
    plan = plan_with("hang:rank=5,step=8")
    segments = [*sent(plan)]
    assert rows_of(segments, Kind.STEP)["step"].max() == 7
    last = rows_of(segments[-plan.nodes :], Kind.RANK_STATE)
    asleep = last["rank"] == 5
    assert last["in_collective"].tolist() == (~asleep).astype(int).tolist()
    assert (last["step"] == 8).all()
    states = rows_of(segments, Kind.RANK_STATE)
    used = np.diff(states["cpu_seconds"][states["rank"] == 5][-5:])
    assert (used == 0).all()
    age = last["time_ns"].astype(np.int64) - last["since_ns"].astype(np.int64)
    assert (age > 25 * NANOSECONDS).all()
    ends = rows_of(segments[-plan.nodes :], Kind.LIFECYCLE)["event"]
    assert set(ends.tolist()) == {LifecycleEvent.INTERRUPT}


def test_who_is_killed_is_gone_first_and_the_launcher_ends_the_others() -> None:
    plan = plan_with("kill:rank=5,step=8")
    segments = [*sent(plan)]
    assert rows_of(segments, Kind.STEP)["step"].max() == 7
    last = rows_of(segments[-plan.nodes :], Kind.RANK_STATE)
    assert (last["process_state"] == ProcessState.GONE).all()
    assert last["exit_code"].tolist() == [137 if rank == 5 else 143 for rank in last["rank"]]
    states = rows_of(segments, Kind.RANK_STATE)
    exit_rows = states[states["process_state"] == ProcessState.GONE]
    assert exit_rows["rank"][0] == 5


@pytest.mark.parametrize(("fault", "slowed"), [("slow-compute", {5}), ("slow-node", {4, 5, 6, 7})])
def test_a_slow_rank_works_longer_and_the_others_wait_for_it(fault: str, slowed: set[int]) -> None:
    steps = rows_of([*sent(plan_with(f"{fault}:rank=5,step=6", steps=12))], Kind.STEP)
    slow = np.isin(steps["rank"], [*slowed])
    later_rows = steps["step"] >= 6
    usual = np.median(steps["backward_ns"][~slow])
    assert np.median(steps["backward_ns"][slow & later_rows]) > 1.8 * usual
    assert np.median(steps["backward_ns"][slow & ~later_rows & (steps["step"] > 0)]) < 1.2 * usual
    waited = np.median(steps["collective_ns"][~slow & later_rows])
    assert waited > 3 * np.median(steps["collective_ns"][slow & later_rows])


def test_a_slow_link_lengthens_the_transfers_of_all_and_its_node_sends_again() -> None:
    segments = [*sent(plan_with("slow-link:rank=5,step=10", steps=30))]
    rows = rows_of(segments, Kind.COLLECTIVE)
    world = rows[rows["op"] == rows["op"][0]]
    wait_before = world["exposed_ns"][world["step"] < 10].min()
    wait_after = world["exposed_ns"][world["step"] >= 10].min()
    assert wait_after > 3 * wait_before
    retransmits = {}
    for segment in segments:
        retransmits[segment.key.node] = float(segment.tables[Kind.NIC]["tcp_retransmits"][0])
    assert max(retransmits, key=lambda node: retransmits[node]) == "sim-00001"
    assert retransmits["sim-00001"] > 10 * retransmits["sim-00002"]


def test_nodes_flush_less_often_while_they_are_asked_and_lose_nothing() -> None:
    plan = plan_with(steps=60)
    fleet = Fleet(plan, EPOCH_NS, spool=1, nodes_at_once=2)
    fleet.asked_seconds = 7.0
    segments = [wire.decode(data) for flush in fleet.flushes() for data in flush.segments]
    steps = rows_of(segments, Kind.STEP)
    assert len({(row["rank"], row["step"]) for row in steps}) == len(steps) == 16 * 60
    node_segments = [segment for segment in segments if segment.key.node == "sim-00003"]
    flush_seconds = [
        float(segment.tables[Kind.AGENT]["flush_seconds"][0]) for segment in node_segments
    ]
    assert flush_seconds[:4] == [4.0, 7.0, 7.0, 7.0]
    gaps = np.diff([segment.clock.monotonic_ns for segment in node_segments])[:-1] / NANOSECONDS
    assert np.allclose(gaps, flush_seconds[1:-1], rtol=1e-3)


@pytest.mark.parametrize(
    "words", ["slow-compute:rank=1,step=6", "hang:rank=1,step=6", "kill:rank=1,step=6"]
)
def test_a_fault_brings_a_flush_forward_while_a_longer_interval_is_asked(words: str) -> None:
    plan = plan_with(words, ranks=4, nodes=1, steps=40, step_seconds=1.0)
    fleet = Fleet(plan, EPOCH_NS, 1)
    fleet.asked_seconds = 10.0
    moments, early = [0.0], []
    for flush in fleet.flushes():
        tables = wire.decode(next(iter(wire.split(flush.segments[0])))).tables
        early.append(int(tables[Kind.AGENT]["early"][0]))
        moments.append(flush.true_ns / NANOSECONDS)
        if len(moments) > 8:
            break
    (began,) = fleet.began_ns.values()
    first = moments[1 + early.index(1)]
    assert 0.0 < first - began / NANOSECONDS <= 3.5
    assert all(sum(pair) <= 1 for pair in pairwise(early))


def test_a_healthy_fleet_flushes_at_the_interval_that_is_asked() -> None:
    fleet = Fleet(plan_with("none", ranks=4, nodes=1, steps=80, step_seconds=1.0), EPOCH_NS, 1)
    fleet.asked_seconds = 10.0
    moments = [flush.true_ns / NANOSECONDS for flush in fleet.flushes() if not flush.is_last]
    assert moments[:8] == [4.0, 12.0, *(22.0 + 10.0 * n for n in range(6))]

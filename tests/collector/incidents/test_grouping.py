"""Which finding explains which: every finding ends up once, under the end of its chain."""

from __future__ import annotations

import math
import random
from graphlib import TopologicalSorter

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect.finding import NO_RANK, Finding, build_finding
from stepwatch.collector.incidents.grouping import (
    RULES,
    SLACK_STEPS,
    Group,
    grouped,
    identity,
)
from stepwatch.signals.names import Cause, FindingKind

K, C = FindingKind, Cause
NODES = {0: "a", 1: "a", 2: "b", 3: "b"}


def finding(
    kind: FindingKind,
    rank: int = NO_RANK,
    cause: Cause = Cause.UNKNOWN,
    step: int = 100,
    *,
    phase: str = "forward",
    lost: float = 0.3,
    subject: str = "",
) -> Finding:
    summary = f"{kind.value} {rank}"
    return build_finding(
        kind=kind,
        rank=rank,
        phase=phase,
        cause=cause,
        summary=summary,
        began_step=step,
        began_ago_seconds=1.0,
        ratio=2.0,
        lost_ratio=lost,
        subject=subject,
    )


def reported(groups: list[Group]) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """(kind, rank) of each cause and of its symptoms."""
    return {
        (group.cause.kind.value, group.cause.rank): sorted(
            (item.kind.value, item.rank) for item in group.symptoms
        )
        for group in groups
    }


FINDINGS = st.lists(
    st.builds(
        finding,
        st.sampled_from(FindingKind),
        st.integers(-1, 3),
        st.sampled_from(
            [C.UNKNOWN, C.CPU_STEAL, C.SLOW_TRANSFER, C.NIC_ERRORS, C.SLOW_DATA, C.HOST_MEMORY]
        ),
        st.integers(-1, 60),
        phase=st.sampled_from(["forward", "data"]),
        lost=st.sampled_from([0.1, 0.5, math.nan]),
    ),
    max_size=14,
    unique_by=identity,
)


@settings(max_examples=300)
@given(FINDINGS, FINDINGS, st.randoms(use_true_random=False))
def test_every_finding_ends_up_exactly_once_in_any_order(
    findings: list[Finding], remembered: list[Finding], shuffle: random.Random
) -> None:
    received = {identity(item) for item in findings}
    remembered = [item for item in remembered if identity(item) not in received]
    groups = grouped(findings, remembered, NODES)
    placed = [item for group in groups for item in (group.cause, *group.symptoms)]
    assert len({identity(item) for item in placed}) == len(placed)
    assert {identity(item) for item in findings} <= {identity(item) for item in placed}
    assert {identity(item) for item in placed} <= {identity(i) for i in (*findings, *remembered)}
    for group in groups:
        assert group.is_current == (identity(group.cause) in received)
        if not group.is_current:
            assert any(identity(item) in received for item in group.symptoms)
    shuffle.shuffle(findings)
    shuffle.shuffle(remembered)
    assert repr(grouped(findings, remembered, NODES)) == repr(groups)


def test_rules_between_kinds_form_no_cycle() -> None:
    order: TopologicalSorter[FindingKind] = TopologicalSorter()
    for rule in RULES:
        for symptom in rule.symptoms - {rule.cause}:
            order.add(symptom, rule.cause)
    assert len(list(order.static_order())) > 5


def test_a_slow_rank_explains_what_the_whole_job_suffers_from() -> None:
    findings = [
        finding(K.THROUGHPUT_REGRESSION),
        finding(K.SLOW_COLLECTIVE, 1, subject="all_gather/7"),
        finding(K.PIPELINE_BUBBLE, subject="stage-0"),
        finding(K.STRAGGLER, 2, C.SLOW_COMPUTE),
    ]
    assert reported(grouped(findings)) == {
        ("straggler", 2): [
            ("pipeline-bubble", -1),
            ("slow-collective", 1),
            ("throughput-regression", -1),
        ]
    }


def test_the_end_of_the_chain_is_blamed() -> None:
    findings = [
        finding(K.THROUGHPUT_REGRESSION),
        finding(K.STRAGGLER, 2),
        finding(K.DATA_SKEW, 2, C.UNEVEN_SHARDS),
    ]
    assert reported(grouped(findings)) == {
        ("data-skew", 2): [("straggler", 2), ("throughput-regression", -1)]
    }


def test_two_independent_faults_are_two_causes() -> None:
    findings = [
        finding(K.STRAGGLER, 1, C.SLOW_DATA, phase="data", lost=0.2),
        finding(K.STRAGGLER, 3, C.SLOW_COMPUTE, lost=0.4),
        finding(K.DATA_STALL, 1, phase="data"),
        finding(K.THROUGHPUT_REGRESSION),
    ]
    assert reported(grouped(findings, nodes=NODES)) == {
        ("straggler", 1): [("data-stall", 1)],
        ("straggler", 3): [("throughput-regression", -1)],
    }


def test_one_stolen_node_is_one_cause_and_the_one_already_named_stays_it() -> None:
    two = [finding(K.STRAGGLER, 2, C.CPU_STEAL), finding(K.STRAGGLER, 3, C.CPU_STEAL, lost=0.6)]
    assert reported(grouped(two, nodes=NODES)) == {("straggler", 3): [("straggler", 2)]}
    named = {identity(two[0]): 5.0}
    assert reported(grouped(two, nodes=NODES, open_since=named)) == {
        ("straggler", 2): [("straggler", 3)]
    }
    unrelated = finding(K.STRAGGLER, 0, C.CPU_STEAL)
    assert len(grouped([*two, unrelated], nodes=NODES)) == 2, "another node, another cause"
    slow = [item._replace(cause=C.SLOW_COMPUTE) for item in two]
    assert len(grouped(slow, nodes=NODES)) == 2, "no fact of the node says that they are one"


def test_what_began_much_earlier_is_explained_by_nothing_that_came_later() -> None:
    earlier = finding(K.PIPELINE_BUBBLE, step=10)
    later = finding(K.STRAGGLER, 2, step=10 + SLACK_STEPS + 1)
    assert len(grouped([earlier, later])) == 2
    assert len(grouped([earlier, later._replace(began_step=10 + SLACK_STEPS)])) == 1
    assert len(grouped([earlier._replace(began_step=-1), later])) == 1, "unknown beginnings may fit"


def test_a_slow_link_is_its_own_trouble() -> None:
    slow = finding(K.SLOW_COLLECTIVE, 0, C.SLOW_TRANSFER)
    assert len(grouped([slow, finding(K.STRAGGLER, 2)])) == 2
    assert len(grouped([slow, finding(K.STRAGGLER, 0)])) == 1, "the same rank starves for CPU"


def test_transfers_that_have_grown_far_more_than_a_starving_rank_and_cost_more_stand_alone() -> (
    None
):
    straggler = finding(K.STRAGGLER, 0, C.SLOW_COMPUTE, lost=0.14)
    slow = finding(K.SLOW_COLLECTIVE, cause=C.SLOW_TRANSFER)
    for ratio, lost, separate in ((22.0, 0.3, True), (22.0, 0.1, False), (3.0, 0.3, False)):
        groups = grouped([straggler, slow._replace(ratio=ratio, lost_ratio=lost)])
        assert len(groups) == (2 if separate else 1), (ratio, lost)
    assert len(grouped([straggler, slow._replace(ratio=math.nan)])) == 1, "unknown is not more"


def test_transfers_that_cost_about_as_much_as_a_starving_rank_stay_what_they_are() -> None:
    straggler = finding(K.STRAGGLER, 0, C.SLOW_COMPUTE, lost=0.2)
    for lost in (0.19, 0.21, 0.25):
        slow = finding(K.SLOW_COLLECTIVE, cause=C.SLOW_TRANSFER)._replace(
            ratio=22.0, lost_ratio=lost
        )
        assert len(grouped([straggler, slow])) == 1
        groups = grouped([straggler, slow], open_since={identity(slow): 1.0})
        assert len(groups) == (1 if lost < 0.2 else 2)
    slow = finding(K.SLOW_COLLECTIVE, cause=C.SLOW_TRANSFER, lost=0.5)
    for ratio, open_ones in ((3.9, 2), (math.nan, 2), (2.5, 1)):
        findings = [straggler, slow._replace(ratio=ratio)]
        assert len(grouped(findings)) == 1
        assert len(grouped(findings, open_since={identity(slow): 1.0})) == open_ones, ratio


def test_failures_numbers_and_checkpoints() -> None:
    assert reported(
        grouped([finding(K.HANG, 2), finding(K.DESYNC), finding(K.RANK_FAILED, 1)])
    ) == {("rank-failed", 1): [("desync", -1), ("hang", 2)]}
    spread = [finding(K.NON_FINITE, rank, step=20 + (rank != 2)) for rank in range(4)]
    assert reported(grouped([*spread, finding(K.LOSS_ANOMALY, step=21)])) == {
        ("non-finite", 2): [
            ("loss-anomaly", -1), ("non-finite", 0), ("non-finite", 1), ("non-finite", 3)
        ]
    }  # fmt: skip
    corrupt = finding(K.SILENT_CORRUPTION, 1, step=50)
    assert len(grouped([corrupt, finding(K.LOSS_ANOMALY, step=60)])) == 1
    assert len(grouped([corrupt, finding(K.LOSS_ANOMALY, step=49)])) == 2
    saving = finding(K.CHECKPOINT_STALL, phase="checkpoint")
    assert len(grouped([saving, finding(K.THROUGHPUT_REGRESSION), finding(K.PAUSE)])) == 1
    assert reported(grouped([saving, finding(K.HANG, 0), finding(K.PAUSE, 0)])) == {
        ("hang", 0): [("checkpoint-stall", -1), ("pause", 0)]
    }
    grown = finding(K.MEMORY_GROWTH, 2, C.HOST_MEMORY)
    assert reported(
        grouped([grown, finding(K.RANK_FAILED, 2), finding(K.STRAGGLER, 3)], nodes=NODES)
    ) == {("memory-growth", 2): [("rank-failed", 2)], ("straggler", 3): []}


def test_memory_that_grows_explains_slowness_only_where_memory_is_short_and_later() -> None:
    grown = finding(K.MEMORY_GROWTH, 2, C.HOST_MEMORY, step=50)
    loader = finding(K.STRAGGLER, 3, C.SLOW_DATA, phase="data")
    assert len(grouped([grown, loader], nodes=NODES)) == 2, "a loader that is slow by itself"
    swaps = finding(K.STRAGGLER, 3, C.PAGE_FAULTS, step=60)
    short = finding(K.STRAGGLER, 2, C.MEMORY_PRESSURE, step=60)
    assert len(grouped([grown, swaps, short], nodes=NODES)) == 1
    assert len(grouped([grown, swaps._replace(began_step=40)], nodes=NODES)) == 2, "before it grew"
    assert len(grouped([grown, swaps._replace(rank=0)], nodes=NODES)) == 2, "on another node"


def test_a_rank_that_takes_memory_in_each_step_takes_time_for_it() -> None:
    grown = finding(K.MEMORY_GROWTH, 2, C.HOST_MEMORY, step=50)
    slow = finding(K.STRAGGLER, 2, C.SLOW_COMPUTE, phase="other", step=50)
    assert reported(grouped([grown, slow])) == {("memory-growth", 2): [("straggler", 2)]}
    assert len(grouped([grown, slow._replace(rank=1)])) == 2
    assert len(grouped([grown, slow._replace(phase="forward")])) == 2


def test_an_open_incident_goes_on_explaining_while_its_detector_is_quiet() -> None:
    quiet, regression = finding(K.STRAGGLER, 2), finding(K.THROUGHPUT_REGRESSION)
    (group,) = grouped([regression], [quiet])
    assert (group.is_current, group.cause.rank, len(group.symptoms)) == (False, 2, 1)
    assert grouped([], [quiet]) == []
    (group,) = grouped([finding(K.DATA_SKEW, 2)], [quiet])
    assert group.is_current and group.symptoms == (quiet,)


def test_a_thousand_findings_are_joined_quickly_enough_to_be_joined_each_second() -> None:
    findings = [finding(K.STRAGGLER, rank, C.CPU_STEAL) for rank in range(2000)]
    findings += [finding(K.SLOW_COLLECTIVE, subject=str(number)) for number in range(2000)]
    nodes = {rank: f"node-{rank // 8}" for rank in range(2000)}
    groups = grouped(findings, nodes=nodes)
    assert len(groups) == 250
    assert sum(1 + len(group.symptoms) for group in groups) == 4000

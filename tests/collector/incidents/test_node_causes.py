"""What probes found wrong with a node is why: of the right rank, the certain before the likely."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from stepwatch.collector.detect.finding import Finding, build_finding
from stepwatch.collector.incidents.node_causes import of_this_run, with_certain, with_likely
from stepwatch.collector.incidents.rank_places import RankPlaces
from stepwatch.collector.state.trackers.nodes.near_cards import NearCard
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import Nearness, NodeFact

NODES = RankPlaces({0: "a", 1: "a", 2: "b", 3: "b"})


def finding(
    kind: FindingKind = FindingKind.RANK_FAILED,
    cause: Cause = Cause.PROCESS_GONE,
    rank: int = 2,
    node: str = "",
) -> Finding:
    return build_finding(
        kind=kind, cause=cause, summary="rank 2 failed", rank=rank, began_step=9, node=node
    )


def fault(
    fact: NodeFact, node: str = "b", rank: int = -1, code: int = -1, began: float = 50.0
) -> NodeFault:
    return NodeFault(node, fact, "thing", code, rank, 1, True, "a line", began, 60.0)


@dataclass
class Case:
    """A finding and faults: the cause that is certain, and the one that is likely."""

    faults: list[NodeFault]
    certain: Cause
    likely: Cause
    finding: Finding = field(default_factory=finding)


SLOW = finding(FindingKind.STRAGGLER, Cause.SLOW_COMPUTE)
ALL_SLOW = finding(FindingKind.SLOW_COLLECTIVE, Cause.SLOW_TRANSFER, rank=-1)
HANG, BUSY = finding(FindingKind.HANG, Cause.BUSY), Cause.BUSY
GONE, OOM = Cause.PROCESS_GONE, Cause.OUT_OF_MEMORY
LIMIT = Cause.CONTAINER_LIMIT
CASES = {
    "nothing": Case([], GONE, GONE),
    "out of memory": Case([fault(NodeFact.OUT_OF_MEMORY, rank=2)], OOM, OOM),
    "another rank's": Case([fault(NodeFact.OUT_OF_MEMORY, rank=3)], GONE, GONE),
    "a helper's of its node": Case([fault(NodeFact.OUT_OF_MEMORY)], GONE, OOM),
    "another node's": Case([fault(NodeFact.OUT_OF_MEMORY, "a")], GONE, GONE),
    "a fatal one of its node": Case(
        [fault(NodeFact.READ_ONLY)], Cause.STORAGE_FAULT, Cause.STORAGE_FAULT
    ),
    "its rank before its node": Case(
        [fault(NodeFact.READ_ONLY), fault(NodeFact.XID, rank=2, code=31)], Cause.XID, Cause.XID
    ),
    "the worst, then the newest": Case(
        [
            fault(NodeFact.PORT_FLAPS, began=10.0),
            fault(NodeFact.HUNG_TASK, began=20.0),
            fault(NodeFact.OUT_OF_MEMORY, began=30.0),
        ],
        GONE,
        Cause.KERNEL_FAULT,
    ),
    "what does not explain it": Case([fault(NodeFact.PCIE_NARROW, rank=2)], GONE, GONE),
    "what is explained": Case(
        [fault(NodeFact.XID, rank=2, code=79)],
        Cause.CPU_STEAL,
        Cause.CPU_STEAL,
        finding(FindingKind.STRAGGLER, Cause.CPU_STEAL),
    ),
    "a slow rank by its lanes": Case(
        [fault(NodeFact.PCIE_NARROW, rank=2)], Cause.DEVICE_FAULT, Cause.DEVICE_FAULT, SLOW
    ),
    "a probe that hangs": Case(
        [fault(NodeFact.PROBE_HANGS)], Cause.SLOW_COMPUTE, Cause.DRIVER_HANGS, SLOW
    ),
    "all slow by a port": Case(
        [fault(NodeFact.PORT_SLOW)], Cause.SLOW_TRANSFER, Cause.NETWORK_FAULT, ALL_SLOW
    ),
    "its process is blocked": Case(
        [fault(NodeFact.RANK_BLOCKED, rank=2)],
        Cause.UNINTERRUPTIBLE_IO,
        Cause.UNINTERRUPTIBLE_IO,
        HANG,
    ),
    **{
        f"a process of another job: {fact.name}": Case([fault(fact)], BUSY, BUSY, HANG)
        for fact in (NodeFact.RANK_ZOMBIE, NodeFact.RANK_BLOCKED)
    },
    "a process of another job, and no rank": Case(
        [fault(NodeFact.RANK_ZOMBIE)],
        BUSY,
        BUSY,
        finding(FindingKind.HANG, Cause.BUSY, rank=-1, node="b"),
    ),
    "a process of another job, far from its device": Case(
        [fault(NodeFact.NUMA_MISPLACED)], Cause.SLOW_COMPUTE, Cause.SLOW_COMPUTE, SLOW
    ),
    "a slow rank by its quota of CPU time": Case(
        [fault(NodeFact.CONTAINER_THROTTLED, rank=2)], LIMIT, LIMIT, SLOW
    ),
    "a slow rank by its limit of memory": Case(
        [fault(NodeFact.CONTAINER_MEMORY, rank=2)], LIMIT, LIMIT, SLOW
    ),
    "a slow rank by its node's file server": Case(
        [fault(NodeFact.FILE_SERVER_SLOW)], Cause.SLOW_COMPUTE, Cause.STORAGE_FAULT, SLOW
    ),
    "evidence names no node": Case(
        [fault(NodeFact.CONTAINER_THROTTLED)], Cause.SLOW_TRANSFER, Cause.SLOW_TRANSFER, ALL_SLOW
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_and_what_explains(name: str) -> None:
    case = CASES[name]
    certain = with_certain(case.finding, case.faults, NODES)
    assert certain.cause is case.certain
    likely = with_likely(certain, case.faults, NODES)
    assert likely.cause is case.likely
    assert (likely is case.finding) == (case.likely is case.finding.cause)
    assert with_certain(likely, case.faults, NODES) is likely, "a cause that is known stays"


def test_the_words_say_what_and_where() -> None:
    explained = with_certain(finding(), [fault(NodeFact.XID, rank=2, code=79)], NODES)
    assert explained.summary == (
        "rank 2 failed, because its device reported an XID error: XID 79 "
        "(GPU no longer reachable over PCIe) (thing)"
    )
    row = explained.evidence[-1]
    assert row.name == "XID 79 (GPU no longer reachable over PCIe) of thing on b"
    assert (row.text, row.against) == ("a line", "drain the node and reboot it")
    assert math.isnan(row.value)


def test_a_finding_without_a_rank_names_the_node() -> None:
    finding = with_likely(ALL_SLOW, [fault(NodeFact.PORT_SLOW)], NODES)
    assert finding.node == "b"
    assert finding.summary.endswith(
        "because a network port of node b runs below the rate of its neighbours (thing)"
    )


@pytest.mark.parametrize(
    ("fact", "rank", "newest_ns", "counts"),
    [
        (NodeFact.XID, -1, 99, False),
        (NodeFact.XID, -1, 100, True),
        (NodeFact.XID, 2, 99, True),
        (NodeFact.XID, -1, 0, True),
        (NodeFact.DEVICE_LOST, -1, 99, True),
        (NodeFact.FILE_SERVER_SILENT, -1, 99, True),
    ],
    ids=[
        "it ended the run before",
        "it happened in this run",
        "it is of a process of this run",
        "nobody knows when it was",
        "the device is still lost",
        "the server is still silent",
    ],
)
def test_what_happened_before_the_run_began_explains_nothing_of_it(
    fact: NodeFact, rank: int, newest_ns: int, counts: bool
) -> None:
    node_fault = fault(fact, rank=rank, code=79)._replace(newest_ns=newest_ns)
    assert of_this_run([node_fault], {"b": 100, "a": 5}) == [node_fault] * counts
    assert of_this_run([node_fault], {}) == [node_fault], "nobody knows when the run began"


def of_port(subject: str = "mlx5_1/1", fact: NodeFact = NodeFact.PORT_DOWN) -> NodeFault:
    return fault(fact)._replace(subject=subject)


def near(*names: str, device: str = "0000:3c:00") -> tuple[NearCard, ...]:
    return (NearCard(device, Nearness.PIX, frozenset(names)),)


JOINED = RankPlaces(
    NODES.node_of,
    {2: near("mlx5_1", "ib1", "0000:5f:00.0"), 3: near("mlx5_0", "0000:5e:00.0")},
)


@pytest.mark.parametrize("subject", ["mlx5_1/1", "ib1", "0000:5f:00.0"])
def test_a_port_explains_the_rank_whose_device_it_is_nearest_to(subject: str) -> None:
    explained = with_certain(finding(), [of_port(subject)], JOINED)
    assert explained.cause is Cause.NETWORK_FAULT and explained.summary == (
        "rank 2 failed, because a network port of its node is down "
        f"({subject}, nearest to its device 0000:3c:00: PIX)"
    )
    neighbour = finding(rank=3)
    assert with_certain(neighbour, [of_port(subject)], JOINED) is neighbour
    assert with_likely(neighbour, [of_port(subject)], JOINED) is neighbour, "it has another card"


def test_where_it_is_not_known_which_rank_uses_a_port_it_may_be_any() -> None:
    for rank in (2, 3):
        explained = with_certain(finding(rank=rank), [of_port()], NODES)
        assert explained.cause is Cause.NETWORK_FAULT
        assert explained.summary.endswith(
            "(mlx5_1/1; which one of the 2 ranks on b uses it is not known)"
        )
    rank_places = RankPlaces({2: "b"})
    assert with_certain(finding(), [of_port()], rank_places).summary.endswith("(mlx5_1/1)")


def test_a_card_that_is_near_to_no_device_is_a_likely_cause_and_no_certain_one() -> None:
    plain = finding()
    assert with_certain(plain, [of_port("ens5")], JOINED) is plain
    assert with_likely(plain, [of_port("ens5")], JOINED).cause is Cause.NETWORK_FAULT
    half = RankPlaces(NODES.node_of, {3: near("mlx5_0")})
    assert with_certain(plain, [of_port("mlx5_0/1")], half).cause is Cause.NETWORK_FAULT, (
        "the cards of rank 2 are not known: it may share that of rank 3"
    )


def test_another_nodes_port_of_the_same_name_explains_nothing() -> None:
    plain = finding()
    assert with_likely(plain, [of_port()._replace(node="a")], JOINED) is plain


def test_where_a_rank_was_placed_does_not_go_before_what_is_measured() -> None:
    placed = [fault(NodeFact.NUMA_MISPLACED, rank=2)]
    assert with_certain(SLOW, placed, NODES) is SLOW
    finding = with_likely(SLOW, placed, NODES)
    assert finding.cause is Cause.NUMA_MISPLACED
    assert finding.summary.endswith("because it runs on another NUMA node than its device (thing)")

"""Node faults as findings: one each, what is common is one, what is evidence is none."""

from __future__ import annotations

from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.detect.node_fault import LIMITS, Fault, detect
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import Cause
from stepwatch.signals.records import NodeFact


def fault(
    fact: NodeFact,
    node: str = "b",
    rank: int = -1,
    code: int = -1,
    subject: str = "gpu",
    step: int = 5,
) -> Fault:
    node_fault = NodeFault(node, fact, subject, code, rank, 3, True, "a line", 50.0, 60.0)
    return Fault(node_fault, step, 12.0)


def test_a_fault_names_node_device_rank_and_what_to_do() -> None:
    (finding,) = detect([fault(NodeFact.XID, rank=2, code=79, subject="0000:3b:00")], 4)
    assert (finding.node, finding.rank, finding.cause) == ("b", 2, Cause.XID)
    assert finding.summary == (
        "node b: XID 79 (GPU no longer reachable over PCIe) (0000:3b:00 of rank 2, 3 times); "
        "drain the node and reboot it"
    )
    rows = {row.name: (row.text, row.against) for row in finding.evidence}
    source = "NVIDIA's XID catalog of 2025-10-29: RESTART_BM"
    assert rows["found by a probe"] == ("a line", source)
    assert rows["severity and action"] == ("fatal, reboot", "drain the node and reboot it")
    assert (finding.began_step, finding.began_ago_seconds) == (5, 12.0)


def test_faults_of_one_node_are_findings_of_their_own() -> None:
    faults = [
        fault(NodeFact.DISK_SLOW, subject="nvme0n1"),
        fault(NodeFact.DISK_FULL, subject="/ckpt"),
        fault(NodeFact.XID, code=48),
        fault(NodeFact.XID, code=79),
    ]
    findings = detect(faults, 4)
    assert [finding.subject for finding in findings] == [
        "b/disk-full//ckpt",
        "b/xid/gpu/48",
        "b/xid/gpu/79",
        "b/disk-slow/nvme0n1",
    ], "the fatal ones first"
    assert all(finding.rank == NO_RANK and finding.confidence == "certain" for finding in findings)


def test_what_is_evidence_only_is_no_finding() -> None:
    faults = [fault(NodeFact.OUT_OF_MEMORY, rank=2), fault(NodeFact.XID, code=45)]
    assert detect([*faults, fault(NodeFact.HARDWARE_ERRORS)], 4) == []


def test_many_nodes_with_the_same_fault_are_one_finding_and_a_warning() -> None:
    many = [fault(NodeFact.PORT_DOWN, node=f"n{number}") for number in range(6)]
    (finding,) = detect(many, 8)
    assert finding.summary == (
        "6 of 8 nodes have port down at once (n0, n1, n2, n3, n4, n5): look for their common part "
        "before draining any"
    )
    assert (finding.node, finding.subject, finding.confidence) == ("", "nodes/port-down", "likely")
    few = many[: LIMITS.together_nodes - 1]
    assert len(detect(few, 2)) == len(few), "two of two nodes may break"
    assert len(detect(many[:3], 8)) == 3, "three of eight may break"


def test_findings_are_bounded() -> None:
    faults = [fault(NodeFact.HUNG_TASK, subject=f"p{number}") for number in range(99)]
    assert len(detect(faults, 4)) == LIMITS.most


def test_a_fault_of_an_unknown_device_says_so() -> None:
    (finding,) = detect([fault(NodeFact.XID, code=9999)], 4)
    assert finding.summary == "node b: XID 9999 (gpu, 3 times); drain the node and look at it"

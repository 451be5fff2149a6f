"""The slow ranks' common node, if all its ranks are slow and no others are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stepwatch.collector.detect.finding import Finding, text_evidence
from stepwatch.collector.detect.straggler.evidence.costly import NEARLY_ALL


def with_node(
    findings: list[Finding], nodes: Mapping[int, str], slow_nodes: Collection[str] = ()
) -> list[Finding]:
    """Return the findings, with the node's name in each if their ranks share one node.

    `nodes` maps each rank to its node. At least two slow ranks and a second node are required.
    `slow_nodes` are already known to be slow as a whole.
    """
    if slow_nodes:
        return [
            _named(finding, nodes[finding.rank], "all its ranks together")
            if nodes.get(finding.rank) in slow_nodes
            else finding
            for finding in findings
        ]
    # A rank that was slow before another one is not slow together with it.
    ranks = sorted(finding.rank for finding in findings if finding.shows_now)
    slow = {nodes.get(rank, "") for rank in ranks}
    if len(ranks) < 2 or len(slow) != 1 or "" in slow or len(set(nodes.values())) < 2:
        return findings
    (node,) = slow
    rank_count = sum(name == node for name in nodes.values())
    if len(ranks) < NEARLY_ALL * rank_count:
        return findings
    many = f"all {rank_count}" if len(ranks) == rank_count else f"{len(ranks)} of {rank_count}"
    row = text_evidence("slow ranks", ", ".join(map(str, ranks)), f"{many} ranks of node {node}")
    return [
        _named(finding, node, f"{many} of its ranks")._replace(evidence=(*finding.evidence, row))
        if finding.rank in ranks
        else finding
        for finding in findings
    ]


def _named(finding: Finding, node: str, extent: str) -> Finding:
    return finding._replace(node=node, summary=f"node {node} is slow, {extent}; {finding.summary}")

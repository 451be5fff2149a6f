"""A node whose ranks are all slow is named, once; ranks on several nodes are ranks."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.straggler import LIMITS, detect
from stepwatch.collector.detect.straggler.inputs import with_node
from stepwatch.collector.incidents.grouping import grouped
from tests.collector.detect.windows import settle, unknown_facts, window

NODES = {rank: f"node-{rank // 4}" for rank in range(8)}


def findings_of(*ranks: int) -> list[Finding]:
    step_window = window(64, 8, noise=0.03)
    for phase in ("forward", "backward"):
        step_window.planes[phase][40:, list(ranks)] *= 2.0
    settle(step_window)
    return with_node(detect(step_window, unknown_facts(8), LIMITS), NODES)


@pytest.mark.parametrize("ranks", [(4, 5, 6, 7), (4, 5, 7)])
def test_a_node_whose_ranks_are_slow_is_one_incident_that_names_it(ranks: tuple[int, ...]) -> None:
    findings = findings_of(*ranks)
    assert {item.rank for item in findings} == set(ranks)
    (group,) = grouped(findings, nodes=NODES)
    assert group.cause.node == "node-1"
    assert group.cause.summary.startswith("node node-1 is slow, ")
    assert len(group.symptoms) == len(ranks) - 1
    (row,) = [
        evidence_row for evidence_row in group.cause.evidence if evidence_row.name == "slow ranks"
    ]
    assert row.text == ", ".join(map(str, ranks))


def test_one_or_two_of_its_ranks_are_not_the_node() -> None:
    for ranks in ((4,), (4, 5), (3, 4)):
        findings = findings_of(*ranks)
        assert {item.rank for item in findings} == set(ranks)
        assert [item.node for item in findings] == [""] * len(ranks)
        assert len(grouped(findings, nodes=NODES)) == len(ranks)


def test_the_only_node_is_not_named() -> None:
    findings = findings_of(4, 5, 6)
    bare = [item._replace(node="", summary="") for item in findings]
    assert with_node(bare, dict.fromkeys(range(8), "here")) == bare
    assert with_node(bare, {}) == bare


def test_ranks_of_which_the_node_is_unknown_say_nothing_of_it() -> None:
    assert np.all([item.node for item in findings_of(4, 5, 6, 7)])
    assert with_node([], NODES) == []

"""Every fault is found with place, code, meaning, action and authority, and is over in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.node_fault import detector
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.node_facts.catalogue import CATALOGUE
from tests.agent.probes.nvml.scripted import Driver

from .faults import SCENARIOS, Scenario
from .node import FaultyNode

LOOKS = 8
"""So many looks at most until a fault shows: counters are compared over a window."""


@pytest.fixture
def node(tmp_path: Path, driver: Driver) -> Iterator[FaultyNode]:
    faulty_node = FaultyNode(tmp_path, driver)
    for _ in range(3):
        assert faulty_node.look(11.0).faults == [], "a healthy node"
    yield faulty_node
    faulty_node.close()


def test_there_are_enough_of_them() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS) >= 40


def test_every_fact_of_the_catalogue_has_a_scenario() -> None:
    elsewhere = {"probe-hangs", "source-unread", "device-missing"}
    """Of the agent itself, and of the PCI bus: tests/agent/isolation and probes/nvml have them."""
    shown = {scenario.fact for scenario in SCENARIOS} | elsewhere
    assert {kind.name for kind in CATALOGUE.values()} == shown


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_fault_is_found_and_is_over(scenario: Scenario, node: FaultyNode) -> None:
    scenario.begins(node)
    fault, findings = find_fault(node, scenario)
    assert (fault.subject, fault.code, fault.rank) == (
        scenario.subject,
        scenario.code,
        scenario.rank,
    )
    assert detector.severity_of(fault).value == scenario.severity
    assert detector.action_of(fault).value == scenario.action
    if scenario.severity == "evidence":
        assert findings == [], "what is evidence only is not an incident of its own"
        assert scenario.authority in detector.source_of(fault)
    else:
        (finding,) = findings
        _assert_says(finding, scenario)
    if scenario.ends is not None:
        scenario.ends(node)
    quiet = CATALOGUE[fault.fact].quiet_seconds
    assert scenario.over_at_once or node.look(1.0).faults, "not over before its quiet time"
    for _ in range(3):
        observation = node.look(quiet / 2 + 6.0)
    assert observation == ([], []), "over"


def find_fault(node: FaultyNode, scenario: Scenario) -> tuple[NodeFault, list[Finding]]:
    for _ in range(LOOKS):
        observation = node.look(6.0)
        if observation.faults:
            (fault,) = observation.faults
            assert CATALOGUE[fault.fact].name == scenario.fact
            return fault, observation.findings
    raise AssertionError(f"{scenario.name} was not found")


def _assert_says(finding: Finding, scenario: Scenario) -> None:
    evidence = " ".join(
        f"{evidence.name} {evidence.text} {evidence.against}" for evidence in finding.evidence
    )
    assert scenario.words in finding.summary and scenario.subject in finding.summary
    assert f"{scenario.severity}, {scenario.action}" in evidence
    assert scenario.authority in evidence
    assert (finding.node, finding.rank) == ("node-0", scenario.rank)
    expected = ["node-0", scenario.fact, scenario.subject]
    assert finding.subject == "/".join(
        [*expected, str(scenario.code)] if scenario.code >= 0 else expected
    )

"""The fabric probe over a tree of `/sys`: ports that go down, flap, slow down or have errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.agent.probes.fabric import LIMITS, FabricProbe
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import NodeFact
from tests.agent.probes.hand_clock import HandClock

from .made import Cards


class Node(Cards):
    """A node with these cards, its probe, and a clock."""

    def __init__(self, sys: Path) -> None:
        super().__init__(sys)
        self.clock = HandClock()
        self.probe = FabricProbe(self.clock, sys)

    def facts_after(self, seconds: float = 5.0) -> list[tuple[NodeFact, str, str]]:
        self.clock.now += round(seconds * 1e9)
        assert len(self.probe.read()) == 0
        return [(fact.fact, fact.subject, fact.text) for fact in self.probe.facts()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    new_node = Node(tmp_path)
    assert new_node.facts_after() == [], "healthy"
    return new_node


def test_a_port_that_was_up_is_down_until_it_is_up_again(node: Node) -> None:
    node.set("mlx5_1", state="1: DOWN")
    node.link(operstate="down")
    assert node.facts_after() == [
        (NodeFact.PORT_DOWN, "mlx5_1/1", "its state is DOWN"),
        (NodeFact.PORT_DOWN, "ens5", "its state is down"),
    ]
    node.set("mlx5_1", state="4: ACTIVE")
    node.link(operstate="up")
    assert node.facts_after() == []


def test_a_port_that_nobody_connected_is_no_fault(tmp_path: Path) -> None:
    new_node = Node(tmp_path)
    new_node.set("mlx5_1", state="1: DOWN", rate="10 Gb/sec (4X SDR)")
    assert new_node.facts_after() == [] and new_node.facts_after() == []


def test_a_link_that_went_down_and_came_back_is_a_flap(node: Node) -> None:
    node.count("mlx5_0", link_downed=5)
    node.link(carrier_down_count=2)
    assert node.facts_after() == [
        (NodeFact.PORT_FLAPS, "mlx5_0/1", "it went down 2 times, 5 since its counters began"),
        (NodeFact.PORT_FLAPS, "ens5", "it went down 1 times, 2 since its counters began"),
    ]
    assert [fact.happened for fact in node.probe.facts()] == [2, 1]
    assert node.facts_after() == [], "the book of facts keeps it for its quiet time"
    node.count("mlx5_0", link_downed=0)
    assert node.facts_after() == [], "a counter that was reset is not a flap"


def test_a_port_below_the_rate_of_its_neighbours(node: Node) -> None:
    node.set("mlx5_1", rate="200 Gb/sec (4X HDR)")
    assert node.facts_after() == [
        (NodeFact.PORT_SLOW, "mlx5_1/1", "200 Gbit/s, others of its kind run at 400")
    ]
    (node.sys / "class/infiniband/mlx5_1/hca_type").write_text("MT4123\n")
    assert node.facts_after() == [], "another kind of card"


def test_errors_beyond_their_limit_in_a_minute(node: Node) -> None:
    limit = LIMITS["symbol_error"].a_minute
    node.count("mlx5_0", symbol_error=7 + limit)
    assert node.facts_after() == []
    node.count("mlx5_0", symbol_error=8 + limit)
    node.count("mlx5_0", hw=True, rnr_nak_retry_err=0)
    assert node.facts_after() == [
        (NodeFact.PORT_ERRORS, "mlx5_0/1", f"symbol_error: {limit + 1} in 10 s")
    ]
    for _ in range(10):
        node.facts_after()
    assert node.facts_after(61.0) == [], "a minute later"


def test_an_efa_card_whose_peer_does_not_answer(node: Node) -> None:
    node.count("mlx5_0", hw=True, unresponsive_remote_events=2)
    assert node.facts_after() == [
        (NodeFact.PORT_ERRORS, "mlx5_0/1", "unresponsive_remote_events: 2 in 5 s")
    ]


def test_what_is_no_number_is_unknown(node: Node) -> None:
    for text in ("", "-5", "0x10", "N/A (no PMA)", "9" * 40):
        node.set("mlx5_0", **{"counters/symbol_error": text, "counters/link_downed": text})
        node.set("mlx5_0", rate=text)
        assert node.facts_after() == []


def test_a_node_without_such_cards(tmp_path: Path) -> None:
    probe = FabricProbe(SystemClock(), tmp_path)
    assert not probe.supported()
    (tmp_path / "class/net").mkdir(parents=True)
    assert probe.supported() and len(probe.read()) == 0 and probe.facts() == []


def test_this_machine() -> None:
    probe = FabricProbe(SystemClock())
    assert probe.supported()
    probe.read()
    assert probe.facts() == []

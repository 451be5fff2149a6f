"""Faults with facts, as a collector meets them: one incident per cause, which says why."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.cli.simulate.rows import host_rows
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows
from tests.collector.made import HandClock
from tests.collector.runtime.test_evaluation import Site


class Cluster(Site):
    """Nodes that also say how they are; `anomalies` holds what is anomalous, by node."""

    def __init__(self, store: Store, clock: HandClock, nodes: int = 2) -> None:
        super().__init__(store, clock, world=8, nodes=nodes)
        self.anomalies: dict[str, dict[str, float]] = {}
        self.silent_probes = False

    def send(self, tables: dict[Kind, Rows], node: str = "node-0", attempt: int = 0) -> None:
        if not self.silent_probes and Kind.RANK_STATE in tables:
            host = host_rows([self.clock.monotonic_ns()], np.random.default_rng(0))
            for name, value in self.anomalies.get(node, {}).items():
                host[name] = value
            tables = {**tables, Kind.HOST: host}
        super().send(tables, node, attempt)

    def open(self) -> list[dict[str, Any]]:
        incidents = [item for item in self.view()["incidents"] if item["state"] == "open"]
        return sorted(incidents, key=lambda item: int(item["rank"]))


def test_a_rank_is_slow_because_its_cpu_is_stolen(store: Store, clock: HandClock) -> None:
    site = Cluster(store, clock)
    site.run(20)
    site.anomalies["node-1"] = {"cpu_steal_ratio": 0.4}
    site.run(10, excess={(5, "forward"): 0.9})
    (incident,) = site.open()
    assert (incident["rank"], incident["node"], incident["cause"]) == (5, "node-1", "cpu-steal")
    assert incident["summary"].startswith("rank 5 is slow in forward since step 20")
    assert incident["summary"].endswith("because its CPU is stolen")
    assert [r for r in incident["evidence"] if r["name"] == "CPU stolen by the hypervisor"]


def test_ranks_of_one_stolen_node_are_one_incident(store: Store, clock: HandClock) -> None:
    site = Cluster(store, clock)
    site.run(20)
    site.anomalies["node-1"] = {"cpu_steal_ratio": 0.4}
    site.run(10, excess={(5, "forward"): 0.9, (7, "forward"): 0.7})
    (incident,) = site.open()
    assert incident["rank"] == 5
    assert [(item["kind"], item["rank"]) for item in incident["symptoms"]] == [("straggler", 7)]


def test_two_faults_at_once_are_two_incidents(store: Store, clock: HandClock) -> None:
    site = Cluster(store, clock)
    site.run(20)
    site.run(10, excess={(1, "data"): 0.8, (5, "forward"): 0.9})
    slow = [item for item in site.open() if item["kind"] == "straggler"]
    assert [(item["rank"], item["phase"], item["cause"]) for item in slow] == [
        (1, "data", "slow-data"),
        (5, "forward", "slow-compute"),
    ]
    assert len(site.open()) == 2
    assert all(item["summary"].endswith("node facts are normal") for item in slow)


def test_nothing_is_called_normal_that_was_not_heard(store: Store, clock: HandClock) -> None:
    site = Cluster(store, clock)
    site.silent_probes = True
    site.run(20)
    site.run(10, excess={(5, "forward"): 0.9})
    (incident,) = site.open()
    assert incident["cause"] == "slow-compute"
    assert "unknown: cpu-steal, memory-pressure" in incident["summary"]
    assert not incident["summary"].endswith("node facts are normal")


def test_on_one_node_its_facts_tell_no_rank_from_another(store: Store, clock: HandClock) -> None:
    site = Cluster(store, clock, nodes=1)
    site.run(20)
    site.anomalies["node-0"] = {"cpu_steal_ratio": 0.4}
    site.run(10, excess={(5, "forward"): 0.9})
    (incident,) = site.open()
    assert incident["cause"] == "slow-compute"
    assert "shared by all ranks" in incident["summary"]

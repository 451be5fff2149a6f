"""Real ranks, a real agent and collector, and hardware that a test scripts.

The incident of the rank that a fault ends or slows has the fault as its cause, and the node's own
incident ends with it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.faults.injector import SEPARATOR
from stepwatch.signals import places
from stepwatch.signals.records import Throttle
from tests.agent.probes.nvml.scripted import COMPILER, ENV_SCRIPT, Driver, build
from tests.control_groups import control_group
from tests.ports import free_port
from tests.verdicts.plan import Plan
from tests.verdicts.site import Site, kill
from tests.waiting import until

pytest.importorskip("torch", reason="the ranks need torch")
pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
pytestmark = pytest.mark.long(
    "tests/agent/probes/nvml/test_nvml.py::test_a_driver_that_hangs_is_late_and_a_fact",
    "tests/collector/incidents/test_attribution.py::test_facts_of_the_device_explain_a_slow_rank",
    "tests/collector/incidents/test_node_causes.py::test_who_and_what_explains",
)

NODE_FAULT = "node-fault"
BUS = 0x3B
TENSOR_ACTIVE = {"gpm": 1, "gpm5": 42_000}
"""Performance monitoring, with tensor cores at work 42 % of the time."""


class Node(Site):
    """A node with two devices, one for each rank, and a kernel's log of its own."""

    def __init__(self, folder: Path, driver: Path) -> None:
        self.log = folder / "kmsg"
        self.log.touch()
        environ = {
            "LD_LIBRARY_PATH": str(driver.parent),
            ENV_SCRIPT: str(folder / "driver.txt"),
        }
        options = ("--kernel-log", str(self.log))
        super().__init__(folder, folder / "rings", options, environ)
        self.driver = Driver(folder / "driver.txt", 2)
        for number, device in enumerate(self.driver.devices):
            device |= {"pci_bus": BUS + number, "recovery": 0, **TENSOR_ACTIVE}
        self.driver.write()

    def train(self, job: str, *faults: str) -> list[int]:
        """Start two ranks, each on its device, and wait until they make steps."""
        folder = self.folder / job
        folder.mkdir()
        pids = self.launch(
            Plan(
                job=job, world=2, steps=100_000, faults=faults, port=free_port(),
                folder=str(folder), environ={places.ENV_FAULTS: SEPARATOR.join(faults)},
            )
        )  # fmt: skip
        for device, pid in zip(self.driver.devices, pids, strict=True):
            device["pid"] = pid
        self.driver.write()
        until(f"{job} makes steps", lambda: ((self.job(job) or {}).get("step") or 0) > 10)
        return pids

    def kernel_says(self, text: str) -> None:
        """Write a message as the kernel does."""
        with open(self.log, "a") as log:
            log.write(f"3,1,{time.monotonic_ns() // 1000},-;{text}\n")

    def wait(
        self, job: str, holds: Callable[[dict[str, Any]], bool], description: str
    ) -> dict[str, Any]:
        """The first incident of a job for which that holds."""

        def first_incident() -> dict[str, Any] | None:
            return next(filter(holds, self.incidents(job)), None)

        try:
            return until(description, first_incident)
        except pytest.fail.Exception as error:
            incidents = [
                (incident["kind"], incident["cause"], incident["summary"])
                for incident in self.incidents(job)
            ]
            raise AssertionError(f"{error}; seen: {incidents}") from error


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if COMPILER is None:
        pytest.skip("no C compiler: the scripted driver cannot be built")
    folder = tmp_path_factory.mktemp("node")
    (folder / "library").mkdir()
    site = Node(folder, build(folder / "library"))
    try:
        site.start()
        yield site
    finally:
        site.close()


@pytest.fixture
def running() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    kill(pids)


def test_an_xid_that_ends_a_rank_is_why_it_ended(node: Node, running: list[int]) -> None:
    running += node.train("xid-79")
    node.kernel_says(
        f"NVRM: Xid (PCI:0000:{BUS + 1:02x}:00): 79, pid={running[1]}, name=python3, GPU has "
        "fallen off the bus."
    )
    node.driver.devices[1]["lost"] = 1
    node.driver.write()
    of_node = node.wait(
        "xid-79",
        lambda incident: incident["kind"] == NODE_FAULT and incident["cause"] == "xid",
        "the fault",
    )
    assert of_node["rank"] == 1
    assert of_node["summary"].endswith(
        "XID 79 (GPU no longer reachable over PCIe) (0000:3c:00 of rank 1); drain the node and "
        "reboot it"
    )
    sources = {entry["name"]: entry["against"] for entry in of_node["evidence"]}
    assert sources["found by a probe"].endswith("catalog of 2025-10-29: RESTART_BM")
    lost = node.wait(
        "xid-79", lambda incident: "device-lost" in incident["subject"], "the driver lost it, too"
    )
    assert lost["cause"] == "device-lost" and lost["rank"] == 1
    os.kill(running[1], signal.SIGKILL)
    rank_failure = node.wait(
        "xid-79", lambda incident: incident["kind"] == "rank-failed", "the rank failed"
    )
    assert (rank_failure["rank"], rank_failure["cause"]) == (1, "device-lost")
    assert "because its device has fallen off the bus (0000:3c:00)" in rank_failure["summary"]
    del node.driver.devices[1]["lost"]
    node.driver.write()


def test_heat_that_slows_a_rank_is_why_it_is_slow(node: Node, running: list[int]) -> None:
    running += node.train("heat", "slow-compute:rank=1,step=60,seconds=0.1")
    until("it was healthy for a while", lambda: ((node.job("heat") or {}).get("step") or 0) > 55)
    node.driver.devices[1] |= {"throttle": int(Throttle.HARDWARE_THERMAL), "clock": 900}
    node.driver.write()
    slow = node.wait(
        "heat", lambda incident: incident["cause"] == "thermal-throttle", "slow because of heat"
    )
    assert (slow["kind"], slow["rank"]) == ("straggler", 1)
    assert "because its device is hot and throttles, from 1980 to " in slow["summary"]
    slis = node.whole_run("heat")["slis"]
    assert slis["tensor-activity"]["value"] == pytest.approx(0.42)
    assert slis["device-busy"]["value"] == pytest.approx(0.97)
    assert not [incident for incident in node.incidents("heat") if incident["kind"] == NODE_FAULT]
    node.driver.devices[1] |= {"throttle": 0, "clock": 1900}
    node.driver.write()


def test_a_driver_that_hangs_is_why_a_rank_does_not_arrive(node: Node, running: list[int]) -> None:
    running += node.train("driver", "hang:rank=0,step=60")
    until("it was healthy for a while", lambda: ((node.job("driver") or {}).get("step") or 0) > 50)
    node.driver.devices[0]["hang"] = 1
    node.driver.write()
    # The fault of the test before may still be open on this node.
    fault = node.wait(
        "driver",
        lambda incident: incident["kind"] == NODE_FAULT and incident["cause"] == "driver-hangs",
        "the probe hangs",
    )
    assert "probe hangs (nvml)" in fault["summary"]
    hang = node.wait(
        "driver",
        lambda incident: incident["kind"] == "hang" and incident["cause"] == "driver-hangs",
        "the hang has a cause",
    )
    assert hang["rank"] == 0 and "because a probe of its node hangs (nvml)" in hang["summary"]
    del node.driver.devices[0]["hang"]
    node.driver.write()
    node.wait(
        "driver",
        lambda incident: incident["id"] == fault["id"] and incident["state"] == "resolved",
        "the driver answers again, and the fault is over",
    )


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A control group in which no further page can be had."""
    try:
        Path("/dev/kmsg").open().close()
    except OSError as error:
        pytest.skip(f"the kernel's log cannot be read here: {error}")
    with control_group("memory", "memory.limit_in_bytes", "4096") as place:
        yield place


def test_the_out_of_memory_killer_is_why_a_rank_was_killed(
    tmp_path: Path, running: list[int], little_memory: Path
) -> None:
    """The kernel itself kills the rank and logs it; nothing is scripted here."""
    site = Site(tmp_path, tmp_path / "rings")
    try:
        site.start()
        (tmp_path / "oom").mkdir()
        running += site.launch(
            Plan(job="oom", world=2, steps=100_000, port=free_port(), folder=str(tmp_path / "oom"))
        )
        until("it makes steps", lambda: ((site.job("oom") or {}).get("step") or 0) > 10)
        (little_memory / "cgroup.procs").write_text(f"{running[1]}")

        def rank_failure() -> dict[str, Any] | None:
            failures = [
                incident for incident in site.incidents("oom") if incident["kind"] == "rank-failed"
            ]
            return failures[0] if failures else None

        incident = until("the rank was killed", rank_failure)
        assert (incident["rank"], incident["cause"]) == (1, "out-of-memory")
        assert "was killed by SIGKILL" in incident["summary"]
        assert "because the kernel's out-of-memory killer ended it" in incident["summary"]
        texts = [entry["text"] for entry in incident["evidence"]]
        assert any(f"Killed process {running[1]} (" in text for text in texts)
    finally:
        site.close()

"""What is sent of a reading, under which name; what is unknown is not there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.facts.book import FactBook
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.otlp.conventions import CONVENTIONS, STATUS_TYPES
from stepwatch.agent.otlp.points import MOST_POINTS, STATES, points_of
from stepwatch.agent.probes.host import HostProbe
from stepwatch.agent.probes.nic import NicProbe
from stepwatch.agent.probes.nvml import NvmlProbe
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.node_facts.catalogue import CATALOGUE
from stepwatch.signals.otlp.points import Point
from stepwatch.signals.records import BODIES, Kind, NodeFact, make_rows
from stepwatch.signals.wire import Rows
from tests.agent.probes import rows_of
from tests.agent.probes.nvml.scripted import Driver

INCUBATING = "opentelemetry.semconv._incubating"
KINDS = {"device": Kind.DEVICE, "network": Kind.NIC, "interface": Kind.NIC, "host": Kind.HOST}


class Held:
    """Readings that a test holds."""

    def __init__(self, **latest: Rows) -> None:
        self.latest = latest

    def devices(self) -> Rows:
        return self.latest.get("nvml", make_rows(Kind.DEVICE, 0))


def values_of(points: list[Point], **wanted: str) -> dict[str, float]:
    """Values by name (with the attribute that tells them apart) of points with these attributes."""
    named = {key.replace("_", "."): value for key, value in wanted.items()}
    common_attributes = {"hw.type", "hw.id", "hw.name", *named}
    values = {}
    for point in points:
        if named.items() <= point.attributes.items():
            labels = [
                value for key, value in point.attributes.items() if key not in common_attributes
            ]
            assert isinstance(point.value, float)
            values[" ".join([point.name, *labels])] = point.value
    return values


@pytest.fixture
def nvml(driver: Driver) -> Iterator[NvmlProbe]:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    new_probe = NvmlProbe(SystemClock())
    yield new_probe
    new_probe.close()


def test_a_device_as_its_driver_says_it(driver: Driver, nvml: NvmlProbe) -> None:
    driver.devices[0] |= {"pci_bus": 0x3B}
    driver.write()
    points = points_of(Held(nvml=rows_of(nvml)), [])
    identity = {"hw.type": "gpu", "hw.id": "0000:3b:00", "hw.name": "gpu 0"}
    device_points = [point for point in points if identity.items() <= point.attributes.items()]
    assert values_of(device_points) == {
        "hw.gpu.utilization general": pytest.approx(0.97),
        "hw.gpu.memory.usage": 40 << 30,
        "hw.gpu.memory.limit": 80 << 30,
        "hw.power": 650.0,
        "hw.temperature": 61.0,
        "hw.errors corrected": 3.0,
        "hw.errors uncorrected": 0.0,
        "hw.errors pcie_replay": 2.0,
        "hw.errors nvlink": 6.0,
        "hw.status ok": 1.0,
        "hw.status degraded": 0.0,
        "hw.status failed": 0.0,
    }


def test_what_a_driver_does_not_report_is_not_sent(driver: Driver, nvml: NvmlProbe) -> None:
    driver.devices = [{"no_events": 1}]
    driver.write()
    rows = rows_of(nvml)
    assert len(rows) == 1
    assert points_of(Held(nvml=rows), []) == []
    assert points_of(Held(), []) == []


def test_a_lost_device_has_failed_and_has_no_temperature(driver: Driver, nvml: NvmlProbe) -> None:
    rows_of(nvml)
    driver.devices[1]["lost"] = 1
    driver.write()
    points = points_of(Held(nvml=rows_of(nvml)), [])
    lost = values_of(points, hw_name="gpu 1")
    assert lost == {"hw.status ok": 0.0, "hw.status degraded": 0.0, "hw.status failed": 1.0}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([], "ok"),
        ([NodeFact.MIG_MODE], "ok"),
        ([NodeFact.DEVICE_HOT], "degraded"),
        ([NodeFact.DEVICE_HOT, NodeFact.ROW_REMAP_FAILED], "failed"),
        ([NodeFact.PORT_DOWN], "ok"),
    ],
)
def test_facts_about_a_device_are_its_status(
    driver: Driver, nvml: NvmlProbe, facts: list[NodeFact], state: str
) -> None:
    driver.devices[0] |= {"pci_bus": 0x3B}
    driver.write()
    book = FactBook()
    book.take("nvml", [Sighting(fact, "0000:3b:00", "as the test says") for fact in facts], 1)
    points = points_of(Held(nvml=rows_of(nvml)), book.present())
    status = values_of(points, hw_name="gpu 0")
    assert {state: status[f"hw.status {state}"] for state in STATES} == {
        name: float(name == state) for name in STATES
    }


def test_ports_and_disks_with_a_fact_have_a_status_and_others_none() -> None:
    book = FactBook()
    sightings = [
        Sighting(NodeFact.PORT_ERRORS, "mlx5_0/1", "many"),
        Sighting(NodeFact.PORT_DOWN, "mlx5_0/1", "down"),
        Sighting(NodeFact.DISK_SLOW, "sda", "slow"),
        Sighting(NodeFact.MIG_MODE, "0000:3b:00", "on"),
    ]
    book.take("test", sightings, 1)
    points = points_of(Held(), book.present())
    assert {
        (p.attributes["hw.type"], p.attributes["hw.id"], p.attributes["hw.state"]) for p in points
    } == {("network", "mlx5_0/1", "failed"), ("logical_disk", "sda", "degraded")}
    assert {point.value for point in points} == {1.0}


def test_cards_are_hardware_and_what_software_made_is_none(tmp_path: Path) -> None:
    for name, values in {
        "eth0": {"rx_bytes": 1000, "tx_bytes": 2000, "rx_errors": 3, "tx_errors": 4},
        "veth1": {"rx_bytes": 5, "tx_bytes": 6},
    }.items():
        folder = tmp_path / "class/net" / name
        (folder / "statistics").mkdir(parents=True)
        for key, value in values.items():
            (folder / "statistics" / key).write_text(f"{value}\n")
    (tmp_path / "class/net/eth0/device").mkdir()
    (tmp_path / "class/net/eth0/speed").write_text("25000\n")
    (tmp_path / "class/net/veth1/speed").write_text("-1\n")
    rows = rows_of(NicProbe(SystemClock(), tmp_path, tmp_path))
    points = points_of(Held(nic=rows), [], tmp_path)
    assert values_of(points, hw_id="eth0") == {
        "hw.network.io receive": 1000.0,
        "hw.network.io transmit": 2000.0,
        "hw.network.bandwidth.limit": 25e9 / 8,
        "hw.errors all": 7.0,
    }
    assert values_of(points, hw_id="veth1") == {}
    assert values_of(points, network_interface_name="veth1") == {
        "system.network.io receive": 5.0,
        "system.network.io transmit": 6.0,
    }


def test_the_host_as_its_kernel_says_it() -> None:
    probe = HostProbe(SystemClock())
    probe.read()
    first = values_of(points_of(Held(host=rows_of(probe)), []))
    total = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    assert first["system.memory.limit"] == int(total.split()[1]) * 1024
    assert 0 < first["system.memory.linux.available"] < first["system.memory.limit"]
    unknown = make_rows(Kind.HOST, 1)
    assert points_of(Held(host=unknown), []) == []
    unknown["cpu_busy_ratio"] = 0.25
    assert values_of(points_of(Held(host=unknown), [])) == {"system.cpu.utilization idle": 0.75}


def test_a_request_is_bounded() -> None:
    values = {name: 0.0 for name, code in BODIES[Kind.DEVICE] if code[1] == "f"}
    rows = make_rows(Kind.DEVICE, 1000, device=range(1000), **values)
    assert len(points_of(Held(nvml=rows), [])) == MOST_POINTS


def conventional() -> dict[str, tuple[str, str]]:
    """Instrument and unit of each metric of the installed semantic conventions, by name."""
    conventions: dict[str, tuple[str, str]] = {}
    for module in ("hw_metrics", "system_metrics"):
        module_object: Any = importlib.import_module(f"{INCUBATING}.metrics.{module}")
        text = Path(module_object.__file__).read_text()
        pattern = r': Final = "([a-z_.]+)"\n"""\n[^"]*?Instrument: (\w+)\nUnit: (\S+)'
        conventions |= {name: (kind, unit) for name, kind, unit in re.findall(pattern, text)}
    return conventions


def test_names_instruments_and_units_are_those_of_the_conventions() -> None:
    pytest.importorskip(INCUBATING, reason="needs the extra `traces`")
    declared = conventional()
    assert len(declared) > 50
    declared["system.cpu.utilization"] = ("gauge", "1")  # its module of today is `cpu_metrics`
    for convention in CONVENTIONS:
        assert declared[convention.name] == (convention.instrument, convention.unit), convention
        assert convention.field in dict(BODIES[KINDS[convention.of]]), convention
    assert declared["hw.status"] == ("updowncounter", "1")


def test_attributes_are_those_of_the_conventions() -> None:
    modules = ("hw", "network", "cpu", "error")
    attributes: set[str] = set()
    for module in modules:
        try:
            module_object: Any = importlib.import_module(
                f"{INCUBATING}.attributes.{module}_attributes"
            )
        except ImportError:  # `error.type` is stable and lies elsewhere
            module_object = importlib.import_module(
                f"opentelemetry.semconv.attributes.{module}_attributes"
            )
        attributes |= {value for value in vars(module_object).values() if isinstance(value, str)}
    attributes.add("error.type")
    used = {key for convention in CONVENTIONS for key in convention.attributes}
    assert used | {"hw.id", "hw.name", "hw.type", "hw.state"} <= attributes
    assert "network.interface.name" in attributes


def test_facts_with_a_status_are_in_the_catalogue() -> None:
    assert STATUS_TYPES.keys() <= {entry.name for entry in CATALOGUE.values()}


def test_the_readme_lists_what_is_sent() -> None:
    readme = (Path(__file__).parents[3] / "agent/README.md").read_text()
    for convention in CONVENTIONS:
        assert f"`{convention.name}`" in readme, convention.name
    assert "`hw.status`" in readme

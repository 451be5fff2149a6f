"""What the driver reports wrong with devices and their links, each as a fact of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.nvml import NvmlProbe
from stepwatch.signals.records import NodeFact, Throttle
from tests.agent.probes import rows_of
from tests.agent.probes.nvml.scripted import HEALTHY, Driver
from tests.collector.made import HandClock

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1000.0)


@pytest.fixture
def probe(driver: Driver, clock: HandClock) -> Iterator[NvmlProbe]:
    """Of a driver with four devices, of which each has an address."""
    driver.devices = [
        {**HEALTHY, "pci_bus": 0x3B + number, "pid": 42 + number} for number in range(4)
    ]
    driver.write()
    new_probe = NvmlProbe(clock)
    rows_of(new_probe)
    assert new_probe.facts() == []
    yield new_probe
    new_probe.close()


def sightings_of(driver: Driver, probe: NvmlProbe, **values: int) -> list[Sighting]:
    """What the probe finds once device 1 reports these values."""
    driver.devices[1] |= values
    driver.write()
    rows_of(probe)
    return list(probe.facts())


HEAT, BRAKE, SLOW = Throttle.HARDWARE_THERMAL, Throttle.HARDWARE_POWER_BRAKE, 0x8
STATES: dict[str, tuple[dict[str, int], NodeFact, str]] = {
    "hot": (
        {"slows_at": 87, "temperature": 88},
        NodeFact.DEVICE_HOT,
        "88 degrees Celsius, it slows down from 87 on",
    ),
    "thermal": (
        {"throttle": Throttle.THERMAL, "clock": 1200},
        NodeFact.DEVICE_THROTTLED,
        "from 1980 to 1200 MHz: thermal",
    ),
    "power cap": (
        {"throttle": Throttle.POWER_CAP | HEAT, "clock": 990},
        NodeFact.DEVICE_THROTTLED,
        "from 1980 to 990 MHz: power cap, thermal (hardware)",
    ),
    "clocks that somebody set": (
        {"throttle": Throttle.APPLICATION_CLOCKS | HEAT, "clock": 900, "application_clock": 1410},
        NodeFact.DEVICE_THROTTLED,
        "from 1410 to 900 MHz: thermal (hardware)",
    ),
    "brake": ({"throttle": BRAKE}, NodeFact.POWER_BRAKE, "from 1980 to 1900 MHz: power brake"),
    "persistence": (
        {"persistence": 0},
        NodeFact.PERSISTENCE_OFF,
        "persistence mode is off: each first use of the device initialises it again",
    ),
    "link": (
        {"link1": 0},
        NodeFact.NVLINK_DOWN,
        "it was up before",
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_a_fact_while_it_lasts(driver: Driver, probe: NvmlProbe, name: str) -> None:
    values, fact, text = STATES[name]
    healthy = dict(driver.devices[1])
    (sighting,) = sightings_of(driver, probe, **values)
    assert (sighting.fact, sighting.text, sighting.pid) == (fact, text, 43)
    assert sighting.subject == ("0000:3c:00 link 1" if name == "link" else "0000:3c:00")
    driver.devices[1] = healthy
    assert sightings_of(driver, probe) == []


@pytest.mark.parametrize(
    "values",
    [
        {"slows_at": 62},
        {"throttle": 0x1, "clock": 300},
        {"throttle": int(Throttle.POWER_CAP), "clock": 1850},
        {"throttle": 0x2, "clock": 1410, "application_clock": 1410},
        {"throttle": 0x2 | 0x4, "clock": 1400, "application_clock": 1410},
        {"persistence": 1, "mig": 0},
        {"link5": 0},
        {"pcie_replays": 10},
        {"link0_errors2": 6001},
    ],
    ids=str,
)
def test_what_healthy_devices_report_is_no_fact(
    driver: Driver, probe: NvmlProbe, values: dict[str, int]
) -> None:
    assert sightings_of(driver, probe, **values) == []


def test_a_link_that_its_peers_have_up_is_down_from_the_beginning(
    driver: Driver, clock: HandClock
) -> None:
    driver.devices = [{**HEALTHY, "link7": 1} for _ in range(4)]
    driver.devices[2]["link7"] = 0
    driver.write()
    probe = NvmlProbe(clock)
    rows_of(probe)
    (sighting,) = probe.facts()
    assert (sighting.fact, sighting.subject) == (NodeFact.NVLINK_DOWN, "device 2 link 7")
    assert sighting.text == "it is up on 3 of the 3 other devices that have it"
    probe.close()


def test_errors_of_a_link_that_rise_are_its_own(
    driver: Driver, probe: NvmlProbe, clock: HandClock
) -> None:
    clock.advance(10)
    (sighting,) = sightings_of(driver, probe, link1_errors0=4)
    assert (sighting.fact, sighting.subject) == (NodeFact.NVLINK_ERRORS, "0000:3c:00 link 1")
    assert (sighting.text, sighting.pid) == ("nvlink_replays_a_minute: 3 in 10 s", 43)
    clock.advance(61)
    rows_of(probe)
    clock.advance(1)
    rows_of(probe)
    assert probe.facts() == [], "none in the newest minute"


def test_uncorrected_memory_errors_are_counted_as_they_come(
    driver: Driver, probe: NvmlProbe
) -> None:
    (sighting,) = sightings_of(driver, probe, ecc_uncorrected=3)
    assert (sighting.fact, sighting.happened) == (NodeFact.ECC_UNCORRECTED, 3)
    assert sightings_of(driver, probe) == [], "those that are known are not news"
    assert sightings_of(driver, probe, ecc_uncorrected=0) == [], "the driver was loaded anew"
    assert [sighting.happened for sighting in sightings_of(driver, probe, ecc_uncorrected=1)] == [1]


def test_many_replays_on_pcie_in_a_minute(
    driver: Driver, probe: NvmlProbe, clock: HandClock
) -> None:
    clock.advance(30)
    (sighting,) = sightings_of(driver, probe, pcie_replays=11)
    assert (sighting.fact, sighting.subject) == (NodeFact.PCIE_REPLAYS, "0000:3c:00")


def test_a_hardware_slowdown_that_lasts_is_no_change_of_clocks(
    driver: Driver, probe: NvmlProbe
) -> None:
    facts = [
        [sighting.fact for sighting in sightings_of(driver, probe, throttle=SLOW)] for _ in range(4)
    ]
    assert facts == [[], [], [NodeFact.HARDWARE_SLOWDOWN], [NodeFact.HARDWARE_SLOWDOWN]]
    assert sightings_of(driver, probe, throttle=0) == []
    assert sightings_of(driver, probe, throttle=SLOW) == []


def test_a_divided_device_is_unknown_with_its_reason(driver: Driver, probe: NvmlProbe) -> None:
    for name in ("busy", "nvlink"):
        del driver.devices[1][name]
    (sighting,) = sightings_of(driver, probe, mig=1)
    assert sighting.fact is NodeFact.MIG_MODE
    assert sighting.text == "MIG is on; not reported of the whole device: busy_ratio, nvlink_errors"
    rows: Any = rows_of(probe)
    assert rows["mig"].tolist() == [-1, 1, -1, -1] and rows["lost"].tolist() == [0] * 4
    assert rows["address"].tolist() == [b"0000:3b:00", b"0000:3c:00", b"0000:3d:00", b"0000:3e:00"]


def test_a_lost_device_has_no_other_fault_and_keeps_its_name(
    driver: Driver, probe: NvmlProbe
) -> None:
    (sighting,) = sightings_of(driver, probe, lost=1, slows_at=1, throttle=SLOW)
    assert (sighting.fact, sighting.subject) == (NodeFact.DEVICE_LOST, "0000:3c:00")

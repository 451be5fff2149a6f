"""The nvml probe says what a driver says: the real binding loads a driver that a test scripts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.isolation.readings import assigned
from stepwatch.agent.probes.gpm import GpmProbe
from stepwatch.agent.probes.nvml import NvmlProbe
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import Kind, NodeFact, Throttle
from stepwatch.signals.wire import Rows
from tests.agent.conftest import Rank, round_of, spooled
from tests.agent.probes import rows_of
from tests.agent.probes.nvml.scripted import HEALTHY, Driver
from tests.waiting import until

pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")


@pytest.fixture
def probe(driver: Driver) -> Iterator[NvmlProbe]:
    new_probe = NvmlProbe(SystemClock())
    yield new_probe
    new_probe.close()


def test_a_healthy_device_in_base_units(driver: Driver, probe: NvmlProbe) -> None:
    assert probe.supported()
    rows = rows_of(probe)
    assert rows["device"].tolist() == [0, 1] and rows["rank"].tolist() == [-1, -1]
    row = rows[0]
    assert row["busy_ratio"] == pytest.approx(0.97)
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (40 << 30, 80 << 30)
    assert (row["clock_hertz"], row["clock_limit_hertz"]) == (1.9e9, 1.98e9)
    assert (row["power_watts"], row["power_limit_watts"]) == (650.0, 700.0)
    assert row["temperature_celsius"] == 61.0
    assert (row["ecc_corrected"], row["ecc_uncorrected"], row["pcie_replays"]) == (3, 0, 2)
    assert row["nvlink_errors"] == 2 * 3, "two links, three kinds of error"
    assert (row["lost"], row["throttle"], row["xid"], row["xid_count"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("reason", [Throttle.THERMAL, Throttle.POWER_CAP, Throttle(0x44)])
def test_throttle_reasons_are_the_drivers_own_bits(
    driver: Driver, probe: NvmlProbe, reason: Throttle
) -> None:
    driver.devices[1]["throttle"] = int(reason)
    driver.write()
    rows = rows_of(probe)
    assert Throttle(int(rows[1]["throttle"])) == reason and rows[0]["throttle"] == 0


def test_our_names_of_throttle_reasons_are_those_of_the_binding() -> None:
    assert pynvml.nvmlClocksThrottleReasonSwPowerCap == Throttle.POWER_CAP
    assert pynvml.nvmlClocksThrottleReasonSwThermalSlowdown == Throttle.THERMAL
    assert pynvml.nvmlClocksThrottleReasonHwThermalSlowdown == Throttle.HARDWARE_THERMAL
    assert pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown == Throttle.HARDWARE_POWER_BRAKE
    assert pynvml.nvmlClocksThrottleReasonHwSlowdown == Throttle.HARDWARE_SLOWDOWN


def test_memory_errors_are_counted(driver: Driver, probe: NvmlProbe) -> None:
    driver.devices[0]["ecc_uncorrected"] = 5
    driver.write()
    assert rows_of(probe)["ecc_uncorrected"].tolist() == [5, 0]


def test_what_a_device_does_not_tell_is_unknown(driver: Driver, probe: NvmlProbe) -> None:
    driver.devices[0] = {"no_events": 1}
    driver.write()
    row = rows_of(probe)[0]
    floats = [name for name in row.dtype.names if row.dtype[name].kind == "f"]
    assert all(math.isnan(row[name]) for name in floats), "never zero, never healthy"
    assert (row["lost"], row["throttle"], row["xid"]) == (-1, -1, -1)


def test_a_lost_device_is_said_to_be_lost(driver: Driver, probe: NvmlProbe) -> None:
    assert rows_of(probe)["lost"].tolist() == [0, 0]
    driver.devices[1]["lost"] = 1
    driver.write()
    rows = rows_of(probe)
    assert rows["lost"].tolist() == [0, 1]
    assert math.isnan(rows[1]["temperature_celsius"]) and rows[1]["throttle"] == -1


def test_a_device_that_was_lost_from_the_beginning(driver: Driver, probe: NvmlProbe) -> None:
    driver.devices[0]["missing"] = 1
    driver.write()
    rows = rows_of(probe)
    assert rows["lost"].tolist() == [1, 0] and math.isnan(rows[0]["busy_ratio"])


def test_xid_errors_are_counted_where_they_happened(driver: Driver, probe: NvmlProbe) -> None:
    assert rows_of(probe)["xid_count"].tolist() == [0, 0]
    driver.events = ["1 xid 79", "1 xid 48"]
    driver.write()
    rows = rows_of(probe)
    assert rows["xid"].tolist() == [0, 48] and rows["xid_count"].tolist() == [0, 2]
    assert rows_of(probe)["xid_count"].tolist() == [0, 2], "an error is counted once"


def test_a_driver_that_was_reloaded_is_opened_again(driver: Driver, probe: NvmlProbe) -> None:
    driver.events = ["1 xid 79"]
    driver.write()
    assert rows_of(probe)["temperature_celsius"].tolist() == [61, 61]
    driver.generation += 1
    driver.devices[0]["temperature"] = 44
    driver.write()
    rows = rows_of(probe)
    assert rows["temperature_celsius"].tolist() == [44, 61] and rows["lost"].tolist() == [0, 0]
    driver.events.append("0 xid 48")
    driver.write()
    rows = rows_of(probe)
    assert rows["xid_count"].tolist() == [1, 1], "events are registered with the new driver"


def test_a_driver_that_is_unloaded_is_unknown_until_it_is_back(
    driver: Driver, probe: NvmlProbe, tmp_path: Path
) -> None:
    rows_of(probe)
    driver.generation += 1
    (tmp_path / "driver.txt").unlink()
    assert not probe.supported()
    with pytest.raises(OSError, match="driver"):
        rows_of(probe)
    driver.write()
    assert probe.supported() and rows_of(probe)["temperature_celsius"].tolist() == [61, 61]


def test_devices_that_come_or_go_with_a_reload_are_counted_anew(
    driver: Driver, probe: NvmlProbe
) -> None:
    assert len(rows_of(probe)) == 2
    driver.devices.append(dict(HEALTHY))
    driver.write()
    assert rows_of(probe)["device"].tolist() == [0, 1, 2]


def test_a_node_without_a_driver_has_no_devices(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "driver.txt").unlink()
    probe = NvmlProbe(SystemClock())
    assert not probe.supported()
    with pytest.raises(OSError, match="driver"):
        rows_of(probe)
    driver.write()
    assert probe.supported(), "loaded later"
    probe.close()


def test_devices_are_given_to_the_ranks_that_compute_on_them(
    driver: Driver, tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    driver.devices[1]["pid"] = os.getpid()
    driver.write()
    rank = Rank(tmp_path / "rings", 0)
    rank.steps(3)
    agent = make_agent()

    def has_read() -> bool:  # its process loads the binding first
        round_of(agent)
        return {"nvml", "gpm"} <= agent.readings.latest.keys()

    until("the devices are read", has_read)
    tables = spooled(agent)[-1]
    assert tables[Kind.DEVICE]["rank"].tolist() == [-1, 0]
    assert agent.readings.up["nvml"] and agent.readings.up["nic"]
    rank.ring.close()


FAULTS = {
    NodeFact.DEVICE_LOST: ({"lost": 1}, "the driver counts it and cannot reach it"),
    NodeFact.ROWS_TO_REMAP: (
        {"remapped": 3, "remap_pending": 1},
        "3 rows remapped after corrected errors, 0 after others; some wait for a reset",
    ),
    NodeFact.ROW_REMAP_FAILED: (
        {"remapped": 8, "remap_failed": 1},
        "8 rows remapped after corrected errors, 0 after others; one failed",
    ),
    NodeFact.RECOVERY_NEEDED: ({"recovery": 4}, "the driver asks for: drain and reset"),
    NodeFact.PCIE_NARROW: ({"lanes": 8, "lanes_most": 16}, "8 lanes of 16"),
}


@pytest.mark.parametrize("fact", FAULTS, ids=lambda fact: fact.name.lower())
def test_each_fault_names_its_device_and_who_computes_on_it(
    driver: Driver, probe: NvmlProbe, fact: NodeFact
) -> None:
    values, text = FAULTS[fact]
    for number, device in enumerate(driver.devices):
        device |= {"pci_bus": 0x3B + number, "pid": 42 + number, "lanes": 16, "lanes_most": 16}
        device |= {"remapped": 0, "recovery": 0}
    driver.write()
    rows_of(probe)
    assert probe.facts() == []
    healthy = dict(driver.devices[1])
    driver.devices[1] |= values
    driver.write()
    rows_of(probe)
    (sighting,) = probe.facts()
    assert (sighting.fact, sighting.subject, sighting.text, sighting.pid) == (
        fact,
        "0000:3c:00",
        text,
        43,
    )
    driver.devices[1] = healthy
    driver.write()
    rows_of(probe)
    assert probe.facts() == []


def test_every_xid_of_a_read_is_found(driver: Driver, probe: NvmlProbe) -> None:
    driver.devices[1] |= {"pci_bus": 0x3C, "pid": 43}
    driver.events = ["1 xid 48", "1 xid 63", "1 xid 48"]
    driver.write()
    rows_of(probe)
    facts = [(fact.subject, fact.code, fact.happened, fact.pid) for fact in probe.facts()]
    assert facts == [("0000:3c:00", code, 1, 43) for code in (48, 63, 48)]
    rows_of(probe)
    assert probe.facts() == []


def test_a_device_that_only_the_bus_shows_is_missing(driver: Driver, tmp_path: Path) -> None:
    kinds = [("0x10de", "0x030200"), ("0x10de", "0x030000"), ("0x10de", "0x030200")]
    other_functions = [("0x10de", "0x068000"), ("0x8086", "0x030000")]  # a switch, a graphics chip
    for number, (vendor, kind) in enumerate([*kinds, *other_functions]):
        folder = tmp_path / "sys/bus/pci/devices" / f"0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    probe = NvmlProbe(SystemClock(), sys=tmp_path / "sys")
    rows_of(probe)
    (sighting,) = probe.facts()
    assert sighting.fact is NodeFact.DEVICE_MISSING
    assert sighting.text == "3 on the PCI bus, 2 known to the driver"
    probe.close()


def test_a_driver_that_hangs_is_late_and_a_fact(
    driver: Driver,
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NvmlProbe, "deadline_seconds", 0.5)
    monkeypatch.setattr(NvmlProbe, "first_seconds", 0.5)
    monkeypatch.setattr(GpmProbe, "deadline_seconds", 0.7)
    rank = Rank(tmp_path / "rings", 0)
    rank.steps(3)
    agent = make_agent()

    def answers() -> bool:
        round_of(agent)
        return agent.readings.up.get("nvml", False)

    until("the driver answers", answers)
    driver.devices[0]["hang"] = 1
    driver.write()

    def hangs() -> bool:
        round_of(agent)
        return "nvml" in agent.readings.unknown

    until("its read is late", hangs)
    assert agent.readings.unknown["nvml"] == "late" and agent.readings.up["nic"]
    rows = spooled(agent)[-1][Kind.NODE_FACT]
    assert rows[["fact", "present", "subject"]].tolist() == [(NodeFact.PROBE_HANGS, 1, b"nvml")]
    assert Kind.DEVICE not in spooled(agent)[-1], "an old reading is not a reading"

    def both_hang() -> bool:
        round_of(agent)
        return {"nvml", "gpm"} <= agent.readings.unknown.keys()

    until("gpm's read is late, too", both_hang)
    present = [fact.key.subject for fact in agent.readings.facts.present()]
    assert "nvml" in present and "gpm" not in present, "one driver that hangs is one fault"
    del driver.devices[0]["hang"]
    driver.write()
    until("the driver answers again", answers)
    assert "nvml" not in agent.readings.unknown
    rank.ring.close()


def test_a_shared_device_belongs_to_no_rank(driver: Driver, probe: NvmlProbe) -> None:
    rows: Rows = rows_of(probe)
    ranks = {10: 0, 11: 1}
    both_ranks, other_process, no_process = frozenset({10, 11}), frozenset({99}), frozenset[int]()
    assert assigned(rows, [both_ranks, other_process], ranks)["rank"].tolist() == [-1, -1]
    assert assigned(rows, [frozenset({11, 99}), no_process], ranks)["rank"].tolist() == [1, -1]
    assert np.array_equal(rows["rank"], [-1, -1])

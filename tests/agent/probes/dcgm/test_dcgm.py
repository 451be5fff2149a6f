"""The dcgm probe reads what an exporter serves; what is no such page is unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from stepwatch.agent.app import Agent
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.dcgm import STALE_SECONDS, DcgmProbe
from stepwatch.agent.probes.dcgm.endpoint import MAX_BYTES, WHOLE_SECONDS, checked_url
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.records import Activity, Kind, NodeFact, Throttle
from stepwatch.signals.wire import Rows
from tests.agent.conftest import Rank, round_of, spooled
from tests.agent.probes import rows_of
from tests.agent.probes.dcgm.served import HEALTHY, Served, page, served
from tests.agent.probes.nvml.scripted import Driver
from tests.collector.made import HandClock
from tests.waiting import until


@pytest.fixture
def exporter() -> Iterator[Served]:
    with served() as endpoint:
        endpoint.body = page({0: HEALTHY, 1: HEALTHY})
        yield endpoint


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1000.0)


@pytest.fixture
def probe(exporter: Served, clock: HandClock) -> Iterator[DcgmProbe]:
    dcgm_probe = DcgmProbe(clock, exporter.url)
    yield dcgm_probe
    dcgm_probe.close()


def sightings_of(exporter: Served, probe: DcgmProbe, **values: float) -> list[Sighting]:
    """What the probe finds once device 1 has these values."""
    device_page = {**HEALTHY, **{f"DCGM_FI_DEV_{name}": value for name, value in values.items()}}
    exporter.body = page({0: HEALTHY, 1: device_page})
    rows_of(probe)
    return list(probe.facts())


def test_a_page_is_read_in_base_units(probe: DcgmProbe) -> None:
    rows = rows_of(probe)
    assert rows["device"].tolist() == [0, 1]
    assert rows["address"].tolist() == [b"0000:3b:00", b"0000:3c:00"]
    row = rows[1]
    assert (row["clock_hertz"], row["temperature_celsius"], row["power_watts"]) == (
        1.9e9,
        61.0,
        650.25,
    )
    assert row["busy_ratio"] == pytest.approx(0.97) and row["memory_used_bytes"] == 40 << 30
    assert (row["pcie_replays"], row["ecc_uncorrected"], row["throttle"]) == (2, 0, 0)
    assert row["activity"] == Activity.DCGM
    assert row["tensor_active_ratio"] == pytest.approx(0.41)
    assert row["nvlink_received_bytes_per_second"] == pytest.approx(1e9)
    assert math.isnan(row["clock_limit_hertz"]) and row["lost"] == -1 and row["xid"] == -1
    assert probe.facts() == []


def test_default_counters_leave_activity_unknown(exporter: Served, probe: DcgmProbe) -> None:
    few = {name: value for name, value in HEALTHY.items() if "_PROF_" not in name}
    exporter.body = page({0: few})
    (row,) = rows_of(probe)
    assert row["activity"] == Activity.UNKNOWN and math.isnan(row["tensor_active_ratio"])


def test_what_dcgm_leaves_blank_is_unknown(exporter: Served, probe: DcgmProbe) -> None:
    blanks = {
        "DCGM_FI_DEV_GPU_TEMP": 0x7FFFFFF0,
        "DCGM_FI_DEV_SM_CLOCK": 0x7FFFFFFFFFFFFFF0,
        "DCGM_FI_DEV_POWER_USAGE": 140737488355328.0,
        "DCGM_FI_PROF_SM_ACTIVE": 3.0,
        "DCGM_FI_DEV_GPU_UTIL": -1.0,
        "DCGM_FI_DEV_XID_ERRORS": 1e12,
    }
    text = page({0: {**HEALTHY, **blanks}}).decode().replace("2.14748e+09", str(0x7FFFFFF0))
    exporter.body = text.encode()
    (row,) = rows_of(probe)
    names = ("temperature_celsius", "clock_hertz", "power_watts", "sm_active_ratio", "busy_ratio")
    assert all(math.isnan(row[name]) for name in names), row
    assert row["tensor_active_ratio"] == pytest.approx(0.41) and probe.facts() == []


def test_values_of_instances_are_not_those_of_the_device(
    exporter: Served, probe: DcgmProbe
) -> None:
    exporter.body = page({0: HEALTHY}, ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"')
    (row,) = rows_of(probe)
    assert (row["mig"], row["activity"]) == (1, Activity.DIVIDED)
    assert math.isnan(row["busy_ratio"]) and row["temperature_celsius"] == 61.0


def test_an_xid_is_news_when_the_gauge_changes(exporter: Served, probe: DcgmProbe) -> None:
    assert sightings_of(exporter, probe, XID_ERRORS=79) == [], "who knows when that was"
    assert sightings_of(exporter, probe, XID_ERRORS=79, GPU_TEMP=62) == [], (
        "the gauge keeps its value"
    )
    (sighting,) = sightings_of(exporter, probe, XID_ERRORS=48)
    assert (sighting.fact, sighting.subject, sighting.code) == (NodeFact.XID, "0000:3c:00", 48)
    assert (sighting.happened, sighting.text) == (1, "DCGM reports XID 48")
    rows_of(probe)
    assert probe.facts() == [], "the same page is not a second error"
    assert sightings_of(exporter, probe, XID_ERRORS=0) == [], "the exporter was started anew"
    assert [sighting.code for sighting in sightings_of(exporter, probe, XID_ERRORS=48)] == [48]


def test_an_exporter_that_makes_the_series_at_the_first_error(
    exporter: Served, probe: DcgmProbe
) -> None:
    without_xid = {name: value for name, value in HEALTHY.items() if "XID" not in name}
    exporter.body = page({0: without_xid, 1: without_xid})
    rows_of(probe)
    exporter.body = page({0: without_xid, 1: {**without_xid, "DCGM_FI_DEV_XID_ERRORS": 31}})
    rows_of(probe)
    assert [(fact.subject, fact.code) for fact in probe.facts()] == [("0000:3c:00", 31)]
    exporter.body = page({0: without_xid, 1: {**without_xid, "DCGM_FI_DEV_GPU_TEMP": 62}})
    rows_of(probe)
    exporter.body = page({0: without_xid, 1: {**without_xid, "DCGM_FI_DEV_XID_ERRORS": 31}})
    rows_of(probe)
    assert probe.facts() == [], "gone for a scrape, and the same again"


def test_a_first_value_that_comes_with_its_time_is_news_of_then(
    exporter: Served, probe: DcgmProbe, clock: HandClock
) -> None:
    before_ms = clock.wall_ns() // 1_000_000 - 5_000
    text = page({0: {"DCGM_FI_DEV_XID_ERRORS": 79}}).decode().rstrip("\n")
    exporter.body = f"{text} {before_ms}\n".encode()
    rows_of(probe)
    (sighting,) = probe.facts()
    assert sighting.code == 79 and sighting.at_ns == pytest.approx(995e9, abs=2e6)


def test_states_are_facts_while_they_last(exporter: Served, probe: DcgmProbe) -> None:
    assert sightings_of(exporter, probe) == []
    hot = {"CLOCKS_EVENT_REASONS": float(Throttle.HARDWARE_POWER_BRAKE), "ROW_REMAP_FAILURE": 1.0}
    facts = {NodeFact.POWER_BRAKE, NodeFact.ROW_REMAP_FAILED}
    sightings = sightings_of(exporter, probe, **hot)
    assert {sighting.fact for sighting in sightings} == facts
    assert {sighting.text for sighting in sightings} >= {"to 1900 MHz: power brake"}
    rows_of(probe)
    assert {fact.fact for fact in probe.facts()} == facts, "the same page: they last"
    assert sightings_of(exporter, probe) == []
    (ecc,) = sightings_of(exporter, probe, ECC_DBE_VOL_TOTAL=2)
    assert (ecc.fact, ecc.happened) == (NodeFact.ECC_UNCORRECTED, 2)


SMALL = page({0: HEALTHY})
BAD: dict[str, tuple[dict[str, object], type[Exception], str]] = {
    "error": ({"status": 500}, OSError, "answers 500"),
    "elsewhere": (
        {"status": 302, "headers": {"location": "http://127.0.0.1:9/"}},
        OSError,
        "answers 302",
    ),
    "web page": (
        {"headers": {"content-type": "text/html"}, "body": b"<html>"},
        ValueError,
        "serves text/html, not metrics",
    ),
    "nothing named": ({"headers": {}}, ValueError, "nothing that it names"),
    "packed": (
        {"headers": {"content-type": "text/plain", "content-encoding": "gzip"}},
        ValueError,
        "is compressed",
    ),
    "huge": ({"body": b"#" * (MAX_BYTES + 1)}, ValueError, "longer than 4 MiB"),
    "endless": ({"drip": b"# a line\n"}, OSError, f"longer than {WHOLE_SECONDS:g} s"),
    "silent": ({"silent": True}, OSError, "does not answer"),
    "cut": (
        {"headers": {"content-type": "text/plain", "content-length": "99999"}},
        OSError,
        "does not answer",
    ),
    "garbage": ({"body": b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} nine\n'}, ValueError, "nine"),
    "no text": ({"body": b"\xff\xfe" + SMALL}, ValueError, "utf-8"),
    "another exporter's": ({"body": b"node_load1 0.5\n"}, ValueError, "no metric that is known"),
    "empty": ({"body": b""}, ValueError, "no metric that is known"),
    "no devices": (
        {"body": b'DCGM_FI_DEV_GPU_UTIL{gpu="-1"} 9\nDCGM_FI_DEV_GPU_UTIL{gpu="99"} 9\n'},
        ValueError,
        "no metric that is known",
    ),
    "too many": ({"body": b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 9\n' * 20_000}, ValueError, "16384"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_page_of_metrics_is_unknown(
    exporter: Served, probe: DcgmProbe, name: str
) -> None:
    changes, error, words = BAD[name]
    for attribute, value in changes.items():
        setattr(exporter, attribute, value)
    with pytest.raises(error, match=words):
        rows_of(probe)
    healthy = {"status": 200, "body": SMALL, "drip": b"", "silent": False}
    exporter.headers = {"content-type": "text/plain"}
    for attribute, value in healthy.items():
        setattr(exporter, attribute, value)
    assert len(rows_of(probe)) == 1, "it reads again"


def test_an_exporter_that_is_not_there_is_unknown(clock: HandClock) -> None:
    with served() as endpoint:
        url = endpoint.url
    probe = DcgmProbe(clock, url)
    with pytest.raises(OSError, match="does not answer"):
        rows_of(probe)
    assert probe.supported(), "whoever named it learns of it"


def test_values_that_never_change_are_not_of_now(
    exporter: Served, probe: DcgmProbe, clock: HandClock
) -> None:
    rows_of(probe)
    clock.advance(STALE_SECONDS)
    rows_of(probe)
    clock.advance(1.0)
    with pytest.raises(OSError, match="have not changed for 300 s"):
        rows_of(probe)
    exporter.body = page({0: {**HEALTHY, "DCGM_FI_DEV_POWER_USAGE": 651.5}})
    assert len(rows_of(probe)) == 1


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://127.0.0.1:9400", "http://127.0.0.1:9400/metrics"),
        ("http://[::1]:9400/", "http://[::1]:9400/metrics"),
        ("http://gpu-7:9400/other", "http://gpu-7:9400/other"),
    ],
)
def test_a_url_without_a_path_means_its_metrics(url: str, wanted: str) -> None:
    assert checked_url(url) == wanted


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9400", "file:///etc/passwd", "http://", "http://[::1", "http://u:p@h/"]
)
def test_what_is_no_url_is_refused_and_no_password_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        checked_url(url)
    assert "u:p" not in str(refused.value) and "--dcgm" in str(refused.value)


def devices_of(agent: Agent, holds: Callable[[Rows], bool], description: str) -> Rows:
    """The DEVICE rows of the first segment in which that holds."""

    def tables() -> dict[Kind, Rows] | None:
        round_of(agent)
        newest = spooled(agent)[-1]
        return newest if Kind.DEVICE in newest and holds(newest[Kind.DEVICE]) else None

    return until(description, tables)[Kind.DEVICE]


def test_what_nvml_reports_wins_and_the_rest_is_filled_in(
    exporter: Served, driver: Driver, tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for number, device in enumerate(driver.devices):
        device |= {"pci_bus": 0x3C + number, "temperature": 40}
        del device["power"]
    driver.write()
    degraded = {**HEALTHY, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1.0}
    exporter.body = page({0: degraded, 1: degraded})
    rank = Rank(tmp_path / "rings")
    rank.steps(3)
    agent = make_agent(dcgm=exporter.url)
    rows = devices_of(agent, lambda rows: len(rows) == 3, "both sources are read")
    assert rows["address"].tolist() == [b"0000:3c:00", b"0000:3d:00", b"0000:3b:00"]
    assert rows["device"].tolist() == [0, 1, 2], "no number twice"
    assert rows["temperature_celsius"].tolist() == [40.0, 40.0, 61.0], "nvml wins"
    assert rows["power_watts"].tolist()[0] == 650.25, "and what it does not report is filled in"
    assert rows["activity"].tolist() == [
        Activity.DCGM,
        Activity.NOT_SUPPORTED,
        Activity.DCGM,
    ]

    def failed() -> list[str]:
        round_of(agent)
        present = agent.readings.facts.present()
        return [fact.key.subject for fact in present if fact.name == "row-remap-failed"]

    assert until("the fault of the device that nvml does not read", failed) == ["0000:3b:00"]
    text = generate_latest(agent.registry).decode()
    line = 'stepwatch_node_device_temperature_celsius{device="0000:3c:00",node="n1"} 40.0'
    assert line in text
    tensor = 'stepwatch_node_device_tensor_active_ratio{device="0000:3b:00",node="n1"} '
    assert f"{tensor}0.4" in text
    rank.ring.close()


def test_without_a_driver_the_exporter_alone_is_read(
    exporter: Served, tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    rank = Rank(tmp_path / "rings")
    rank.steps(3)
    agent = make_agent(dcgm=exporter.url)
    rows = devices_of(agent, lambda rows: len(rows) == 2, "the exporter is read")
    assert rows["busy_ratio"].tolist() == pytest.approx([0.97, 0.97])
    exporter.status = 500

    def unknown() -> bool:
        round_of(agent)
        return agent.readings.unknown.get("dcgm") == "unreadable"

    until("it is unknown", unknown)
    assert Kind.DEVICE not in spooled(agent)[-1]
    assert "stepwatch_node_device_busy_ratio{" not in generate_latest(agent.registry).decode()
    rank.ring.close()


def test_without_a_url_there_is_no_probe(make_agent: Callable[..., Agent]) -> None:
    assert "dcgm" not in [probe.name for probe in make_agent().readings.probes]

"""Activity of devices by the driver's performance monitoring, and what is unknown of it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.probes.gpm import GpmProbe
from stepwatch.signals.records import Activity, Kind
from stepwatch.signals.wire import Rows
from tests.agent.conftest import Rank, round_of, spooled
from tests.agent.probes import rows_of
from tests.agent.probes.nvml.scripted import Driver
from tests.collector.made import HandClock
from tests.waiting import until

pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

MEBIBYTE = 1 << 20
METRICS = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: 91.5,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 42.0,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 63.0,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: 1000.0,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: 2000.0,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 30.0,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 40.0,
}
HOPPER = {"gpm": 1, **{f"gpm{number}": round(1000 * value) for number, value in METRICS.items()}}
VALUES = {
    "sm_active_ratio": 0.915,
    "tensor_active_ratio": 0.42,
    "dram_active_ratio": 0.63,
    "nvlink_received_bytes_per_second": 1000.0 * MEBIBYTE,
    "nvlink_sent_bytes_per_second": 2000.0 * MEBIBYTE,
    "pcie_received_bytes_per_second": 30.0 * MEBIBYTE,
    "pcie_sent_bytes_per_second": 40.0 * MEBIBYTE,
}


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1000.0)


@pytest.fixture
def probe(driver: Driver, clock: HandClock) -> Iterator[GpmProbe]:
    """Of two devices with performance monitoring."""
    for device in driver.devices:
        device |= HOPPER
    driver.write()
    gpm_probe = GpmProbe(clock)
    yield gpm_probe
    gpm_probe.close()


@pytest.fixture
def live_samples(library: Path) -> Callable[[], int]:
    """How many samples the driver holds."""
    count: Callable[[], int] = ctypes.CDLL(str(library)).stepwatch_samples
    return count


def later(probe: GpmProbe, clock: HandClock, seconds: float = 1.0) -> Rows:
    clock.advance(seconds)
    return rows_of(probe)


def activities(rows: Rows) -> list[Activity]:
    return [Activity(number) for number in rows["activity"].tolist()]


def test_two_samples_give_values_in_base_units(probe: GpmProbe, clock: HandClock) -> None:
    assert probe.supported()
    first = rows_of(probe)
    assert activities(first) == [Activity.UNKNOWN] * 2
    assert all(math.isnan(first[0][name]) for name in VALUES), "one sample is not a value"
    rows = later(probe, clock)
    assert activities(rows) == [Activity.GPM] * 2
    assert {name: float(rows[1][name]) for name in VALUES} == pytest.approx(VALUES)
    assert math.isnan(rows[0]["busy_ratio"]) and int(rows[0]["lost"]) == -1, "not its to say"


def test_what_one_metric_lacks_the_others_keep(
    driver: Driver, probe: GpmProbe, clock: HandClock
) -> None:
    rows_of(probe)
    del driver.devices[0][f"gpm{pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL}"]
    driver.devices[0][f"gpm{pynvml.NVML_GPM_METRIC_SM_UTIL}"] = 250_000
    driver.write()
    row = later(probe, clock)[0]
    assert math.isnan(row["tensor_active_ratio"]) and math.isnan(row["sm_active_ratio"])
    assert row["dram_active_ratio"] == pytest.approx(0.63)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"gpm": 0}, Activity.NOT_SUPPORTED),
        ({"mig": 1}, Activity.DIVIDED),
        ({"gpm_refuses": 1}, Activity.REFUSED),
        ({"lost": 1}, Activity.NOT_SUPPORTED),
    ],
    ids=str,
)
def test_what_cannot_be_measured_has_its_reason(
    driver: Driver,
    probe: GpmProbe,
    clock: HandClock,
    live_samples: Callable[[], int],
    values: dict[str, int],
    reason: Activity,
) -> None:
    rows_of(probe)
    healthy = dict(driver.devices[0])
    driver.devices[0] |= values
    driver.write()
    rows = later(probe, clock)
    assert activities(rows) == [reason, Activity.GPM]
    assert all(math.isnan(rows[0][name]) for name in VALUES)
    assert live_samples() == 1, "of the other device"
    driver.devices[0] = healthy
    driver.write()
    assert activities(later(probe, clock)) == [Activity.UNKNOWN, Activity.GPM], "it begins anew"
    assert activities(later(probe, clock)) == [Activity.GPM] * 2


def test_samples_are_freed(
    probe: GpmProbe, clock: HandClock, live_samples: Callable[[], int]
) -> None:
    for _ in range(50):
        later(probe, clock)
    assert live_samples() == 2, "one for each device"
    probe.close()
    assert live_samples() == 0


def test_a_driver_that_is_reloaded_begins_anew(
    driver: Driver, probe: GpmProbe, clock: HandClock, live_samples: Callable[[], int]
) -> None:
    rows_of(probe)
    assert activities(later(probe, clock)) == [Activity.GPM] * 2
    driver.generation += 1
    driver.write()
    assert activities(later(probe, clock)) == [Activity.UNKNOWN] * 2
    assert live_samples() == 2, "those of the old session are freed"
    assert activities(later(probe, clock)) == [Activity.GPM] * 2


def test_two_samples_too_close_are_no_value(
    probe: GpmProbe, clock: HandClock, live_samples: Callable[[], int]
) -> None:
    rows_of(probe)
    assert activities(later(probe, clock, 0.05)) == [Activity.UNKNOWN] * 2
    assert activities(later(probe, clock, 0.06)) == [Activity.GPM] * 2
    assert live_samples() == 2


def test_a_driver_that_is_gone_is_unknown(
    driver: Driver, probe: GpmProbe, tmp_path: Path, live_samples: Callable[[], int]
) -> None:
    rows_of(probe)
    driver.generation += 1
    (tmp_path / "driver.txt").unlink()
    assert not probe.supported()
    with pytest.raises(OSError, match="driver"):
        rows_of(probe)
    assert live_samples() == 0


def test_activity_goes_into_the_row_of_its_device(
    driver: Driver, tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    for number, device in enumerate(driver.devices):
        device |= {**HOPPER, "pci_bus": 0x3B + number}
    driver.write()
    rank = Rank(tmp_path / "rings")
    rank.steps(3)
    agent = make_agent()

    def measured() -> dict[Kind, Rows] | None:
        round_of(agent)
        tables = spooled(agent)[-1]
        rows = tables.get(Kind.DEVICE, ())
        return tables if [int(row["activity"]) for row in rows] == [Activity.GPM] * 2 else None

    rows = until("both devices are measured", measured)[Kind.DEVICE]
    assert rows["device"].tolist() == [0, 1]
    assert rows["busy_ratio"].tolist() == pytest.approx([0.97, 0.97]), "from nvml"
    assert rows["tensor_active_ratio"].tolist() == pytest.approx([0.42, 0.42]), "from gpm"
    rank.ring.close()

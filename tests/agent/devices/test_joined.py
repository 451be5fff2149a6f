"""Readings of devices by several probes become one row each, and one series each on /metrics."""

from __future__ import annotations

import math

from stepwatch.agent.devices.exported import device_gauges
from stepwatch.agent.devices.joined import joined
from stepwatch.agent.devices.limits import MOST
from stepwatch.agent.devices.rows import name_of
from stepwatch.signals.names import DEVICE_METRICS
from stepwatch.signals.records import DTYPES, Activity, Kind, make_rows
from stepwatch.signals.wire import Rows


def reading(*addresses: str, **values: float) -> Rows:
    """Rows of devices at these addresses, all with these values."""
    rows = make_rows(Kind.DEVICE, len(addresses), device=range(len(addresses)))
    rows["address"] = [address.encode() for address in addresses]
    for name, value in values.items():
        rows[name] = value
    return rows


def test_no_reading_is_no_device() -> None:
    assert len(joined([])) == 0 and joined([]).dtype == DTYPES[Kind.DEVICE]


def test_the_first_that_knows_a_value_is_right_whatever_the_order_of_devices() -> None:
    nvml = reading("a", "b", busy_ratio=0.5, rank=3)
    gpm = reading("b", "a", tensor_active_ratio=0.25, activity=Activity.GPM)
    dcgm = reading("b", busy_ratio=0.9, power_watts=7.0, tensor_active_ratio=0.75)
    dcgm["activity"] = Activity.DCGM
    rows = joined([nvml, gpm, dcgm])
    assert rows["address"].tolist() == [b"a", b"b"] and rows["rank"].tolist() == [3, 3]
    assert rows["busy_ratio"].tolist() == [0.5, 0.5]
    assert rows["tensor_active_ratio"].tolist() == [0.25, 0.25]
    assert rows["activity"].tolist() == [Activity.GPM] * 2
    assert math.isnan(rows["power_watts"][0]) and rows["power_watts"][1] == 7.0
    assert math.isnan(nvml["power_watts"][1]), "the reading itself stays as it was"


def test_zero_is_a_value_and_is_not_filled_in() -> None:
    nvml = reading("a", busy_ratio=0.0, throttle=0, mig=0)
    (row,) = joined([nvml, reading("a", busy_ratio=1.0, throttle=4, mig=1)])
    assert (row["busy_ratio"], row["throttle"], row["mig"]) == (0.0, 0, 0)


def test_who_measured_replaces_a_reason_why_nobody_did() -> None:
    gpm = reading("a", activity=Activity.NOT_SUPPORTED)
    (row,) = joined([gpm, reading("a", activity=Activity.DCGM, sm_active_ratio=0.5)])
    assert row["activity"] == Activity.DCGM and row["sm_active_ratio"] == 0.5
    (row,) = joined([gpm, reading("a")])
    assert row["activity"] == Activity.NOT_SUPPORTED


def test_nothing_is_filled_in_of_a_device_that_is_lost() -> None:
    (row,) = joined([reading("a", lost=1), reading("a", busy_ratio=0.9)])
    assert row["lost"] == 1 and math.isnan(row["busy_ratio"])


def test_without_an_address_the_number_says_which_device_it_is() -> None:
    rows = joined([reading("", "", busy_ratio=0.5), reading("a", "b", power_watts=7.0)])
    assert rows["device"].tolist() == [0, 1] and rows["power_watts"].tolist() == [7.0, 7.0]
    assert [name_of(row) for row in rows] == ["device 0", "device 1"]


def test_two_devices_never_have_one_number() -> None:
    rows = joined([reading("a", "b"), reading("c", "a", "d")])
    assert rows["address"].tolist() == [b"a", b"b", b"c", b"d"]
    assert rows["device"].tolist() == [0, 1, 2, 3]


def test_metrics_leave_out_what_is_unknown_and_keep_what_is_zero() -> None:
    row = reading("0000:3b:00", busy_ratio=0.0, xid=0, lost=-1, power_watts=math.inf)
    values_by_metric = {gauge.metric: (gauge.labels, gauge.value) for gauge in device_gauges(row)}
    assert values_by_metric == {
        DEVICE_METRICS["busy_ratio"]: (("0000:3b:00",), 0.0),
        DEVICE_METRICS["xid"]: (("0000:3b:00",), 0.0),
    }


def test_every_metric_is_of_a_field_that_there_is() -> None:
    assert DEVICE_METRICS.keys() <= set(DTYPES[Kind.DEVICE].names or ())
    assert all(most > 0 for most in MOST.values())

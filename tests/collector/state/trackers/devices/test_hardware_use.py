"""Means of devices and interfaces over an attempt, however their rows come in."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.devices.hardware_use import HardwareUse, Traffic
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Activity, Kind, make_rows
from stepwatch.signals.wire import Segment
from tests.collector.made import EPOCH, JOB, segment, state_rows

LINK = 8_000_000_000


def readings(second: int, devices: int = 2) -> dict[Kind, np.ndarray]:
    """Device 0 is busy in every other reading, device 1 does not say; 100 MB/s come in."""
    device = make_rows(
        Kind.DEVICE,
        devices,
        device=range(devices),
        rank=range(devices),
        time_ns=second * 10**9,
        busy_ratio=[float(second % 2), *[np.nan] * (devices - 1)],
    )
    nic = make_rows(
        Kind.NIC,
        2,
        interface=[b"eth0", b""],
        time_ns=second * NANOSECONDS,
        received_bytes=100_000_000 * second,
        sent_bytes=1_000 * second,
        speed_bits_per_second=LINK,
    )
    return {Kind.DEVICE: device, Kind.NIC: nic}


def folded(segments: list[Segment], at_once: int) -> HardwareUse:
    job = LiveJob(JOB)
    for number, item in enumerate(segments, 1):
        job.append(item, Received(EPOCH + number, float(number)))
        if not number % at_once:
            job.fold()
    job.fold()
    return job.current.tracker(HardwareUse)


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_means_do_not_depend_on_how_rows_come(at_once: int) -> None:
    segments = [
        segment(
            second + 1, {**readings(second), Kind.RANK_STATE: state_rows(range(2), 2, second + 1.0)}
        )
        for second in range(10)
    ]
    use = folded(segments, at_once)
    assert use.busy_ratio.tolist() == [0.5]
    assert use.devices == 2
    (traffic,) = use.traffic()
    assert traffic == Traffic("node-0", "eth0", traffic.bytes_per_second, LINK / 8)
    assert traffic.bytes_per_second == pytest.approx(1e8)


def test_a_counter_that_begins_anew_is_no_traffic() -> None:
    back = readings(9)
    back[Kind.NIC]["received_bytes"], back[Kind.NIC]["time_ns"] = 5, 10 * NANOSECONDS
    use = folded([segment(1, readings(8)), segment(2, readings(9)), segment(3, back)], 1)
    assert use.traffic()[0].bytes_per_second == pytest.approx(1e8)


def test_what_nobody_reads_is_not_there() -> None:
    use = HardwareUse()
    assert not len(use.busy_ratio) and not use.devices and use.traffic() == []


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_tensor_activity_and_who_measured_it(at_once: int) -> None:
    segments = []
    for second in range(9):
        rows = readings(second, devices=4)[Kind.DEVICE]
        rows["activity"] = [Activity.GPM, Activity.DCGM, Activity.NOT_SUPPORTED, 99]
        rows["tensor_active_ratio"] = [0.1 * (second % 3), 0.5, np.nan, 7.0]
        rows["mig"] = [0, -1, 1, -1]
        segments.append(segment(second + 1, {Kind.DEVICE: rows}))
    use = folded(segments, at_once)
    assert use.tensor_ratio.tolist() == pytest.approx([0.1, 0.5])
    assert use.activity == {
        Activity.GPM: 1,
        Activity.DCGM: 1,
        Activity.NOT_SUPPORTED: 1,
        Activity.UNKNOWN: 1,
    }
    assert use.divided == 1

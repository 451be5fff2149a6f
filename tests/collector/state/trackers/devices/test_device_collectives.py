"""DEVICE_COLLECTIVE rows beside the host's: what the compute streams stood at a collective."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.collective_timing import waits
from stepwatch.collector.state.trackers.devices.device_collectives import (
    DeviceCalls,
    DeviceCollectives,
)
from stepwatch.signals.records import Op
from stepwatch.signals.wire import Rows
from tests.collector.gathered import call_rows, device_call_rows, group_rows, records_of


def device_rows(steps: list[int], exposed: dict[int, float], group: int = 7) -> Rows:
    """One all-gather of four calls, all timed; `exposed` seconds by rank."""
    host = call_rows(steps, exposed, group)
    return device_call_rows(host, host["exposed_ns"] / 1e9)


def device(*tables: Rows, world: int = 4) -> DeviceCollectives:
    """What the collector holds after these rows."""
    device_collectives = DeviceCollectives()
    for rows in tables:
        device_collectives.add(rows, world)
    return device_collectives


def test_the_devices_time_stands_in_place_of_the_hosts() -> None:
    """On the host rank 0 waits longest; its device arrives last: the others wait for it."""
    host = records_of(call_rows([3, 4], {0: 0.5, 1: 0.01, 2: 0.01}), group_rows(7, [0, 1, 2]))
    calls = DeviceCalls(host, device(device_rows([3, 4], {0: 0.1, 1: 0.4, 2: 0.4})))
    call_waits = waits(calls.of_steps(0, 10), calls.groups)
    assert call_waits.last_rank.tolist() == [0, 0]
    assert call_waits.transfer.tolist() == pytest.approx([0.1] * 6)
    assert call_waits.wait.tolist() == pytest.approx([0.0, 0.3, 0.3] * 2)
    assert call_waits.rows["bytes"].tolist() == [1000.0] * 6, "the host's record has the bytes"


def test_a_member_without_a_device_row_leaves_the_transfer_unknown() -> None:
    host = records_of(call_rows([3], {0: 0.5, 1: 0.01, 2: 0.01}), group_rows(7, [0, 1, 2]))
    calls = DeviceCalls(host, device(device_rows([3], {0: 0.1, 1: 0.4})))
    call_waits = waits(calls.of_steps(0, 10), calls.groups)
    assert (len(call_waits.rows), bool(np.isnan(call_waits.transfer).all())) == (2, True)


def test_sampled_calls_stand_for_all() -> None:
    rows = device_rows([3], {0: 0.1})
    rows["timed"] = 1
    calls = DeviceCalls(records_of(call_rows([3], {0: 0.5})), device(rows))
    assert calls.of_steps(3, 3)["exposed"].tolist() == pytest.approx([0.4])


def test_of_a_row_that_came_twice_the_last_one_counts() -> None:
    twice = device(device_rows([3], {0: 0.1}), device_rows([3], {0: 0.2}))
    calls = DeviceCalls(records_of(call_rows([3], {0: 0.5})), twice)
    assert calls.of_steps(3, 3)["exposed"].tolist() == pytest.approx([0.2])


def test_groups_and_operations_are_told_apart() -> None:
    more = {5: 10.0, 1 << 31: 20.0}
    host = records_of(
        np.concatenate([call_rows([8, 9], {0: 1.0, 3: 2.0}, group) for group in (0, *more)])
    )
    rows = [
        device_rows([9, 8], {3: 3 + delay, 0: 1 + delay}, group) for group, delay in more.items()
    ]
    barrier_rows = device_rows([8], {0: 9.0}, 5)
    barrier_rows["op"] = Op.BARRIER
    device_records = DeviceCalls(host, device(*rows, barrier_rows)).of_steps(0, 20)
    assert len(device_records) == 8, "the group without device rows is left out"
    expected = np.where(device_records["group"] == 5, 10.0, 20.0) + np.where(
        device_records["rank"] == 3, 3.0, 1.0
    )
    np.testing.assert_allclose(device_records["exposed"], expected)
    assert set(device_records["step"].tolist()) == {8, 9}


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [
        ("rank", 4, 1),
        ("rank", -1, 1),
        ("op", 99, 1),
        ("timed", 5, 1),
        ("exposed_seconds", -1.0, 1),
        ("exposed_seconds", np.inf, 1),
        ("exposed_seconds", np.nan, 0),
        ("timed", 0, 0),
    ],
)
def test_impossible_rows_are_refused_and_unknown_ones_left_out(
    field: str, value: float, refused: int
) -> None:
    device_collectives, rows = DeviceCollectives(), device_rows([3], {0: 0.1})
    rows[field] = value
    assert device_collectives.add(rows, 4) == refused
    assert len(device_collectives.of_steps(0, 10)) == 0


def test_nothing_is_held_before_the_first_row() -> None:
    device_collectives = DeviceCollectives()
    assert device_collectives.cells == 0
    assert len(device_collectives.of_steps(0, 10)) == 0
    assert (
        len(DeviceCalls(records_of(call_rows([3], {0: 0.5})), device_collectives).of_steps(0, 10))
        == 0
    )

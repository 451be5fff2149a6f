"""DEVICE_COLLECTIVE rows beside the host's: what the compute streams stood at a collective."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.collective_timing import waits
from stepwatch.collector.state.trackers.devices.device_collectives import (
    DeviceCalls,
    DeviceCollectives,
)
from stepwatch.signals.records import DTYPES, Kind, Op
from stepwatch.signals.wire import Rows
from tests.collector.gathered import call_rows, group_rows, kept


def device_rows(steps: list[int], exposed: dict[int, float], group: int = 7) -> Rows:
    """One all-gather of four calls, all timed; `exposed` seconds by rank."""
    host = call_rows(steps, exposed, group)
    rows = np.zeros(len(host), dtype=DTYPES[Kind.DEVICE_COLLECTIVE])
    for name in ("step", "rank", "group", "op", "count"):
        rows[name] = host[name]
    rows["timed"], rows["exposed_seconds"] = host["count"], host["exposed_ns"] / 1e9
    return rows


def device(*tables: Rows, world: int = 4) -> DeviceCollectives:
    """What the collector holds after these rows."""
    found = DeviceCollectives()
    for rows in tables:
        found.add(rows, world)
    return found


def test_the_devices_time_stands_in_place_of_the_hosts() -> None:
    """On the host rank 0 waits longest; its device arrives last: the others wait for it."""
    host = kept(call_rows([3, 4], {0: 0.5, 1: 0.01, 2: 0.01}), group_rows(7, [0, 1, 2]))
    calls = DeviceCalls(host, device(device_rows([3, 4], {0: 0.1, 1: 0.4, 2: 0.4})))
    found = waits(calls.of_steps(0, 10), calls.groups)
    assert found.last_rank.tolist() == [0, 0]
    assert found.transfer.tolist() == pytest.approx([0.1] * 6)
    assert found.wait.tolist() == pytest.approx([0.0, 0.3, 0.3] * 2)
    assert found.rows["bytes"].tolist() == [1000.0] * 6, "the host's record has the bytes"


def test_a_member_without_a_device_row_leaves_the_transfer_unknown() -> None:
    host = kept(call_rows([3], {0: 0.5, 1: 0.01, 2: 0.01}), group_rows(7, [0, 1, 2]))
    calls = DeviceCalls(host, device(device_rows([3], {0: 0.1, 1: 0.4})))
    found = waits(calls.of_steps(0, 10), calls.groups)
    assert (len(found.rows), bool(np.isnan(found.transfer).all())) == (2, True)


def test_sampled_calls_stand_for_all() -> None:
    rows = device_rows([3], {0: 0.1})
    rows["timed"] = 1
    calls = DeviceCalls(kept(call_rows([3], {0: 0.5})), device(rows))
    assert calls.of_steps(3, 3)["exposed"].tolist() == pytest.approx([0.4])


def test_of_a_row_that_came_twice_the_last_one_counts() -> None:
    twice = device(device_rows([3], {0: 0.1}), device_rows([3], {0: 0.2}))
    calls = DeviceCalls(kept(call_rows([3], {0: 0.5})), twice)
    assert calls.of_steps(3, 3)["exposed"].tolist() == pytest.approx([0.2])


def test_groups_and_operations_are_told_apart() -> None:
    more = {5: 10.0, 1 << 31: 20.0}
    host = kept(np.concatenate([call_rows([8, 9], {0: 1.0, 3: 2.0}, at) for at in (0, *more)]))
    rows = [device_rows([9, 8], {3: 3 + by, 0: 1 + by}, at) for at, by in more.items()]
    other = device_rows([8], {0: 9.0}, 5)
    other["op"] = Op.BARRIER
    found = DeviceCalls(host, device(*rows, other)).of_steps(0, 20)
    assert len(found) == 8, "the group without device rows is left out"
    expected = np.where(found["group"] == 5, 10.0, 20.0) + np.where(found["rank"] == 3, 3.0, 1.0)
    np.testing.assert_allclose(found["exposed"], expected)
    assert set(found["step"].tolist()) == {8, 9}


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
    found, rows = DeviceCollectives(), device_rows([3], {0: 0.1})
    rows[field] = value
    assert found.add(rows, 4) == refused
    assert len(found.of_steps(0, 10)) == 0


def test_nothing_is_held_before_the_first_row() -> None:
    found = DeviceCollectives()
    assert found.cells == 0
    assert len(found.of_steps(0, 10)) == 0
    assert len(DeviceCalls(kept(call_rows([3], {0: 0.5})), found).of_steps(0, 10)) == 0

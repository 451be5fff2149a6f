"""How busy devices are, with the activity of their tensor cores beside it, or why it is unknown."""

from __future__ import annotations

import pytest

from stepwatch.collector.slo.over_run.sli import Reading
from stepwatch.signals.records import Activity, Kind, make_rows
from tests.collector.made import segment, state_rows, step_rows
from tests.collector.slo.test_run_slis import RANKS, WORLD, read_slis

NAN = float("nan")


def readings(devices: list[tuple[Activity, float, float, int]]) -> dict[str, Reading]:
    """SLIs of a run with devices of (activity, busy, tensor, divided)."""
    rows = make_rows(Kind.DEVICE, len(devices), device=range(len(devices)), time_ns=10**9)
    for row, (activity, busy, tensor, divided) in zip(rows, devices, strict=True):
        row["activity"], row["busy_ratio"] = activity, busy
        row["tensor_active_ratio"], row["mig"] = tensor, divided
    steps = step_rows(range(20), RANKS)
    tables = {Kind.STEP: steps, Kind.RANK_STATE: state_rows(RANKS, WORLD, 4.0, 19)}
    return read_slis([segment(1, {**tables, Kind.DEVICE: rows} if devices else tables)], 5.0)


def test_tensor_activity_stands_beside_how_busy_they_are() -> None:
    by_name = readings(
        [
            (Activity.GPM, 1.0, 0.2, 0),
            (Activity.DCGM, 0.9, 0.4, 0),
            (Activity.NOT_SUPPORTED, 0.8, NAN, 0),
        ]
    )
    busy, tensor = by_name["device-busy"], by_name["tensor-activity"]
    assert busy.value == pytest.approx(0.9)
    assert tensor.value == pytest.approx(0.3)
    assert busy.detail == "least busy 80%; tensor cores 30%"
    assert (tensor.events, tensor.detail) == (2, "by GPM on 1, DCGM on 1, of 3 devices")


@pytest.mark.parametrize(
    ("devices", "busy", "tensor"),
    [
        (
            [(Activity.NOT_SUPPORTED, 0.5, NAN, 0)] * 2,
            "",
            "of 2 devices none reports it; 2: no GPM (Hopper or later): pass --dcgm to the agent",
        ),
        (
            [(Activity.DIVIDED, NAN, NAN, 1)] * 2,
            "of 2 devices none reports its use; 2 are divided (MIG)",
            "of 2 devices none reports it; 2: divided (MIG)",
        ),
        (
            [(Activity.REFUSED, NAN, NAN, -1)],
            "of 1 devices none reports its use",
            "of 1 devices none reports it; 1: their driver gave no sample",
        ),
        (
            [(Activity.UNKNOWN, 0.5, NAN, -1)],
            "",
            "of 1 devices none reports it",
        ),
        (
            [],
            "no agent reads a device: no GPU, or no driver",
            "no agent reads a device: no GPU, or no driver",
        ),
    ],
)
def test_what_is_unknown_says_why(
    devices: list[tuple[Activity, float, float, int]], busy: str, tensor: str
) -> None:
    by_name = readings(devices)
    assert (by_name["device-busy"].unknown, by_name["tensor-activity"].unknown) == (busy, tensor)
    if not busy:
        assert by_name["device-busy"].detail == "least busy 50%; tensor cores unknown"

"""A replay gives the collector's incidents, and can leave out all records of the devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import DeviceState, Kind
from stepwatch.signals.wire import Segment, SegmentKey
from tests.collector.made import (
    JOB,
    HandClock,
    device_step_rows,
    host_ahead_rows,
    state_rows,
    timing_rows,
)
from tests.verdicts.device.replay import replay, without_devices

RANKS, STEPS = range(4), 60
SLOW = 2


def segments(clock: HandClock) -> list[Segment]:
    """Return one step a segment: the host runs ahead, and one device is slow from step 20."""
    sequence = []
    for step in range(STEPS):
        clock.advance(0.2)
        excess = {(SLOW, "forward"): 0.2} if step >= 20 else {}
        tables = {
            Kind.STEP: host_ahead_rows([step], RANKS),
            Kind.DEVICE_STEP: device_step_rows([step], RANKS, excess=excess),
            Kind.RANK_STATE: state_rows(RANKS, len(RANKS), clock.monotonic, step),
        }
        if not step:
            tables[Kind.LIFECYCLE] = timing_rows(RANKS)
        tables[Kind.RANK_STATE]["device_state"] = DeviceState.WORKING
        sequence.append(Segment(SegmentKey(JOB, 0, "n0", 1, step), ClockPair.now(clock), tables))
    return sequence


def stored(folder: Path) -> tuple[Path, int]:
    """Return a store that received the segments in order, and the time of the last one in ns."""
    path, clock = folder / "run.db", HandClock()
    store = Store.sqlite(path)
    service = Service(store, clock)
    for segment in segments(HandClock()):
        clock.advance(0.2)
        service.receive(wire.encode(segment))
    store.close()
    return path, clock.wall_ns()


def test_only_the_devices_show_a_slow_device(tmp_path: Path) -> None:
    path, end = stored(tmp_path)
    host = replay(path, JOB, tmp_path / "host.db", end, devices=False)
    device = replay(path, JOB, tmp_path / "device.db", end, devices=True)
    assert host.incidents == []
    assert host.window.clock == "host"
    assert [(item["kind"], item["rank"]) for item in device.incidents] == [("straggler", SLOW)]
    assert device.window.clock == "device"


def test_what_came_later_is_left_out(tmp_path: Path) -> None:
    path, end = stored(tmp_path)
    cutoff_ns = end - 40 * NANOSECONDS // 5
    replayed = replay(path, JOB, tmp_path / "early.db", cutoff_ns, devices=True)
    assert replayed.incidents == []
    assert replayed.window.steps[-1] == STEPS - 41


def test_a_segment_without_devices_keeps_all_else() -> None:
    first = segments(HandClock())[0]
    shown = without_devices(first)
    assert set(shown.tables) == {Kind.STEP, Kind.RANK_STATE}
    assert np.array_equal(shown.tables[Kind.STEP], first.tables[Kind.STEP])
    assert not shown.tables[Kind.RANK_STATE]["device_state"].any()
    assert first.tables[Kind.RANK_STATE]["device_state"].all()

"""Evaluates the stored segments of a run again, with or without the devices' records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.store import Store, StoredPayload
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DeviceState, Kind, LifecycleEvent
from stepwatch.signals.wire import Segment

EVALUATION_NS = NANOSECONDS
WINDOW_STEPS = 32


class ReplayClock:
    """The replay's present moment, in ns of wall time."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        """Return the wall time in ns: the clock of a replay is never set."""
        return self.now_ns

    def wall_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        return self.now_ns


class Replayed(NamedTuple):
    """Incidents as documents, and the newest steps."""

    incidents: list[dict[str, Any]]
    window: Window


def replay(stored: Path, job: str, scratch: Path, until_ns: int, *, devices: bool) -> Replayed:
    """Evaluate `job` from the store at `stored`, once a second of its reception time.

    Without `devices`, the records are those of hooks that time only the host. Payloads received
    after `until_ns` are left out. `scratch` is a file for the replay's store.
    """
    source, target, clock = Store.sqlite(stored), Store.sqlite(scratch), ReplayClock()
    try:
        service = Service(target, clock)
        payloads = (payload for payload in source.segments(job) if payload.received_ns <= until_ns)
        for payload in payloads:
            evaluate_until(service, clock, payload.received_ns)
            for segment in _shown(payload, devices=devices):
                service.receive(wire.encode(segment))
        evaluate_until(service, clock, until_ns)
        entry = service.job(job)
        assert entry is not None, f"{stored} holds nothing of {job}"
        return Replayed(target.incidents.newest(job), entry[0].current.window(WINDOW_STEPS))
    finally:
        source.close()
        target.close()


def without_devices(segment: Segment) -> Segment:
    """Return the segment as hooks without device timing would send it."""
    tables = dict(segment.tables)
    for kind in (Kind.DEVICE_STEP, Kind.DEVICE_COLLECTIVE):
        tables.pop(kind, None)
    if Kind.LIFECYCLE in tables:
        rows = tables[Kind.LIFECYCLE]
        tables[Kind.LIFECYCLE] = rows[rows["event"] != LifecycleEvent.DEVICE_TIMING]
    if Kind.RANK_STATE in tables:
        rows = np.copy(tables[Kind.RANK_STATE])
        rows["device_state"] = DeviceState.UNKNOWN
        tables[Kind.RANK_STATE] = rows
    return segment._replace(tables={kind: rows for kind, rows in tables.items() if len(rows)})


def _shown(payload: StoredPayload, *, devices: bool) -> Iterator[Segment]:
    segment = wire.decode(payload.payload)
    shown = segment if devices else without_devices(segment)
    if shown.tables:
        yield shown


def evaluate_until(service: Service, clock: ReplayClock, until_ns: int) -> None:
    """Evaluate at each whole second that was not evaluated yet, then advance to `until_ns`."""
    due_ns = (clock.now_ns // EVALUATION_NS + 1) * EVALUATION_NS if clock.now_ns else until_ns
    for clock.now_ns in range(due_ns, until_ns + 1, EVALUATION_NS):
        service.evaluate()
    clock.now_ns = until_ns

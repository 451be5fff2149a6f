"""A trainer's metrics that are tensors on the device: read late, never waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from stepwatch.hooks import Watch
from stepwatch.signals.records import METRICS_PER_ROW, Kind
from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.gpu.rings import finish, rows_of

STEPS, METRICS, BUSY_SECONDS = 7, 8, 1.0


def check(place: Place) -> Iterator[Finding]:
    """Record eight tensors a step while the device is busy; then compare what arrived."""
    watch = Watch.from_env(job="recorded")
    values = torch.arange(METRICS, dtype=torch.float32, device=place.kind)
    for number in (0, 1):  # the first launch of a kernel loads it, and that waits for the device
        shown = values + number
        with watch.step() as step:
            step.record(**{f"m{index}": shown[index] for index in range(METRICS)})
    place.wait()
    busy = place.event()
    place.spin(BUSY_SECONDS)
    busy.record()
    began = time.perf_counter()
    for number in range(2, STEPS):
        shown = values + number
        with watch.step() as step:
            step.record(**{f"m{index}": shown[index] for index in range(METRICS)})
    seconds = time.perf_counter() - began
    is_busy = not busy.query()
    yield Finding(
        f"{STEPS - 2} steps with {METRICS} metrics on a busy device",
        f"{seconds * 1e3:.1f} ms, the device {'still' if is_busy else 'no longer'} busy",
        "still busy",
        is_busy if place.is_gpu else None,
    )
    finish(watch, place)
    rows = rows_of("recorded", Kind.METRIC)
    arrived = {
        (int(row["step"]), float(row[f"value_{column}"]))
        for row in rows
        for column in range(METRICS_PER_ROW)
        if row[f"name_{column}"]
    }
    expected = {(step, float(index + step)) for step in range(STEPS) for index in range(METRICS)}
    yield Finding(
        "metrics that arrived as recorded",
        f"{len(arrived & expected)} of {len(expected)}",
        "all",
        arrived == expected,
    )

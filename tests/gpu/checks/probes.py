"""The driver's report of this device under load, field by field, and the cost of reading it."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch

from stepwatch.agent.probes.gpm import GpmProbe
from stepwatch.agent.probes.nvml import NvmlProbe
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import UNKNOWN, Activity, Kind
from tests.agent.probes import rows_of
from tests.gpu.finding import Finding
from tests.gpu.place import Place

_WANTED = {
    "nvml": (
        *("busy_ratio", "memory_used_bytes", "clock_hertz", "power_watts"),
        *("temperature_celsius", "ecc_uncorrected", "throttle", "xid"),
    ),
    "gpm": ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
}
"""Fields that each card of today reports."""
_WITHOUT_ANSWER = ("nvmlGpmSampleFree", "nvmlEventSetFree", "nvmlShutdown")
"""Calls that free memory: a repeated call would free it twice."""
READS, BETWEEN_SECONDS = 8, 0.5


def check(place: Place) -> Iterator[Finding]:
    """Read both probes under a load, as the agent does."""
    stop = threading.Event()
    load = threading.Thread(target=_load, args=(place, stop), daemon=True)
    load.start()
    try:
        time.sleep(2.0)
        context = ProbeContext(SystemClock())
        for probe in (NvmlProbe.build(context), GpmProbe.build(context)):
            yield from _read(place, probe)
    finally:
        stop.set()
        load.join()


def _load(place: Place, stop: threading.Event) -> None:
    size = 8192 if place.is_gpu else 64
    first, right = (torch.randn(size, size, device=place.kind, dtype=place.dtype) for _ in range(2))
    while not stop.is_set():
        for _ in range(20):
            torch.matmul(first, right)
        place.wait()


def _read(place: Place, probe: Probe) -> Iterator[Finding]:
    if not probe.supported():
        yield Finding(f"{probe.name}: supported", "no", "yes", False if place.is_gpu else None)
        return
    refused = _listen_to_refusals(probe)
    times, rows = [], None
    for _ in range(READS):
        began = time.perf_counter()
        rows = rows_of(probe)
        times.append(time.perf_counter() - began)
        time.sleep(BETWEEN_SECONDS)
    assert rows is not None
    row = rows[0]
    answers = {name: _plain(row[name]) for name in row.dtype.names if not _is_unknown(row, name)}
    unknown = sorted(name for name in row.dtype.names if _is_unknown(row, name))
    yield Finding(
        f"{probe.name}: one read of {len(rows)} device(s)",
        f"{statistics.median(times) * 1e3:.2f} ms, the first {times[0] * 1e3:.1f} ms",
        figures={"median_seconds": statistics.median(times), "first_seconds": times[0]},
    )
    yield Finding(
        f"{probe.name}: fields known",
        ", ".join(f"{name} {value}" for name, value in answers.items()),
        ", ".join(_WANTED[probe.name]),
        answers.keys() >= set(_WANTED[probe.name]),
        {"known": answers, "unknown": unknown},
    )
    yield Finding(f"{probe.name}: fields unknown", ", ".join(unknown) or "none")
    texts = [f"{name}: {reason} ({count} times)" for (name, reason), count in refused.items()]
    yield Finding(f"{probe.name}: calls that the driver refused", "; ".join(texts) or "none")
    if isinstance(probe, GpmProbe):
        yield Finding(
            "gpm: activity of a device that multiplies matrices",
            f"{Activity(int(row['activity'])).name}: SM {row['sm_active_ratio']:.0%}, "
            f"tensor {row['tensor_active_ratio']:.0%}, DRAM {row['dram_active_ratio']:.0%}",
            "SM and tensor above a half",
            bool(row["sm_active_ratio"] > 0.5 and row["tensor_active_ratio"] > 0.5),
        )
    sightings = [str(sighting) for sighting in getattr(probe, "facts", list)() or ()]
    yield Finding(f"{probe.name}: facts of the device", "; ".join(sightings) or "none")
    probe.close()


def _listen_to_refusals(probe: Any) -> dict[tuple[str, str], int]:
    """Count the driver's error answers, by call."""
    driver, refused = probe._driver, dict[tuple[str, str], int]()
    library = driver.library
    plain = driver.ask

    def ask(name: str, *words: Any, handle: Any = None) -> Any:
        answer = plain(name, *words, handle=handle)
        if answer is None and name not in _WITHOUT_ANSWER:
            try:
                call = getattr(library, name)
                call(*words) if handle is None else call(handle, *words)
            except (library.NVMLError, AttributeError, TypeError) as error:
                key = (
                    name + "".join(f" {word}" for word in words if isinstance(word, int)),
                    str(error),
                )
                refused[key] = refused.get(key, 0) + 1
        return answer

    driver.ask = ask
    return refused


def _is_unknown(row: Any, name: str) -> bool:
    value, unknown = row[name], UNKNOWN[Kind.DEVICE].get(name)
    if isinstance(unknown, float) and math.isnan(unknown):
        return bool(math.isnan(value))
    return unknown is not None and bool(value == unknown)


def _plain(value: Any) -> Any:
    scalar = value.item() if hasattr(value, "item") else value
    return scalar.decode(errors="replace") if isinstance(scalar, bytes) else scalar

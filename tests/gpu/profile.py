"""Device time of each phase from torch.profiler: the reference for the times from events.

CUPTI times each kernel on the device, and names the call on the host that launched it. A kernel
belongs to the mark during which it was launched, by whichever thread.

    mark `forward` on the host  0 .. 3, launches kernels that run 1 .. 5 and 5 .. 9
    mark `backward` on the host 3 .. 4, launches one that runs 9 .. 10

    forward: busy 8, from the previous end (0) to 9; backward: busy 1, from 9 to 10
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_ON_HOST = frozenset({"cuda_runtime", "cuda_driver"})
_US = 1e-6


class Mark(NamedTuple):
    """A stretch of the host's time; all in seconds of the trace's clock."""

    name: str
    begins: float
    ends: float


class DeviceTime(NamedTuple):
    """Device time of the kernels launched during one mark, in seconds."""

    busy: float
    """Sum over its kernels and copies."""
    begins: float
    """Begin of the first kernel."""
    ends: float
    """End of the last kernel."""
    previous_end: float
    """End of the work before it; its own begin without such work."""
    launching: float
    """Time of the host from its first launch to its last."""

    @property
    def span(self) -> float:
        """Time between events before and after the mark on a stream that never runs dry."""
        return self.ends - self.previous_end


def load(path: Path) -> list[dict[str, Any]]:
    """The events of a trace that `export_chrome_trace` wrote."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def marks_of(events: Iterable[dict[str, Any]], prefix: str) -> list[Mark]:
    """Marks of `record_function` whose names begin with `prefix`, in their order."""
    marks = [
        Mark(event["name"], event["ts"] * _US, (event["ts"] + event["dur"]) * _US)
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith(prefix)
    ]
    return sorted(marks, key=lambda mark: mark.begins)


def device_times(events: list[dict[str, Any]], marks: list[Mark]) -> dict[str, DeviceTime]:
    """Return the device time of each mark's kernels. Marks do not overlap; those without kernels
    are left out."""
    launched = {
        event["args"]["correlation"]: event["ts"] * _US
        for event in events
        if event.get("cat") in _ON_HOST and "correlation" in event.get("args", {})
    }
    begins = [mark.begins for mark in marks]
    times: dict[str, DeviceTime] = {}
    first_launch: dict[str, float] = {}
    previous_end = None
    works = [event for event in events if event.get("cat") in _ON_DEVICE]
    for work in sorted(works, key=lambda event: float(event["ts"])):
        moment = launched.get(work.get("args", {}).get("correlation"))
        number = -1 if moment is None else bisect.bisect_right(begins, moment) - 1
        begin, end = work["ts"] * _US, (work["ts"] + work["dur"]) * _US
        if moment is not None and number >= 0 and moment <= marks[number].ends:
            name = marks[number].name
            first = first_launch.setdefault(name, moment)
            empty = DeviceTime(
                0.0, begin, end, begin if previous_end is None else previous_end, 0.0
            )
            device_time = times.get(name, empty)
            times[name] = device_time._replace(
                busy=device_time.busy + end - begin,
                ends=max(device_time.ends, end),
                launching=max(device_time.launching, moment - first),
            )
        previous_end = end if previous_end is None else max(previous_end, end)
    return times


def calls(events: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Count the host's calls of each function of the driver and its runtime."""
    counts: dict[str, int] = {}
    for event in events:
        if event.get("cat") in _ON_HOST:
            counts[event["name"]] = counts.get(event["name"], 0) + 1
    return counts

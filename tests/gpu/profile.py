"""What torch.profiler says of the device's time in each phase: the truth that events are held to.

CUPTI times each kernel on the device, and names the call on the host that launched it. A kernel
belongs to the mark during which it was launched, by whichever thread.

    mark `forward` on the host  0 .. 3, launches kernels that run 1 .. 5 and 5 .. 9
    mark `backward` on the host 3 .. 4, launches one that runs 9 .. 10

    forward: busy 8, from the end of what ran before it (0) to 9; backward: busy 1, from 9 to 10
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
    """Device time of what was launched during one mark, in seconds."""

    busy: float
    """Sum over its kernels and copies."""
    begins: float
    """When its first one begins."""
    ends: float
    """When its last one ends."""
    previous_end: float
    """When what ran before it ended; its own beginning where nothing did."""
    launching: float
    """Time of the host from its first launch to its last."""

    @property
    def span(self) -> float:
        """What an event before it and one after it measure on one stream that never runs dry."""
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
    """What each mark's kernels took. Marks do not overlap; one that launched none is left out."""
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
    """How often the host called each function of the driver and of its runtime."""
    counts: dict[str, int] = {}
    for event in events:
        if event.get("cat") in _ON_HOST:
            counts[event["name"]] = counts.get(event["name"], 0) + 1
    return counts

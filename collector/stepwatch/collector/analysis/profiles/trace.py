"""A rank's trace by `torch.profiler`, as self time by activity.

The trace comes from a rank, so every field may be missing or wrong.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .activities import COMPUTING, DEVICE, Activity, Frame, describe, frame_of

MAX_TRACE_BYTES = 512 << 20
"""Unpacked; the hooks make no larger one."""
MAX_EVENTS = 4_000_000
STEP = "stepwatch: step"
_STEP_NAME = re.compile(rf"{re.escape(STEP)} (\d{{1,10}})", re.ASCII)
_HOST = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver"})
_MICRO = 1e-6


class Profile(NamedTuple):
    """Profiled steps of one rank; all times are seconds a step.

    `host` is the training thread's self time by activity, `device` the kernels' time. `call_s` is
    the lower quartile of the self times of an operator's or kernel's calls: a busy processor delays
    some calls, a slow one all. `idle_s` is the time in which the training thread did not run on a
    processor.
    """

    rank: int
    first_step: int
    steps: int
    step_s: float
    idle_s: float
    host: Mapping[Activity, float]
    device: Mapping[Activity, float]
    call_s: Mapping[str, float]


class SelfTimes:
    """Self time by activity, and of each call of an operator or kernel, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[Activity, float] = defaultdict(float)
        self.calls: dict[str, list[float]] = defaultdict(list)

    def add(self, activity: Activity, seconds: float) -> None:
        """Add the self time of one event."""
        self.seconds[activity] += seconds
        if activity.kind in COMPUTING:
            self.calls[activity.name].append(seconds)


class _Open(NamedTuple):
    """An event that contains the following ones; `inner_us` collects their microseconds."""

    end: float
    activity: Activity
    frame: Frame
    duration: float
    inner_us: list[float]

    def close(self, times: SelfTimes) -> None:
        times.add(self.activity, (self.duration - sum(self.inner_us)) * _MICRO)


def read_profile(packed: bytes) -> Profile:
    """Return the profile in a gzip trace.

    Raises:
        ValueError: it is no trace that a rank's hooks made, or too large.
    """
    document = _document(packed)
    facts, events = document.get("stepwatch"), document.get("traceEvents")
    if not isinstance(facts, dict) or not isinstance(events, list):
        raise ValueError("it is no trace that stepwatch asked for")
    if len(events) > MAX_EVENTS:
        raise ValueError(f"it has more than {MAX_EVENTS:,} events")
    rank, first, steps, wall_ns, cpu_ns = (
        _number(facts.get(name)) for name in ("rank", "first", "steps", "wall_ns", "cpu_ns")
    )
    complete = [event for event in events if _is_complete(event)]
    threads = _by_thread(complete)
    training = _training_thread(complete)
    if training is None:
        raise ValueError("its trace holds none of the profiled steps")
    host, device = SelfTimes(), SelfTimes()
    modules: dict[int, tuple[str, ...]] = {}
    # First the training thread: it says in which modules the operators of other threads began.
    for thread in sorted(threads, key=lambda name: name != training):
        events_on = threads[thread]
        if thread != training:
            events_on = [event for event in events_on if event["cat"] == "cpu_op"]
        _add_self_times(events_on, host, modules)
    for event in complete:
        if event["cat"] in DEVICE:
            device.add(describe(event["cat"], event["name"], Frame()), event["dur"] * _MICRO)
    count = max(steps, 1)
    return Profile(
        rank=int(rank),
        first_step=int(first),
        steps=int(count),
        step_s=wall_ns / 1e9 / count,
        idle_s=max(wall_ns - cpu_ns, 0) / 1e9 / count,
        host={activity: seconds / count for activity, seconds in host.seconds.items()},
        device={activity: seconds / count for activity, seconds in device.seconds.items()},
        call_s={name: _usual(calls) for name, calls in {**host.calls, **device.calls}.items()},
    )


def _usual(calls: list[float]) -> float:
    return sorted(calls)[len(calls) // 4]


def _document(packed: bytes) -> dict[str, Any]:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(packed, MAX_TRACE_BYTES)
    except zlib.error as error:
        raise ValueError("it is no gzip file") from error
    if unpacker.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {MAX_TRACE_BYTES >> 20} MiB")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no trace") from error
    if not isinstance(document, dict):
        raise ValueError("it is no trace")
    return document


def _number(value: Any) -> int:
    """Return a whole number from the rank's facts.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not int or not -1 <= value < 1 << 62:
        raise ValueError("its facts about the profiled steps are invalid")
    return value


def _is_complete(event: Any) -> bool:
    return (
        type(event) is dict
        and event.get("ph") == "X"
        and type(event.get("name")) is str
        and type(event.get("cat")) is str
        and _is_time(event.get("ts"))
        and _is_time(event.get("dur"))
        and event["dur"] >= 0
    )


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _by_thread(events: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    threads: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        # The annotation of a step begins in one call of the hooks and ends in another: it is not
        # nested with the calls.
        if event["cat"] in _HOST and not event["name"].startswith(STEP):
            threads[str(event.get("tid"))].append(event)
    return threads


def _training_thread(events: Iterable[dict[str, Any]]) -> str | None:
    """Return the thread that has the steps' annotations."""
    for event in events:
        if event["cat"] == "user_annotation" and _STEP_NAME.fullmatch(event["name"]):
            return str(event.get("tid"))
    return None


def _add_self_times(
    events: list[dict[str, Any]], times: SelfTimes, modules: dict[int, tuple[str, ...]]
) -> None:
    """Add the time of each event outside the events that it contains.

    Three events: `step` 0 to 10, `aten::linear` 2 to 6 and in it `aten::addmm` 3 to 6. The self
    times are 6, 1 and 3. `modules` collects the modules of forward operators by the number that
    their backward has, too.
    """
    events.sort(key=lambda event: (event["ts"], -event["dur"]))
    stack: list[_Open] = []
    for event in events:
        begin, end = event["ts"], event["ts"] + event["dur"]
        while stack and stack[-1].end <= begin:
            stack.pop().close(times)
        if event["cat"] == "user_annotation":  # it begins in a call that it outlasts
            while stack and stack[-1].end < end:
                stack.pop().close(times)
        frame = stack[-1].frame if stack else Frame()
        number, is_backward = _autograd_number(event)
        if is_backward:
            frame = frame._replace(modules=modules.get(number, frame.modules))
        elif number >= 0:
            modules[number] = frame.modules
        if stack:  # clocks of two recorders: an end may be a little late
            end = min(end, stack[-1].end)
            stack[-1].inner_us.append(end - begin)
        activity = describe(event["cat"], event["name"], frame)
        inner = frame_of(event["cat"], event["name"], frame)
        stack.append(_Open(end, activity, inner, end - begin, []))
    while stack:
        stack.pop().close(times)


def _autograd_number(event: dict[str, Any]) -> tuple[int, bool]:
    """Return autograd's sequence number of an operator, -1 without one, and if it is a backward."""
    facts = event.get("args")
    if event["cat"] != "cpu_op" or type(facts) is not dict:
        return -1, False
    number = facts.get("Sequence number")
    if type(number) is not int or number < 0:
        return -1, False
    return number, facts.get("Fwd thread id", 0) != 0

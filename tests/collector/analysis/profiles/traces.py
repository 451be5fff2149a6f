"""Traces made by hand, as a rank's hooks pack them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

from stepwatch.collector.analysis.profiles import Profile, read_profile

MAIN = 7
"""The training thread."""


def event(name: str, begin: float, length: float, category: str = "cpu_op", **more: Any) -> Any:
    """Return a complete event; times are milliseconds."""
    times = {"ts": begin * 1e3, "dur": length * 1e3}
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": MAIN, **times, **more}


def packed_trace(events: Iterable[Any], **facts: Any) -> bytes:
    """Return a packed trace of one step with 100 ms on rank 0."""
    known = {"rank": 0, "first": 5, "steps": 1, "wall_ns": 100_000_000, "cpu_ns": 100_000_000}
    step = event("stepwatch: step 5", 0, 100, "user_annotation")
    document = {"traceEvents": [step, *events], "stepwatch": {**known, **facts}}
    return gzip.compress(json.dumps(document).encode())


def profile(events: Iterable[Any], **facts: Any) -> Profile:
    """Return the profile in such a trace."""
    return read_profile(packed_trace(events, **facts))

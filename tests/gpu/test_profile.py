"""Device times of phases from a profile, on a trace short enough to compute by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import profile


def event(category: str, name: str, begin_us: float, lasts: float, call: int = 0) -> dict[str, Any]:
    """An event of a trace; times in µs."""
    shared = {"ph": "X", "cat": category, "name": name, "ts": begin_us, "dur": lasts}
    return {**shared, "args": {"correlation": call} if call else {}}


TRACE = [
    event("user_annotation", "phase:0:forward", 0, 3),
    event("user_annotation", "phase:0:backward", 3, 1),
    event("user_annotation", "somebody else's", 0, 100),
    event("cuda_runtime", "cudaLaunchKernel", 0.5, 0.1, 1),
    event("cuda_runtime", "cudaMemcpyAsync", 1.5, 0.1, 2),
    event("cuda_driver", "cuLaunchKernelEx", 3.5, 0.1, 3),
    event("cuda_runtime", "cudaLaunchKernel", 4.5, 0.1, 4),
    event("cuda_runtime", "cudaEventRecord", 4.6, 0.1),
    event("kernel", "gemm", 2, 3, 1),
    event("gpu_memcpy", "copy", 5, 4, 2),
    event("kernel", "gemm", 9, 1, 3),
    event("kernel", "outside any mark", 12, 1, 4),
    event("kernel", "launched before the profile began", 0, 1, 99),
]


def test_a_kernel_belongs_to_the_mark_in_which_it_was_launched() -> None:
    marks = profile.marks_of(TRACE, "phase:")
    times = profile.device_times(TRACE, marks)
    forward, backward = times["phase:0:forward"], times["phase:0:backward"]
    assert set(times) == {"phase:0:forward", "phase:0:backward"}
    in_us = [round(value * 1e6, 6) for value in forward]
    assert in_us == [7, 2, 9, 1, 1], "busy, begins, ends, before, launching"
    assert forward.span == pytest.approx(8e-6)
    assert [backward.busy, backward.span] == pytest.approx([1e-6, 1e-6])


def test_calls_are_counted_by_name() -> None:
    assert profile.calls(TRACE) == {
        "cudaLaunchKernel": 2,
        "cudaMemcpyAsync": 1,
        "cuLaunchKernelEx": 1,
        "cudaEventRecord": 1,
    }


def test_marks_that_nothing_was_launched_in_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [TRACE[0], {"ph": "M", "name": "a process"}]}))
    events = profile.load(path)
    assert len(events) == 1
    assert profile.device_times(events, profile.marks_of(events, "phase:")) == {}

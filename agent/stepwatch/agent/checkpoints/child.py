"""The process that verifies: `python -m stepwatch.agent.checkpoints.child`, options on stdin.

It prints JSON lines: progress, then the report. It runs when the processors are idle, and with
`SCHED_IDLE` the kernel gives its reads the idle I/O class (`man 2 ioprio_set`).
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .exchange import read_options
from .folder import renamed
from .result import Problem, Report, State, Weight
from .verification import verify

_REPORT_SECONDS = 0.2
"""Time between two lines of progress."""


def main() -> None:
    """Verify what stdin asks for, and print the report."""
    path, options = read_options(json.loads(sys.stdin.read()))
    limits = options.limits
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.nice(19)
    with suppress(OSError):  # of all processes, this one can be spared
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError):  # a container may forbid the call
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        report = verify(renamed(path), options, _Progress())
    except MemoryError:
        reason = f"it needs more memory than {limits.memory_bytes} bytes"
        problem = Problem("", reason, Weight.UNKNOWN)
        report = Report(path, State.UNKNOWN, "unknown", None, 0, 0, 0, 0.0, (problem,))
    _print(
        {
            "report": report.document(),
            "files": report.manifest()["files"],
            "missing": report.missing,
            "changed_s": report.changed_s,
        }
    )


class _Progress:
    """Prints progress lines, a few each second."""

    def __init__(self) -> None:
        self._printed_s = 0.0

    def __call__(self, count: int, total: int, name: str) -> None:
        now_s = time.monotonic()
        if now_s - self._printed_s >= _REPORT_SECONDS:
            self._printed_s = now_s
            _print({"progress": [count, total, name]})


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

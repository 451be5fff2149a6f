"""Verifies in a process of its own, which is killed when the storage does not answer."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from .exchange import options_document
from .options import Options
from .result import Problem, Report, State, Weight, report_from

if TYPE_CHECKING:
    from .reading import Progress

_GRACE_SECONDS = 5.0
"""Time after the deadline in which the process reports by itself."""
_ENDING_SECONDS = 1.0
"""Time in which a killed process ends, unless the kernel waits for its storage."""


def verify_supervised(
    path: str,
    options: Options | None = None,
    progress: Progress | None = None,
    *,
    started: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> Report:
    """Verify a path like `verify`, in a process with idle priority and bounded memory.

    A storage that does not answer gives a report with the state unknown at the deadline. A path
    that does not exist is looked for under the name without its mark of an unfinished save.

    Args:
        path: a file or folder.
        options: the options of the verification.
        progress: called with bytes read, all bytes, and the file's name.
        started: called with the process.
    Raises:
        OSError: no process can be started.
    """
    options = options or Options()
    words = [sys.executable, "-P", "-m", "stepwatch.agent.checkpoints.child"]
    began_s = time.monotonic()
    # A session of its own: Ctrl-C reaches this process alone, which ends the other one.
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    if started is not None:
        started(process)
    last_name, last_count = "", 0
    try:
        _send(process, json.dumps(options_document(path, options)).encode())
        assert process.stdout is not None
        end_s = None if options.timeout_s is None else began_s + options.timeout_s + _GRACE_SECONDS
        for message in _messages(process.stdout, end_s):
            if "report" in message:
                return report_from(
                    message["report"],
                    message["files"],
                    missing=message["missing"],
                    changed_s=message["changed_s"],
                )
            last_count, total, last_name = message["progress"]
            if progress is not None:
                progress(last_count, total, last_name)
    finally:
        _end(process)
    reason = "the storage does not answer"
    if process.returncode is not None and process.returncode >= 0:
        reason = f"the verification ended with exit code {process.returncode}"
    problem = Problem(last_name, reason, Weight.UNKNOWN)
    seconds = time.monotonic() - began_s
    return Report(path, State.UNKNOWN, "unknown", None, 0, 0, last_count, seconds, (problem,))


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(data)


def _messages(stream: IO[bytes], end_s: float | None) -> Iterator[dict[str, Any]]:
    """Yield the process's JSON lines until it ends or its time is over."""
    waiting = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            remaining_s = None if end_s is None else max(end_s - time.monotonic(), 0.0)
            if not selector.select(remaining_s):
                return
            data = os.read(stream.fileno(), 1 << 20)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                yield json.loads(line)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process; one that waits for its storage ends when the kernel lets it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.05)
    if process.returncode is None:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_SECONDS)
    if process.stdout is not None:
        process.stdout.close()

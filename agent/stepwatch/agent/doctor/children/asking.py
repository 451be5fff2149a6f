"""Run a module from this package in its own interpreter and read its JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

NOT_INSTALLED = 3
"""Exit code when torch is not installed."""
_MOST_LINES = 4096


class ChildError(RuntimeError):
    """The reason for a missing answer; `missing` is True if torch is not installed."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


def answers(name: str, words: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """Run this package's module `name` with arguments `words` and return its JSON lines.

    The child and its descendants are killed after `seconds`. A child that a broken driver holds in
    the kernel is abandoned.

    Raises:
        ChildError: the child timed out or failed; the message has its last line.
    """
    command = [sys.executable, "-m", f"{__package__}.{name}", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1.0)
        raise ChildError(f"no answer within {seconds:.0f} s") from None
    if process.returncode == NOT_INSTALLED:
        raise ChildError("torch is not installed", missing=True)
    if process.returncode:
        last = next(iter(reversed(errors.strip().splitlines())), "")
        raise ChildError(f"it ended with {process.returncode}: {last[:200]}")
    # Libraries may print other lines.
    lines = (line for line in out.splitlines()[:_MOST_LINES] if line.startswith("{"))
    return [json.loads(line) for line in lines]

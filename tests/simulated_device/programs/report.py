"""A program's report to its test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.simulated_device import device


def event() -> torch.Event:
    """Return an event with timing, not recorded yet."""
    return torch.Event(device.NAME, enable_timing=True)


def record_event() -> torch.Event:
    """Return an event recorded on the current stream now."""
    new_event = event()
    new_event.record()
    return new_event


def milliseconds(begin: torch.Event, end: torch.Event) -> float:
    """Wait for `end` and return the device time between both."""
    end.synchronize()
    return float(begin.elapsed_time(end))


def error_of(call: Any) -> str:
    """Return the first line of the RuntimeError that `call` raises, or an empty string."""
    try:
        call()
    except RuntimeError as error:
        return str(error).split("\n")[0]
    return ""


def write(figures: dict[str, Any]) -> None:
    """Write this rank's figures into the folder of the first argument."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(figures))

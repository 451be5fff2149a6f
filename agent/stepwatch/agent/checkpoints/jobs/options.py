"""The options of the agent's verification."""

from __future__ import annotations

from dataclasses import dataclass

DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class CheckpointOptions:
    """Rate and times of the agent's verification; `rate` is in bytes a second, times in seconds.

    A checkpoint is read `delay_seconds` after its path was reported, then again while it may still
    be written. The newest good checkpoint of each job is read again every `every_seconds`, never if
    that is 0.
    """

    rate: float = 200e6
    every_seconds: float = 30 * DAY_SECONDS
    delay_seconds: float = 10.0
    pause_seconds: float = 5.0
    """Time between two readings: to start one takes a third of a second of processor time."""
    settle_seconds: float = 60.0
    """A folder that changed so recently may still be written."""
    memory_bytes: int = 256 << 20
    """Memory that the reading process may add: the shipped unit gives an agent 512 MiB."""
    timeout_seconds: float = 4 * 3600.0
    """Time for one checkpoint: 2.9 TB at the default rate."""

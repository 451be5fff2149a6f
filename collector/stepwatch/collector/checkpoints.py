"""What is known of one checkpoint, folded together from the records of its ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import CheckpointEvent


class Checkpoint(NamedTuple):
    """What is known of one checkpoint; None where no rank said it yet."""

    step: int
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    size_bytes: int | None = None
    verified: bool | None = None
    reason: str = ""


def merged(known: Checkpoint, row: np.void) -> Checkpoint:
    """Fold one record in; the checkpoint is as slow as its slowest rank, as good as its worst."""
    event, text = int(row["event"]), bytes(row["text"]).decode("utf-8", "replace")
    stall, durable = int(row["stall_ns"]) / NANOSECONDS, int(row["durable_ns"]) / NANOSECONDS
    if stall:
        known = known._replace(stall_seconds=max(known.stall_seconds or 0.0, stall))
    if event == CheckpointEvent.WRITTEN:
        known = known._replace(
            durable_seconds=max(known.durable_seconds or 0.0, durable),
            size_bytes=max(known.size_bytes or 0, int(row["bytes"])),
        )
    elif event == CheckpointEvent.VERIFIED and known.verified is None:
        known = known._replace(verified=True)
    elif event in (CheckpointEvent.FAILED, CheckpointEvent.REJECTED):
        known = known._replace(verified=False, reason=text)
    return known

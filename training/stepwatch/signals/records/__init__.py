"""Record types: the fixed-size facts that ranks write and segments carry.

`vocabulary` defines their numbers, `fields` each kind's fields, `making` new records, `pieces`
the texts that span several LIFECYCLE records.
"""

from __future__ import annotations

from .fields import BODIES, COMMON, DTYPES, RING_KINDS, UNKNOWN
from .making import make_rows
from .pieces import Fact, Link, piece_texts, read_fact, read_link, read_path
from .vocabulary import (
    ENDS,
    LOSS_SCALED,
    MEASURED,
    METRICS_PER_ROW,
    MOST_METRICS,
    OP_NAMES,
    PHASE_BY_NAME,
    PHASE_NAMES,
    SCALER_STEPS,
    UNKNOWN_EXCHANGES,
    Activity,
    Better,
    CheckpointEvent,
    DeviceFlag,
    DeviceState,
    GilState,
    Kind,
    LifecycleEvent,
    Nearness,
    NodeFact,
    NumericsSource,
    Op,
    Phase,
    ProcessState,
    StepFlag,
    Throttle,
    Verification,
    phase_name,
)

UNKNOWN_RANK = -1
"""The rank in a record that belongs to the node rather than to a rank."""
UNKNOWN_FLOAT = float("nan")
WORLD_GROUP = "0"
"""Name of the group with all ranks in FLIGHT: torch counts its groups from 0."""

__all__ = [
    "BODIES",
    "COMMON",
    "DTYPES",
    "ENDS",
    "LOSS_SCALED",
    "MEASURED",
    "METRICS_PER_ROW",
    "MOST_METRICS",
    "OP_NAMES",
    "PHASE_BY_NAME",
    "PHASE_NAMES",
    "RING_KINDS",
    "SCALER_STEPS",
    "UNKNOWN",
    "UNKNOWN_EXCHANGES",
    "UNKNOWN_FLOAT",
    "UNKNOWN_RANK",
    "WORLD_GROUP",
    "Activity",
    "Better",
    "CheckpointEvent",
    "DeviceFlag",
    "DeviceState",
    "Fact",
    "GilState",
    "Kind",
    "LifecycleEvent",
    "Link",
    "Nearness",
    "NodeFact",
    "NumericsSource",
    "Op",
    "Phase",
    "ProcessState",
    "StepFlag",
    "Throttle",
    "Verification",
    "make_rows",
    "phase_name",
    "piece_texts",
    "read_fact",
    "read_link",
    "read_path",
    "text_bytes",
]


def text_bytes(text: str, size: int) -> bytes:
    """Encode `text` as at most `size` bytes in UTF-8, cut at a character boundary."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").encode("utf-8")

"""Record types: the fixed-size facts that ranks write and segments carry.

`vocabulary` defines their numbers, `fields` each kind's fields, `making` new records, `pieces`
the texts that span several LIFECYCLE records. `packing` makes records without numpy, which this
package imports at the first use of `DTYPES` or `make_rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fields import BODIES, COMMON, RING_KINDS, UNKNOWN
from .packing import Values, pack, unknown_values
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

if TYPE_CHECKING:
    from .dtypes import DTYPES
    from .making import make_rows
else:

    def __getattr__(name):
        if name not in ("DTYPES", "make_rows"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .making import DTYPES, make_rows

        globals().update(DTYPES=DTYPES, make_rows=make_rows)
        return globals()[name]


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
    "Values",
    "Verification",
    "make_rows",
    "pack",
    "phase_name",
    "piece_texts",
    "read_fact",
    "read_link",
    "read_path",
    "text_bytes",
    "unknown_values",
]


def text_bytes(text: str, size: int) -> bytes:
    """Encode `text` as at most `size` bytes in UTF-8, cut at a character boundary."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").encode("utf-8")

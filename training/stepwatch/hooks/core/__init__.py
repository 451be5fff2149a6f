"""The paths that a trainer pays for at every step: phases, collectives, steps and their records.

`CORE` says which core runs: `native` or `python`. Both record the same facts and the same bytes.
"""

from __future__ import annotations

from contextlib import nullcontext as Nothing
from typing import TYPE_CHECKING

from . import choice
from .buckets import BUCKETS, COLLECTIVE, OPS_BY_NAME, PIPELINE_WAIT
from .plain.bucket import Bucket, CollectiveTotals
from .plain.device_timeline import Marks, put_boundaries, remove_boundaries
from .plain.event_marks import FAILURES, MERGED_NS, EventMarks
from .plain.state import State, Thread
from .plain.step import Step
from .plain.timed_call import TimedCall
from .plain.timeline import Timeline

_native = choice.load()
CORE = choice.PYTHON if _native is None else choice.NATIVE
if not TYPE_CHECKING and _native is not None:
    from .compiled import put_boundaries, remove_boundaries

    Bucket, CollectiveTotals = _native.Bucket, _native.CollectiveTotals
    State, Step, Thread = _native.State, _native.Step, _native.Thread
    EventMarks, Nothing = _native.EventMarks, _native.Nothing
    TimedCall, Timeline = _native.TimedCall, _native.Timeline

__all__ = [
    "BUCKETS",
    "COLLECTIVE",
    "CORE",
    "FAILURES",
    "MERGED_NS",
    "OPS_BY_NAME",
    "PIPELINE_WAIT",
    "Bucket",
    "CollectiveTotals",
    "EventMarks",
    "Marks",
    "Nothing",
    "State",
    "Step",
    "Thread",
    "TimedCall",
    "Timeline",
    "put_boundaries",
    "remove_boundaries",
]

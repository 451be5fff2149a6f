"""The paths that a trainer pays for at every step: phases, collectives, steps and their records."""

from .buckets import BUCKETS, COLLECTIVE, OPS_BY_NAME, PIPELINE_WAIT
from .plain.bucket import Bucket, CollectiveTotals
from .plain.device_timeline import Marks, put_boundaries, remove_boundaries
from .plain.step import Step
from .plain.timed_call import TimedCall
from .plain.timeline import Timeline

__all__ = [
    "BUCKETS",
    "COLLECTIVE",
    "OPS_BY_NAME",
    "PIPELINE_WAIT",
    "Bucket",
    "CollectiveTotals",
    "Marks",
    "Step",
    "TimedCall",
    "Timeline",
    "put_boundaries",
    "remove_boundaries",
]

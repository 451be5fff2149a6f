"""Waste by cause: the use of every device-second allocated to a job."""

from .causes import CAUSES, DEFINITIONS, Spent
from .days import (
    COLUMNS,
    DAY_SECONDS,
    OWNER,
    Days,
    add_to_days,
    document_of,
    entries,
    entry_of,
    job_days,
)
from .partition import MICROSECONDS, Accounts, partition
from .tails import Run, Tail, tails_of

__all__ = [
    "CAUSES",
    "COLUMNS",
    "DAY_SECONDS",
    "DEFINITIONS",
    "MICROSECONDS",
    "OWNER",
    "Accounts",
    "Days",
    "Run",
    "Spent",
    "Tail",
    "add_to_days",
    "document_of",
    "entries",
    "entry_of",
    "job_days",
    "partition",
    "tails_of",
]

"""Waste by cause: where every device-second that a job was given went."""

from .causes import CAUSES, DEFINITIONS, Spent
from .days import (
    COLUMNS,
    DAY_SECONDS,
    OWNER,
    Days,
    Tail,
    add_to_days,
    document_of,
    entries,
    entry_of,
    job_days,
    tails_of,
)
from .partition import MICROSECONDS, Accounts, partition

__all__ = [
    "CAUSES",
    "COLUMNS",
    "DAY_SECONDS",
    "DEFINITIONS",
    "MICROSECONDS",
    "OWNER",
    "Accounts",
    "Days",
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

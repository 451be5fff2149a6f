"""Waste by cause: where every device-second that a job was given went."""

from .causes import CAUSES, DEFINITIONS, Spent
from .days import DAY_SECONDS, Days, Tail, add_to_days, job_days, tail_of
from .partition import Accounts, partition

__all__ = [
    "CAUSES",
    "DAY_SECONDS",
    "DEFINITIONS",
    "Accounts",
    "Days",
    "Spent",
    "Tail",
    "add_to_days",
    "job_days",
    "partition",
    "tail_of",
]

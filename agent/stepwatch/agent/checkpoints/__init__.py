"""Verifies checkpoints beside the trainer: reads files of all common layouts, never loads them."""

from .limits import Limits
from .result import FileDigest, Problem, Report, State, Weight
from .supervised import verify_supervised
from .verification import Options, verify

__all__ = [
    "FileDigest",
    "Limits",
    "Options",
    "Problem",
    "Report",
    "State",
    "Weight",
    "verify",
    "verify_supervised",
]

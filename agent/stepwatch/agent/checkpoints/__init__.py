"""Verifies checkpoints beside the trainer: reads files of all common layouts, never loads them.

`verification.verify` does it in this process, `verify_supervised` in one of its own: an agent does
not import what reads the files.
"""

from .limits import Limits
from .options import Options
from .result import FileDigest, Problem, Report, State, Weight
from .supervised import verify_supervised

__all__ = [
    "FileDigest",
    "Limits",
    "Options",
    "Problem",
    "Report",
    "State",
    "Weight",
    "verify_supervised",
]

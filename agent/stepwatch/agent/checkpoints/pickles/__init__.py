"""Reads pickles without loading them: opcodes become values that name types and call nothing."""

from .machine import Call, Name, Pairs, Pickle, PickleError, Stored, entries, read_pickle
from .trust import judge

__all__ = [
    "Call",
    "Name",
    "Pairs",
    "Pickle",
    "PickleError",
    "Stored",
    "entries",
    "judge",
    "read_pickle",
]

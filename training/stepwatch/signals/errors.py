"""Stepwatch's exceptions.

StepwatchError            anything stepwatch refuses; its message names the fix
├── UsageError            wrong option or argument (command line exits with 2)
├── ConfigurationError    an environment variable, file or directory cannot be used
├── RingError             a black-box ring cannot be opened or read
├── SegmentError          a segment is truncated, damaged or invalid
│   └── UnsupportedFormatError  a whole segment in a later format than this version reads
├── DataError             training data is missing, empty or changed since its manifest
├── CheckpointError       a checkpoint cannot be written, verified or loaded
├── HttpError             a request without a usable answer (`http/errors.py`)
├── SnapshotError         a snapshot of a job's state cannot be made or read
└── StoreError            the collector's store cannot be opened or written
    └── StoreDamagedError       one job's rows that the store holds and cannot read
"""

from __future__ import annotations


class StepwatchError(Exception):
    """Anything stepwatch refuses; the message is one line that names the fix."""


class UsageError(StepwatchError):
    """A wrong option or argument."""


class ConfigurationError(StepwatchError):
    """An environment variable, a file or a directory that cannot be used."""


class RingError(StepwatchError):
    """A black-box ring that cannot be opened or read."""


class SegmentError(StepwatchError):
    """A segment that is truncated, damaged or invalid."""


class UnsupportedFormatError(SegmentError):
    """A whole segment in a format that this version cannot read; a later version may.

    `format` is that format's number. Such segments are kept, never deleted.
    """

    def __init__(self, format: int, message: str) -> None:
        super().__init__(message)
        self.format = format


class DataError(StepwatchError):
    """Training data that is missing, empty or changed since its manifest was written."""


class CheckpointError(StepwatchError):
    """A checkpoint that cannot be written, verified or loaded."""


class SnapshotError(StepwatchError):
    """A snapshot of a job's state that cannot be made or read; the job's log has all of it."""


class StoreError(StepwatchError):
    """A collector store that cannot be opened or written."""


class StoreDamagedError(StoreError):
    """One job's rows that the store holds and cannot read; other jobs are unaffected."""


class LeaseLostError(StepwatchError):
    """A write about a job that another collector now evaluates; nothing was written."""

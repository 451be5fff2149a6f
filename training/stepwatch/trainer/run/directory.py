"""The run directory: its file names, and how launcher and ranks find it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.places.owned import own_folder

SHARDS_DIRECTORY = "data"
CHECKPOINTS_DIRECTORY = "checkpoints"
RUN_NAME = "run.json"
HISTORY_NAME = "history.jsonl"
PREEMPTED_MARKER = "preempted"
"""An empty file from rank 0: the ranks ended because of SIGTERM, with a last checkpoint."""


def _make(path: Path, mode: int) -> Path:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot use {path} as run directory: {error.strerror}") from error
    return path


def _make_temporary() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="stepwatch-train-"))
    except OSError as error:
        raise ConfigurationError(
            f"cannot use {tempfile.gettempdir()} for the run directory: {error.strerror}"
        ) from error


@contextmanager
def launcher_directory(directory: str) -> Iterator[Path]:
    """Yield the given directory, or a temporary one that is removed afterwards.

    Raises:
        ConfigurationError: it cannot be created or written.
    """
    if directory:
        path = _make(Path(directory).absolute(), 0o777)
        if not os.access(path, os.W_OK):
            raise ConfigurationError(f"cannot write to {path}: choose another --run-dir")
        yield path
        return
    path = _make_temporary()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def rank_directory(directory: str) -> Path:
    """Return the given directory, or a temporary one with the same path on all ranks of a launch.

    The temporary path can be guessed, so only this user may own it.

    Raises:
        ConfigurationError: it cannot be created, or another user made it.
    """
    if directory:
        return _make(Path(directory).absolute(), 0o700)
    launch = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    path = Path(tempfile.gettempdir(), f"stepwatch-train-{os.geteuid()}-{launch}")
    try:
        return own_folder(path)
    except OSError as error:
        raise ConfigurationError(
            f"cannot use {path} as run directory: {error.strerror}; pass --run-dir"
        ) from error


def require_writable_parent(result: str) -> None:
    """Check that the result file can be written before any process starts.

    Raises:
        ConfigurationError: its directory is missing or cannot be written.
    """
    parent = Path(result).absolute().parent
    if result and not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ConfigurationError(f"cannot write to {parent}: choose another --json")

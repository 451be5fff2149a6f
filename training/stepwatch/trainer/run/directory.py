"""The run directory: names of what it holds, and how launcher and ranks find it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepwatch.signals.errors import ConfigurationError

SHARDS_DIRECTORY = "data"
CHECKPOINTS_DIRECTORY = "checkpoints"
RUN_NAME = "run.json"
HISTORY_NAME = "history.jsonl"
PREEMPTED_MARKER = "preempted"
"""An empty file from rank 0: the ranks ended because of SIGTERM, with a last checkpoint."""


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="stepwatch-train-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def launcher_directory(given: str) -> Iterator[Path]:
    """Yield the given directory, or a temporary one that is removed afterwards.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        if not given:
            with _temporary_directory() as temporary:
                yield temporary
            return
        path = Path(given).absolute()
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise ConfigurationError(f"cannot write to {path}: choose another --run-dir")
    except OSError as error:
        raise ConfigurationError(
            f"cannot use {given or tempfile.gettempdir()} as run directory: {error.strerror}"
        ) from error
    yield path


def rank_directory(given: str) -> Path:
    """Return the given directory, or a temporary one with the same path on all ranks of a launch.

    Raises:
        OSError: it cannot be created.
    """
    if given:
        path = Path(given).absolute()
    else:
        launch = os.environ.get("TORCHELASTIC_RUN_ID", "none")
        path = Path(tempfile.gettempdir(), f"stepwatch-train-{os.getuid()}-{launch}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def require_writable_parent(result: str) -> None:
    """Check that the result file can be written before any process starts.

    Raises:
        ConfigurationError: its directory is missing or cannot be written.
    """
    parent = Path(result).absolute().parent
    if result and not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ConfigurationError(f"cannot write to {parent}: choose another --json")

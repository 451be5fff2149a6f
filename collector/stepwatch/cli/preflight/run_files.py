"""Preflight checks on a run's files: the data manifest and the newest checkpoint.

The reference trainer's code reads them, without torch, and moves nothing: the next start
quarantines invalid files. Files left after `READ_SECONDS` are compared by size alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stepwatch.agent.doctor.result import Result, Surroundings

READ_SECONDS = 10.0
"""Time limit for the digests of each: a terabyte checkpoint takes longer than a prolog allows."""
CHECKPOINTS_SHOWN = 3


class _Entry(NamedTuple):
    """A file: its name, its size in bytes, and a function that returns why it is invalid."""

    name: str
    size: int
    error: Callable[[], str | None]


def check(around: Surroundings) -> Iterator[Result]:
    """Check the dataset, if one is named, and the newest checkpoint, if one exists."""
    if around.data is not None:
        yield _of_data(around.data)
    if around.checkpoints is not None:
        yield _newest_checkpoint(around.checkpoints)


def _of_data(folder: Path) -> Result:
    from stepwatch.agent.doctor.result import Outcome, Problem, Result
    from stepwatch.signals.errors import DataError
    from stepwatch.trainer.data.manifest import Shard, read_manifest
    from stepwatch.trainer.data.shards import shard_error

    def shard_entry(shard: Shard) -> _Entry:
        return _Entry(shard.file, shard.size, lambda: shard_error(folder, shard))

    try:
        manifest = read_manifest(folder)
    except DataError as error:
        return Result("data", Outcome.FAIL, str(error), "name a directory of shards",
                      problem=Problem.USER)  # fmt: skip
    reason, words = _compared(folder, [shard_entry(shard) for shard in manifest.shards])
    if reason is not None:
        remedy = "restore the shard from its source, or train with --bad-shard quarantine"
        return Result("data", Outcome.FAIL, f"{folder}: {reason}", remedy, problem=Problem.USER)
    text = f"{folder}: manifest {manifest.digest[:12]}, {words}"
    return Result("data", Outcome.PASS, text, problem=Problem.USER)


def _newest_checkpoint(root: Path) -> Result:
    """Return the newest valid checkpoint; a newer invalid one is a warning: its steps are lost."""
    from stepwatch.agent.doctor.result import Outcome, Problem, Result
    from stepwatch.trainer.checkpoint import layout

    steps = layout.published_steps(root)
    if not steps:
        text = f"{root}: there is none yet: a job begins at step 0"
        return Result("newest-checkpoint", Outcome.PASS, text, problem=Problem.USER)
    bad: list[str] = []
    for step in steps[:CHECKPOINTS_SHOWN]:
        reason, words = _of_checkpoint(layout.published_path(root, step))
        if reason is None:
            text = f"{root}: step {step} is good: {words}"
            if not bad:
                return Result("newest-checkpoint", Outcome.PASS, text, problem=Problem.USER)
            remedy = f"a job resumes from step {step}; look at the storage"
            text = f"{'; '.join(bad)}; {text}"
            return Result("newest-checkpoint", Outcome.WARN, text, remedy, problem=Problem.USER)
        bad.append(f"step {step} is bad: {reason}")
    text = f"{root}: {'; '.join(bad)}"
    remedy = "restore a checkpoint: without one a job begins at step 0"
    return Result("newest-checkpoint", Outcome.FAIL, text, remedy, problem=Problem.USER)


def _of_checkpoint(folder: Path) -> tuple[str | None, str]:
    from stepwatch.trainer.checkpoint.manifest import FileEntry, entry_error, read_manifest

    def file_entry(name: str, entry: FileEntry) -> _Entry:
        return _Entry(name, entry.size, lambda: entry_error(folder, name, entry))

    try:
        manifest = read_manifest(folder)
    except ValueError as error:
        return str(error), ""
    if not manifest.files:
        return "its manifest lists no file", ""
    return _compared(
        folder, [file_entry(name, entry) for name, entry in sorted(manifest.files.items())]
    )


def _compared(folder: Path, entries: Sequence[_Entry]) -> tuple[str | None, str]:
    """Return why a file is invalid, or None, and how much was read; all sizes are checked first."""
    for entry in entries:
        try:
            size = (folder / Path(entry.name).name).stat().st_size
        except OSError as error:
            return f"{entry.name}: {error.strerror}", ""
        if size != entry.size:
            return f"{entry.name} has {size} bytes instead of {entry.size}", ""
    read, begins = 0, time.monotonic()
    for entry in entries:
        if (reason := entry.error()) is not None:
            return reason, ""
        read += 1
        if time.monotonic() - begins > READ_SECONDS:
            break
    words = f"{len(entries)} files, {sum(entry.size for entry in entries) / 1e6:.3g} MB"
    unread_count = len(entries) - read
    return (
        None,
        f"{words}, {f'{read} read back, the sizes of all' if unread_count else 'all read back'}",
    )

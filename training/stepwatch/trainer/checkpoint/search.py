"""Searches for the newest valid checkpoint and quarantines invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwatch.signals.errors import CheckpointError
from stepwatch.signals.places.owned import require_writer, users_of_this_process
from stepwatch.trainer.integrity import UnreadableError

from . import layout
from .manifest import CheckpointManifest, entry_error, read_manifest


@dataclass(frozen=True)
class Rejection:
    """An invalid checkpoint: its step, the reason, and its new path."""

    step: int
    reason: str
    moved_to: str


def validated(directory: Path) -> CheckpointManifest:
    """Read every byte in a checkpoint and compare it with the manifest.

    Raises:
        ValueError: it is invalid; the message is the reason.
        UnreadableError: a file could not be read.
    """
    manifest = read_manifest(directory)
    if not manifest.files:
        raise ValueError("its manifest lists no file")
    for name, entry in sorted(manifest.files.items()):
        if (reason := entry_error(directory, name, entry)) is not None:
            raise ValueError(reason)
    return manifest


def require_own(root: Path) -> None:
    """Check that only this user may have written the checkpoints below `root`.

    Another user controls the weights, optimizer state and digests in their own checkpoint. This
    function refuses it and does not move it.

    Raises:
        CheckpointError: another user may have written one; the message names the path.
        OSError: a folder cannot be read or written.
    """
    steps = layout.published_steps(root)
    if not steps:
        return
    users = users_of_this_process(root)
    try:
        for directory in (root, *(layout.published_path(root, step) for step in steps)):
            require_writer(directory, users)
            for path in directory.iterdir() if directory != root else ():
                require_writer(path, users)
    except PermissionError as error:
        raise CheckpointError(
            f"{error.strerror}: copy the checkpoints as this user, or pass --resume never with "
            "another --run-dir"
        ) from error


def newest_valid(root: Path) -> tuple[CheckpointManifest | None, list[Rejection]]:
    """Return the newest valid checkpoint, if any, and every newer one, which is invalid.

    Invalid ones move to the quarantine. If that fails, they stay and are skipped, and so are
    unreadable ones.
    """
    rejections: list[Rejection] = []
    for step in layout.published_steps(root):
        try:
            return validated(layout.published_path(root, step)), rejections
        except UnreadableError as error:  # no proof of damage: the next start may read it
            rejections.append(Rejection(step, str(error), "left in place"))
        except ValueError as error:
            rejections.append(_rejected(root, step, str(error)))
    return None, rejections


def _rejected(root: Path, step: int, reason: str) -> Rejection:
    try:
        return Rejection(step, reason, str(layout.quarantine(root, step, reason)))
    except OSError as error:
        return Rejection(step, reason, f"left in place ({error.strerror})")


def require_same_identity(manifest: CheckpointManifest, identity: Mapping[str, Any]) -> None:
    """Compare this run's identity with that of the checkpoint to resume from.

    Raises:
        CheckpointError: the message names the first key that differs, with both values.
    """
    for key in sorted({*manifest.identity, *identity}):
        stored, ours = manifest.identity.get(key), identity.get(key)
        if stored != ours:
            raise CheckpointError(
                f"the checkpoint of step {manifest.step} has {key} = {stored!r}, this run has "
                f"{ours!r}: use the same value, or --resume never with another --run-dir"
            )

"""Searches for the newest valid checkpoint and quarantines invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwatch.signals.errors import CheckpointError

from . import layout
from .manifest import CheckpointManifest, entry_error, read_manifest


@dataclass(frozen=True)
class Rejection:
    """An invalid checkpoint: its step, the reason, and its new path."""

    step: int
    reason: str
    moved_to: str


def validated(directory: Path) -> CheckpointManifest:
    """Read every byte of a checkpoint and compare it with its manifest.

    Call this before torch reads it: DCP's own `.metadata` is a pickle.

    Raises:
        ValueError: it is invalid; the message is the reason.
    """
    manifest = read_manifest(directory)
    if not manifest.files:
        raise ValueError("its manifest lists no file")
    for name, entry in sorted(manifest.files.items()):
        if (reason := entry_error(directory, name, entry)) is not None:
            raise ValueError(reason)
    return manifest


def newest_valid(root: Path) -> tuple[CheckpointManifest | None, list[Rejection]]:
    """Return the newest valid checkpoint, if any, and every newer one, which is invalid.

    Invalid ones are moved to the quarantine. Where that fails they stay and are skipped.
    """
    rejections: list[Rejection] = []
    for step in layout.published_steps(root):
        try:
            return validated(layout.published_path(root, step)), rejections
        except ValueError as error:
            rejections.append(_rejected(root, step, str(error)))
    return None, rejections


def _rejected(root: Path, step: int, reason: str) -> Rejection:
    try:
        return Rejection(step, reason, str(layout.quarantine(root, step, reason)))
    except OSError as error:
        return Rejection(step, reason, f"left in place ({error.strerror})")


def require_same_identity(manifest: CheckpointManifest, identity: Mapping[str, Any]) -> None:
    """Compare the identity of this run with that of the checkpoint to resume from.

    Raises:
        CheckpointError: the message names the first key that differs, with both values.
    """
    for key in sorted({*manifest.identity, *identity}):
        theirs, ours = manifest.identity.get(key), identity.get(key)
        if theirs != ours:
            raise CheckpointError(
                f"the checkpoint of step {manifest.step} has {key} = {theirs!r}, this run has "
                f"{ours!r}: use the same value, or --resume never with another --run-dir"
            )

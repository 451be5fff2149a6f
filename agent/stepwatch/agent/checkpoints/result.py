"""The result of a verification: a state, the problems with their files, and digests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """The verdict on a checkpoint; `UNKNOWN` is neither good nor bad."""

    VERIFIED = "verified"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


class Weight(StrEnum):
    """The effect of a problem on the state."""

    DANGER = "danger"
    """A load would run foreign code: damaged, also while the checkpoint is being written."""
    DAMAGE = "damage"
    """Bytes or files are missing or wrong."""
    UNKNOWN = "unknown"
    """A file could not be checked."""
    NOTICE = "notice"
    """Worth a line; the state does not change."""


@dataclass(frozen=True)
class Problem:
    """One problem: the file's path below the checkpoint, and the reason as a sentence part."""

    file: str
    reason: str
    weight: Weight = Weight.DAMAGE


@dataclass(frozen=True)
class FileDigest:
    """One file's size in bytes and SHA-256 as hex."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Report:
    """The result for one path: a file, a checkpoint folder, or a folder with several of them.

    `layout` names the recognized layouts, `files` counts files, `size` and `bytes_read` are in
    bytes; `step` is None without a recorded step. `digests` has relative paths. `missing` is true
    if nothing is at the path; `changed_s` is a file's newest change in Unix seconds, 0 if unknown.
    """

    path: str
    state: State
    layout: str
    step: int | None
    files: int
    size: int
    bytes_read: int
    seconds: float
    problems: tuple[Problem, ...] = ()
    digests: Mapping[str, FileDigest] = field(default_factory=dict)
    missing: bool = False
    changed_s: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return the report without digests as JSON values."""
        return {
            "path": self.path,
            "state": self.state.value,
            "layout": self.layout,
            "step": self.step,
            "files": self.files,
            "bytes": self.size,
            "bytes_read": self.bytes_read,
            "seconds": round(self.seconds, 3),
            "problems": [
                {"file": problem.file, "reason": problem.reason, "weight": problem.weight.value}
                for problem in self.problems
            ],
        }

    def manifest(self) -> dict[str, Any]:
        """Return size and SHA-256 of every file as JSON values."""
        return {
            "version": 1,
            "path": self.path,
            "state": self.state.value,
            "step": self.step,
            "files": {
                name: {"size": entry.size, "sha256": entry.sha256}
                for name, entry in sorted(self.digests.items())
            },
        }


def report_from(
    document: Mapping[str, Any],
    digests: Mapping[str, Any],
    *,
    missing: bool = False,
    changed_s: float = 0.0,
) -> Report:
    """Return the report of a document, of a manifest's `files`, and of what is in neither.

    Raises:
        KeyError, TypeError, ValueError: the document is no report.
    """
    return Report(
        path=document["path"],
        state=State(document["state"]),
        layout=document["layout"],
        step=document["step"],
        files=document["files"],
        size=document["bytes"],
        bytes_read=document["bytes_read"],
        seconds=document["seconds"],
        problems=tuple(
            Problem(row["file"], row["reason"], Weight(row["weight"]))
            for row in document["problems"]
        ),
        digests={name: FileDigest(**entry) for name, entry in digests.items()},
        missing=missing,
        changed_s=changed_s,
    )


def state_of(problems: Iterable[Problem]) -> State:
    """Return the state of a checkpoint with these problems."""
    weights = {problem.weight for problem in problems}
    if weights & {Weight.DANGER, Weight.DAMAGE}:
        return State.DAMAGED
    return State.UNKNOWN if Weight.UNKNOWN in weights else State.VERIFIED

"""The node's checkpoints on disk: one file each, with the manifest of its newest verification."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepwatch.agent.checkpoints.result import FileDigest
from stepwatch.agent.keys import AttemptKey
from stepwatch.signals.durable import replace

logger = logging.getLogger(__name__)

MOST_OF_JOB, MOST = 64, 1024
"""Maximum number of checkpoints per job and in total; the first reported are dropped first."""
NEVER_S = float("inf")


@dataclass
class KnownCheckpoint:
    """One path and its verification; moments are Unix seconds.

    `user` is the id of the ring's owner. `due_s` is when it is read next. `state` is the name of a
    `Verification`. `verified_s` is 0 until it verified, and `changed_s` the newest change of its
    files then. `tries` counts readings without a result. `is_suspect` marks a good checkpoint that
    one reading found damaged.
    """

    job: str
    attempt: int
    rank: int
    step: int
    path: str
    user: int
    reported_s: float
    due_s: float
    state: str = "unknown"
    reason: str = ""
    verified_s: float = 0.0
    changed_s: float = 0.0
    tries: int = 0
    is_suspect: bool = False

    @property
    def key(self) -> AttemptKey:
        """The attempt that saved it."""
        return AttemptKey(self.job, self.attempt)

    @property
    def name(self) -> str:
        """The name of its file in the register."""
        place = json.dumps([self.job, self.path]).encode()
        return f"{hashlib.sha256(place).hexdigest()[:32]}.json"


class Register:
    """Checkpoints in `folder` by job and path; digests stay on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: dict[str, KnownCheckpoint] = {}
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                document = json.loads(path.read_bytes())
                entry = KnownCheckpoint(**document["checkpoint"])
                self.entries[entry.name] = entry
        self._ordered()

    def of_job(self, job: str) -> Iterator[KnownCheckpoint]:
        """Yield a job's checkpoints, the first reported one first."""
        return (entry for entry in list(self.entries.values()) if entry.job == job)

    def put(self, entry: KnownCheckpoint, digests: Mapping[str, FileDigest] | None = None) -> None:
        """Store a checkpoint, with new digests or with those that it has."""
        kept = self.digests(entry) if digests is None else digests
        document: dict[str, Any] = {
            "checkpoint": asdict(entry),
            "files": {name: [item.size, item.sha256] for name, item in kept.items()},
        }
        is_new = entry.name not in self.entries
        self.entries[entry.name] = entry
        if is_new:
            self._bound(entry.job)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            replace(self.folder / entry.name, json.dumps(document).encode(), mode=0o600)
        except OSError as error:
            logger.warning("cannot keep the checkpoint %s: %s", entry.path, error)

    def remove(self, entry: KnownCheckpoint) -> None:
        """Forget a checkpoint."""
        self.entries.pop(entry.name, None)
        with contextlib.suppress(OSError):
            (self.folder / entry.name).unlink(missing_ok=True)

    def digests(self, entry: KnownCheckpoint) -> dict[str, FileDigest]:
        """Return a checkpoint's digests by relative path; empty if there are none."""
        try:
            document = json.loads((self.folder / entry.name).read_bytes())
            return {name: FileDigest(*item) for name, item in document["files"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _bound(self, job: str) -> None:
        of_job = [entry for entry in self.entries.values() if entry.job == job]
        for entry in of_job[: max(0, len(of_job) - MOST_OF_JOB)]:
            self.remove(entry)
        for entry in [*self.entries.values()][: max(0, len(self.entries) - MOST)]:
            self.remove(entry)

    def _ordered(self) -> None:
        entries = sorted(self.entries.items(), key=lambda item: item[1].reported_s)
        self.entries = dict(entries)

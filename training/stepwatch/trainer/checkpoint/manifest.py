"""The manifest of one checkpoint: size and digest of every file, and identity of the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stepwatch.trainer.durable import content_digest, file_digest, json_bytes, write_durably

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 1
LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class FileEntry:
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class CheckpointManifest:
    """The content of a checkpoint.

    `identity` must be equal in the run that resumes from it, `run` is the run manifest, `progress`
    holds world, mesh, optimizer steps and sequences read.
    """

    step: int
    identity: dict[str, Any]
    progress: dict[str, Any]
    run: dict[str, Any]
    files: dict[str, FileEntry] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files.values())


def write_manifest(directory: Path, manifest: CheckpointManifest) -> None:
    """Write the manifest durably, with its own digest inside.

    Raises:
        OSError: the directory cannot be written.
    """
    body = {"version": FORMAT_VERSION, **asdict(manifest)}
    body["sha256"] = content_digest(body)
    write_durably(directory / MANIFEST_NAME, json_bytes(body))


def read_manifest(directory: Path) -> CheckpointManifest:
    """Read and check the manifest of a checkpoint.

    Raises:
        ValueError: it is missing, too large, damaged or of another version; the message is the
            reason.
    """
    path = directory / MANIFEST_NAME
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise ValueError("its manifest is too large")
        body = json.loads(path.read_bytes())
        if body.pop("sha256") != content_digest(body):
            raise ValueError("its manifest does not match its own digest")
        if (version := body.pop("version")) != FORMAT_VERSION:
            raise ValueError(
                f"its format version is {version}, this release reads {FORMAT_VERSION}"
            )
        files = {name: FileEntry(**entry) for name, entry in body.pop("files").items()}
        return CheckpointManifest(files=files, **body)
    except OSError as error:
        raise ValueError(f"its manifest cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError("its manifest is damaged (not JSON)") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its manifest is damaged ({error})") from error


def entry_of(path: Path) -> FileEntry:
    """Return size and digest of a file as it is now.

    Raises:
        OSError: it cannot be read.
    """
    return FileEntry(path.stat().st_size, file_digest(path))


def file_error(directory: Path, name: str, entry: FileEntry) -> str | None:
    """Read one file back from storage; returns the reason why it is invalid, or None."""
    if Path(name).name != name:
        return f"{name!r} is not a plain file name"
    path = directory / name
    try:
        if (size := path.stat().st_size) != entry.size:
            return f"{name} has {size} bytes instead of {entry.size}"
        if file_digest(path, from_storage=True) != entry.sha256:
            return f"{name} does not match its digest"
    except OSError as error:
        return f"{name}: {error.strerror}"
    return None

"""The manifest of one checkpoint: size and digest of every file, and identity of the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stepwatch.signals.durable import write_durably
from stepwatch.trainer.integrity import (
    UnreadableError,
    file_digest,
    file_error,
    read_sealed,
    sealed_bytes,
)

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 1


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
    write_durably(directory / MANIFEST_NAME, sealed_bytes(asdict(manifest), FORMAT_VERSION))


def read_manifest(directory: Path) -> CheckpointManifest:
    """Read and check the manifest of a checkpoint.

    Raises:
        ValueError: it is missing, too large, damaged or of another version; the message is the
            reason.
        UnreadableError: it could not be read.
    """
    try:
        body = read_sealed(directory / MANIFEST_NAME, FORMAT_VERSION)
        files = {name: FileEntry(**entry) for name, entry in body.pop("files").items()}
        return CheckpointManifest(files=files, **body)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its manifest is damaged ({error})") from error
    except UnreadableError as error:
        raise UnreadableError(f"its manifest {error}") from error
    except ValueError as error:
        raise ValueError(f"its manifest {error}") from error


def entry_of(path: Path) -> FileEntry:
    """Return size and digest of a file as it is now.

    Raises:
        OSError: it cannot be read.
    """
    return FileEntry(path.stat().st_size, file_digest(path))


def entry_error(directory: Path, name: str, entry: FileEntry) -> str | None:
    """Read one file back from storage; returns the reason why it is invalid, or None."""
    return file_error(directory, name, entry.size, entry.sha256, from_storage=True)

"""One checkpoint's manifest: size and digest of every file, and the run's identity."""

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
    """One file's size in bytes and SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True)
class CheckpointManifest:
    """The content of a checkpoint.

    `identity` must be equal in the run that resumes from it, `run` is the run manifest, `progress`
    holds world, mesh, optimizer steps and the number of sequences read.
    """

    step: int
    identity: dict[str, Any]
    progress: dict[str, Any]
    run: dict[str, Any]
    files: dict[str, FileEntry] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(entry.size for entry in self.files.values())


def write_manifest(directory: Path, manifest: CheckpointManifest) -> None:
    """Write the manifest durably, with its own digest inside.

    Raises:
        OSError: the directory cannot be written.
    """
    write_durably(directory / MANIFEST_NAME, sealed_bytes(asdict(manifest), FORMAT_VERSION))


def read_manifest(directory: Path) -> CheckpointManifest:
    """Read and check a checkpoint's manifest.

    Raises:
        ValueError: it is missing, too large, damaged or has another version; the message is the
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
    """Return a file's current size and digest.

    Raises:
        OSError: it cannot be read.
    """
    return FileEntry(path.stat().st_size, file_digest(path))


def entry_error(directory: Path, name: str, entry: FileEntry) -> str | None:
    """Read one file from storage; return the reason why it is invalid, or None."""
    return file_error(directory, name, entry.size, entry.sha256, from_storage=True)

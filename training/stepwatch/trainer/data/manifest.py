"""A sharded dataset's manifest: size and digest of every shard and source file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import DataError
from stepwatch.trainer.integrity import content_digest, read_sealed, sealed_bytes

from .source import SourceFile

MANIFEST_NAME = "manifest.json"
MANIFEST_VERSION = 1
_ADVICE = "remove this file to build the shards again"


@dataclass(frozen=True)
class Shard:
    """One shard: file name, size in bytes, SHA-256, tokens (one per byte)."""

    file: str
    size: int
    sha256: str
    tokens: int


@dataclass(frozen=True)
class Manifest:
    """Shards in order, and the source files that they hold."""

    root: str
    shards: tuple[Shard, ...]
    sources: tuple[SourceFile, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the shards' names and digests: the data's identity."""
        return content_digest([asdict(shard) for shard in self.shards])


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest for `directory` durably, with its own digest inside.

    Raises:
        OSError: the directory cannot be written.
    """
    write_durably(directory / MANIFEST_NAME, sealed_bytes(asdict(manifest), MANIFEST_VERSION))


def _parsed(body: dict[str, Any]) -> Manifest:
    return Manifest(
        root=str(body["root"]),
        shards=tuple(Shard(**row) for row in body["shards"]),
        sources=tuple(SourceFile(**row) for row in body["sources"]),
    )


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest in `directory`.

    Raises:
        DataError: it is missing, too large, damaged or has another version.
    """
    path = directory / MANIFEST_NAME
    try:
        return _parsed(read_sealed(path, MANIFEST_VERSION))
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); {_ADVICE}") from error
    except ValueError as error:
        raise DataError(f"{path} {error}; {_ADVICE}") from error

"""The manifest of a sharded dataset: size and digest of every shard and source file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepwatch.signals.errors import DataError
from stepwatch.trainer.durable import content_digest, json_bytes, write_durably

from .source import SourceFile

MANIFEST_NAME = "manifest.json"
MANIFEST_VERSION = 1
LIMIT_BYTES = 64 << 20
"""A larger manifest is refused before it is read."""


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
        """SHA-256 of the shards' names and digests: the identity of the data."""
        return content_digest([asdict(shard) for shard in self.shards])


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest of `directory` durably, with its own digest inside.

    Raises:
        OSError: the directory cannot be written.
    """
    body = {"version": MANIFEST_VERSION, **asdict(manifest)}
    body["sha256"] = content_digest(body)
    write_durably(directory / MANIFEST_NAME, json_bytes(body))


def _parsed(body: dict[str, Any]) -> Manifest:
    return Manifest(
        root=str(body["root"]),
        shards=tuple(Shard(**row) for row in body["shards"]),
        sources=tuple(SourceFile(**row) for row in body["sources"]),
    )


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of `directory`.

    Raises:
        DataError: it is missing, too large, damaged or of another version.
    """
    path = directory / MANIFEST_NAME
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise DataError(f"{path} is larger than {LIMIT_BYTES} bytes: not a manifest")
        body = json.loads(path.read_bytes())
        claimed = body.pop("sha256")
        # JSON turns the tuples of asdict into lists, so the digest is of the parsed form.
        if claimed != content_digest(body):
            raise DataError(
                f"{path} does not match its own digest: remove {directory} to rebuild it"
            )
        if body["version"] != MANIFEST_VERSION:
            raise DataError(f"{path} has version {body['version']}, this release reads 1")
        return _parsed(body)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not a manifest ({error}): remove {directory}") from error

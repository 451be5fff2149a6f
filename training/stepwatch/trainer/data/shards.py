"""Builds shards from source text, and verifies them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stepwatch.signals.durable import sync
from stepwatch.signals.errors import DataError
from stepwatch.trainer.integrity import UnreadableError, file_error

from .manifest import MANIFEST_NAME, Manifest, Shard, read_manifest, write_manifest
from .source import SourceFile, chosen_source, read_source

SHARD_BYTES = 1 << 20


def _write_shard(directory: Path, index: int, content: bytes) -> Shard:
    name = f"shard-{index:05d}.bin"
    path = directory / name
    path.write_bytes(content)
    sync(path)
    return Shard(name, len(content), hashlib.sha256(content).hexdigest(), len(content))


def build_shards(directory: Path, data: str | None, limit_bytes: int) -> Manifest:
    """Cut the source text into shards with `SHARD_BYTES` under `directory` and write the manifest.

    Files are joined by a newline; the same text always gives the same shards.

    Raises:
        DataError: there is no text, or a file or the directory cannot be used.
    """
    source = chosen_source(data)
    shards: list[Shard] = []
    sources: list[SourceFile] = []
    buffer = bytearray()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for entry, content in read_source(source, limit_bytes):
            sources.append(entry)
            buffer += content + b"\n"
            while len(buffer) >= SHARD_BYTES:
                shards.append(_write_shard(directory, len(shards), bytes(buffer[:SHARD_BYTES])))
                del buffer[:SHARD_BYTES]
        if not sources:
            raise DataError(f"no text in {source.root}: it must hold a non-empty text file")
        if buffer:
            shards.append(_write_shard(directory, len(shards), bytes(buffer)))
        manifest = Manifest(str(source.root), tuple(shards), tuple(sources))
        write_manifest(directory, manifest)
    except OSError as error:
        raise DataError(f"cannot write shards to {directory}: {error.strerror}") from error
    return manifest


def check_sources(manifest: Manifest, data: str | None, limit_bytes: int) -> None:
    """Compare the source text with the shards' manifest.

    Raises:
        DataError: the source differs, or a file changed, appeared or vanished.
    """
    source = chosen_source(data)
    advice = "put it back, or start a new --run-dir"
    if str(source.root) != manifest.root:
        raise DataError(f"the shards were made from {manifest.root}, not {source.root}: {advice}")
    expected = {entry.path: entry for entry in manifest.sources}
    for entry, _ in read_source(source, limit_bytes):
        if expected.pop(entry.path, None) != entry:
            raise DataError(f"{source.root / entry.path} changed since its manifest: {advice}")
    for path in expected:
        raise DataError(f"{source.root / path} vanished since its manifest: {advice}")


def prepare_shards(directory: Path, data: str | None, limit_bytes: int) -> Manifest:
    """Return the manifest for the shards in `directory`; build the shards first if there are none.

    `data` may itself be a directory with shards and a manifest; then nothing is built.

    Raises:
        DataError: see `build_shards`, `check_sources` and `read_manifest`.
    """
    if data is not None and (Path(data) / MANIFEST_NAME).is_file():
        return read_manifest(Path(data))
    if not (directory / MANIFEST_NAME).is_file():
        return build_shards(directory, data, limit_bytes)
    manifest = read_manifest(directory)
    check_sources(manifest, data, limit_bytes)
    return manifest


def shard_error(directory: Path, shard: Shard) -> str | None:
    """Return the reason why a shard is invalid, or None for a valid one."""
    try:
        return file_error(directory, shard.file, shard.size, shard.sha256)
    except UnreadableError as error:  # a run without it is as good: nothing is moved
        return str(error)

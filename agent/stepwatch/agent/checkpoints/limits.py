"""Bounds of a verification: a damaged file claims anything."""

from __future__ import annotations

from dataclasses import dataclass

PAGE = 4096
"""Bytes of a memory page, the unit in which file systems and caches lose data."""


@dataclass(frozen=True)
class Limits:
    """Bounds in bytes, seconds and counts; beyond them a file is unknown, never allocated."""

    chunk_bytes: int = 4 << 20
    """Bytes per read, a multiple of a page."""
    ahead: int = 4
    """Chunks that are read before their turn, since a thread waits for a busy processor."""
    drop_bytes: int = 64 << 20
    """Bytes that are read before their copy in memory is dropped: each drop waits for all CPUs."""
    pickle_bytes: int = 512 << 20
    """A pickle. DCP's `.metadata` has about 400 bytes a chunk: a million chunks fit."""
    directory_bytes: int = 512 << 20
    """A zip file's central directory: four million members."""
    header_bytes: int = 100_000_000
    """A safetensors header; the library refuses a larger one (safetensors `MAX_HEADER_SIZE`)."""
    json_bytes: int = 256 << 20
    """A JSON file; the largest tokenizers have 40 MB."""
    text_bytes: int = 1 << 20
    """The part of a text file that is searched for secrets."""
    entries: int = 200_000
    """Files and folders below the path."""
    depth: int = 16
    """Folders inside each other."""
    memory_bytes: int = 4 << 30
    """Memory that the verifying process may add: a pickle's values need ten times its bytes."""
    settle_seconds: float = 60.0
    """A folder that changed so recently may still be written: NFS shows changes after 60 s."""
    problems_per_file: int = 5
    """Problems that are listed for one file; the number of the others follows."""

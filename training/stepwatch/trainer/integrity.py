"""File integrity: digests, and JSON documents that hold their own digest."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 20
DOCUMENT_LIMIT_BYTES = 64 << 20
"""A larger document is refused before it is read."""


class UnreadableError(ValueError):
    """A file that exists and could not be read; its content may be valid."""


def file_digest(path: Path, *, from_storage: bool = False) -> str:
    """Return a file's SHA-256 as hex.

    Args:
        path: the file's path.
        from_storage: drop the kernel's cached pages first, so that the bytes come from the storage.
    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        if from_storage:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def file_error(
    directory: Path, name: str, size: int, sha256: str, *, from_storage: bool = False
) -> str | None:
    """Compare a file with its size in bytes and its digest.

    Return the reason why it is invalid, or None. A name with a folder in it is invalid.

    Raises:
        UnreadableError: it could not be read.
    """
    if Path(name).name != name:
        return f"{name} is not a plain file name"
    path = directory / name
    try:
        if (actual_size := path.stat().st_size) != size:
            return f"{name} has {actual_size} bytes instead of {size}"
        if file_digest(path, from_storage=from_storage) != sha256:
            return f"{name} does not match its digest"
    except FileNotFoundError as error:
        return f"{name}: {error.strerror}"
    except OSError as error:
        raise UnreadableError(f"{name}: {error.strerror}") from error
    return None


def json_bytes(value: Any) -> bytes:
    """Encode as indented JSON with sorted keys; equal values give equal bytes."""
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def content_digest(value: Any) -> str:
    """Return the SHA-256, as hex, of a JSON value's canonical form."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def sealed_bytes(body: dict[str, Any], version: int) -> bytes:
    """Encode a document with its format version and the digest of both."""
    document = {"version": version, **body}
    return json_bytes({**document, "sha256": content_digest(document)})


def read_sealed(path: Path, version: int) -> dict[str, Any]:
    """Read a document that `sealed_bytes` encoded, and check size, digest and version.

    Raises:
        ValueError: the document is invalid; the message is the reason, to follow its name.
        UnreadableError: it could not be read.
    """
    try:
        if path.stat().st_size > DOCUMENT_LIMIT_BYTES:
            raise ValueError(f"is larger than {DOCUMENT_LIMIT_BYTES} bytes")
        document = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError("is damaged (not JSON)") from error
    if not isinstance(document, dict) or not {"sha256", "version"} <= set(document):
        raise ValueError("is damaged (no digest or version)")
    # JSON turns tuples into lists, so the digest covers the parsed form.
    if document.pop("sha256") != content_digest(document):
        raise ValueError("does not match its own digest")
    if (actual_version := document.pop("version")) != version:
        raise ValueError(f"has format version {actual_version}, this release reads {version}")
    return document

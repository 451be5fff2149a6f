"""Object storage for bundle payloads: a directory, or an object store through fsspec.

Only bundles are stored as objects. They are few and large, and no request waits for them: an
agent's data is acknowledged once the database has it, even if the object store is down.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa

from stepwatch.signals.durable import sync, write_durably
from stepwatch.signals.errors import SegmentError, StoreError

MAX_URL = 160
"""Maximum length of the base URL in characters, so that a row can hold each object's URL."""
_AHEAD = 4
"""Number of objects to prefetch."""


class ObjectsUnreachable(sa.exc.SQLAlchemyError):
    """The object store does not answer; the caller retries, as for a database."""


class Listed(NamedTuple):
    """A stored object: its URL, and its write time in Unix seconds."""

    url: str
    written_s: float


class Objects(Protocol):
    """An object store. Every method raises `ObjectsUnreachable` if the store does not answer."""

    def put(self, url: str, data: bytes) -> None:
        """Write an object; it is durable when this returns."""
        ...

    def get(self, url: str) -> bytes:
        """Read an object.

        Raises:
            SegmentError: the object does not exist.
        """
        ...

    def listed(self, url: str) -> list[Listed]:
        """Return all objects below a URL."""
        ...

    def remove(self, url: str) -> None:
        """Remove an object, if it exists."""
        ...


class Reference(NamedTuple):
    """Location of a bundle's bytes: in its row, or in an object with a size and checksum."""

    payload: bytes | None
    object: str | None
    size: int
    crc32: int


def fetched(reference: Reference) -> bytes:
    """Return a bundle's bytes.

    Raises:
        SegmentError: the object does not exist, or it differs from the object that was written.
        ObjectsUnreachable: the object store does not answer.
    """
    if reference.payload is not None:
        return bytes(reference.payload)
    if reference.object is None:
        raise SegmentError("its bundle has no bytes")
    data = place_of(reference.object).get(reference.object)
    if (len(data), zlib.crc32(data)) != (reference.size, reference.crc32):
        raise SegmentError(f"the object {reference.object} is not the one that was written")
    return data


def fetched_ahead(references: Iterable[Reference]) -> Iterator[Future[bytes]]:
    """Yield futures for bundle bytes in order, with prefetch; `result` raises as `fetched` does."""
    waiting: list[Future[bytes]] = []
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="objects") as pool:
        for reference in references:
            waiting.append(pool.submit(fetched, reference))
            if len(waiting) > _AHEAD:
                yield waiting.pop(0)
        yield from waiting


def checked_url(text: str) -> str:
    """Return the payload location as a URL without a trailing slash.

    Raises:
        StoreError: the location is not an object store, or the URL is too long.
    """
    url = text if "://" in text else Path(text).resolve().as_uri()
    if url.startswith("file://"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise StoreError(f"{parts.netloc} is another machine; name a directory of this one")
        # The same form as in a directory listing: URLs are compared as text.
        url = Path(unquote(parts.path)).resolve().as_uri()
    if len(url) > MAX_URL:
        raise StoreError(f"the place of payloads has more than {MAX_URL} characters")
    place_of(url)
    return url.rstrip("/")


def place_of(url: str) -> Objects:
    """Return the reader and writer for an object URL.

    Raises:
        StoreError: no installed package supports the URL's scheme.
    """
    scheme = url.partition("://")[0]
    return Directory() if scheme == "file" else _remote(scheme)


class Directory:
    """Objects as files."""

    def put(self, url: str, data: bytes) -> None:
        """Write a file durably, with its directory."""
        path = _path(url)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_durably(path, data)
            for folder in list(path.parents)[1:3]:  # the job's directory may be new
                sync(folder)
        except OSError as error:
            raise ObjectsUnreachable(f"cannot write {path}: {error.strerror}") from error

    def get(self, url: str) -> bytes:
        """Read a file."""
        try:
            return _path(url).read_bytes()
        except FileNotFoundError as error:
            place = _path(url).parents[1]
            if not place.is_dir():  # it may not be mounted, so the file may still exist
                raise ObjectsUnreachable(f"there is no directory {place}") from error
            raise SegmentError(f"there is no object {url}") from error
        except OSError as error:
            raise ObjectsUnreachable(f"cannot read {url}: {error.strerror}") from error

    def listed(self, url: str) -> list[Listed]:
        """Return all files below a directory; an absent directory has none."""
        try:
            paths = [path for path in _path(url).rglob("*") if path.is_file()]
            return [Listed(path.as_uri(), path.stat().st_mtime) for path in paths]
        except OSError as error:
            raise ObjectsUnreachable(f"cannot list {url}: {error.strerror}") from error

    def remove(self, url: str) -> None:
        """Remove a file."""
        try:
            _path(url).unlink(missing_ok=True)
        except OSError as error:
            raise ObjectsUnreachable(f"cannot remove {url}: {error.strerror}") from error


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


@lru_cache(maxsize=8)
def _remote(scheme: str) -> Objects:
    try:
        import fsspec

        return Remote(fsspec.filesystem(scheme), _failures(scheme))
    except (ImportError, ValueError) as error:
        raise StoreError(
            f"payloads in {scheme}:// need a missing package: {error}; "
            "pip install 'stepwatch[object-store]', or pass another --payloads"
        ) from error


def _failures(scheme: str) -> tuple[type[Exception], ...]:
    """Return the exceptions that a file system raises when its store does not answer."""
    if scheme != "s3":
        return (OSError,)
    from aiohttp import ClientError as ConnectionBroken
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return (OSError, BotoCoreError, ClientError, ResponseParserError, ConnectionBroken)


class Remote:
    """Objects in an fsspec file system, without a listing cache."""

    def __init__(self, files: Any, failures: tuple[type[Exception], ...]) -> None:
        self._files = files
        self._failures = failures

    def put(self, url: str, data: bytes) -> None:
        """Write an object in one request; the store answers once the object is durable."""
        try:
            self._files.pipe_file(url, data)
        except self._failures as error:
            raise ObjectsUnreachable(f"cannot write {url}: {error}") from error

    def get(self, url: str) -> bytes:
        """Read an object."""
        try:
            return bytes(self._files.cat_file(url))
        except FileNotFoundError as error:
            if _without_bucket(error):
                raise ObjectsUnreachable(f"there is no bucket of {url}") from error
            raise SegmentError(f"there is no object {url}") from error
        except self._failures as error:
            raise ObjectsUnreachable(f"cannot read {url}: {error}") from error

    def listed(self, url: str) -> list[Listed]:
        """Return all objects below a prefix."""
        try:
            self._files.invalidate_cache()
            entries = self._files.find(url, detail=True)
        except self._failures as error:
            raise ObjectsUnreachable(f"cannot list {url}: {error}") from error
        scheme = url.partition("://")[0]
        return [
            Listed(f"{scheme}://{name}", info["LastModified"].timestamp())
            for name, info in entries.items()
        ]

    def remove(self, url: str) -> None:
        """Remove an object."""
        try:
            self._files.rm_file(url)
        except FileNotFoundError:
            return
        except self._failures as error:
            raise ObjectsUnreachable(f"cannot remove {url}: {error}") from error


def _without_bucket(error: FileNotFoundError) -> bool:
    """Return whether the bucket is absent; s3fs raises the same error for an absent object."""
    response = getattr(error.__cause__, "response", None)
    return isinstance(response, dict) and response.get("Error", {}).get("Code") == "NoSuchBucket"

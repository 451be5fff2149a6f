"""Payloads of bundles as objects: in a directory, or in an object store through fsspec.

Only bundles go there. They are few and large, and nobody waits for them: what an agent sent is
acknowledged once the database has it, whether the object store answers or not.
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
"""Characters of the place of all objects, so that a row can hold the URL of each."""
_AHEAD = 4
"""Objects that are fetched while the ones before them are used."""


class ObjectsUnreachable(sa.exc.SQLAlchemyError):
    """The place of payloads does not answer; it is tried again, as a database is."""


class Listed(NamedTuple):
    """An object that is there: its URL, and when (Unix seconds) it was written."""

    url: str
    written_s: float


class Objects(Protocol):
    """A place of objects. Every method raises `ObjectsUnreachable` if it does not answer."""

    def put(self, url: str, data: bytes) -> None:
        """Write an object; it is durable when this returns."""
        ...

    def get(self, url: str) -> bytes:
        """Read an object.

        Raises:
            SegmentError: there is none.
        """
        ...

    def listed(self, url: str) -> list[Listed]:
        """All objects below a place."""
        ...

    def remove(self, url: str) -> None:
        """Remove an object, if it is there."""
        ...


class Reference(NamedTuple):
    """Where the bytes of a bundle are: in its row, or an object of a size and checksum."""

    payload: bytes | None
    object: str | None
    size: int
    crc32: int


def fetched(reference: Reference) -> bytes:
    """The bytes of a bundle.

    Raises:
        SegmentError: there is no such object, or it is not the one that was written.
        ObjectsUnreachable: it cannot be asked for now.
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
    """The bytes of bundles, in their order, those of some ahead; `result` raises as `fetched`."""
    waiting: list[Future[bytes]] = []
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="objects") as pool:
        for reference in references:
            waiting.append(pool.submit(fetched, reference))
            if len(waiting) > _AHEAD:
                yield waiting.pop(0)
        yield from waiting


def checked_url(text: str) -> str:
    """The place of payloads as a URL, without a slash at its end.

    Raises:
        StoreError: it is no place of objects, or too long.
    """
    url = text if "://" in text else Path(text).resolve().as_uri()
    if url.startswith("file://"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise StoreError(f"{parts.netloc} is another machine; name a directory of this one")
        # As a directory is listed: what is compared must be written the same way.
        url = Path(unquote(parts.path)).resolve().as_uri()
    if len(url) > MAX_URL:
        raise StoreError(f"the place of payloads has more than {MAX_URL} characters")
    place_of(url)
    return url.rstrip("/")


def place_of(url: str) -> Objects:
    """What reads and writes objects of a URL.

    Raises:
        StoreError: nothing that is installed does.
    """
    scheme = url.partition("://")[0]
    return Directory() if scheme == "file" else _remote(scheme)


class Directory:
    """Objects are files."""

    def put(self, url: str, data: bytes) -> None:
        """Write a file and its directory to disk."""
        path = _path(url)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_durably(path, data)
            for folder in list(path.parents)[1:3]:  # the directory of a job may be new
                sync(folder)
        except OSError as error:
            raise ObjectsUnreachable(f"cannot write {path}: {error.strerror}") from error

    def get(self, url: str) -> bytes:
        """Read a file."""
        try:
            return _path(url).read_bytes()
        except FileNotFoundError as error:
            place = _path(url).parents[1]
            if not place.is_dir():  # it may not be mounted: nothing is known of its files
                raise ObjectsUnreachable(f"there is no directory {place}") from error
            raise SegmentError(f"there is no object {url}") from error
        except OSError as error:
            raise ObjectsUnreachable(f"cannot read {url}: {error.strerror}") from error

    def listed(self, url: str) -> list[Listed]:
        """All files below a directory; none where there is no directory."""
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
            f"payloads in {scheme}:// need what is not installed: {error}; "
            "pip install 'stepwatch[object-store]', or pass another --payloads"
        ) from error


def _failures(scheme: str) -> tuple[type[Exception], ...]:
    """What a file system raises when its store does not answer."""
    if scheme != "s3":
        return (OSError,)
    from aiohttp import ClientError as ConnectionBroken
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return (OSError, BotoCoreError, ClientError, ResponseParserError, ConnectionBroken)


class Remote:
    """Objects of an fsspec file system, which knows nothing but what it is asked each time."""

    def __init__(self, files: Any, failures: tuple[type[Exception], ...]) -> None:
        self._files = files
        self._failures = failures

    def put(self, url: str, data: bytes) -> None:
        """Write an object in one request; the store answers when it is durable."""
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
        """All objects below a prefix."""
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
    """Whether it is the bucket that is not there; s3fs raises the same for both."""
    response = getattr(error.__cause__, "response", None)
    return isinstance(response, dict) and response.get("Error", {}).get("Code") == "NoSuchBucket"

"""An answer: its head, and its body in pieces, within bounds for size and time."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any

from .errors import AnswerError, AnswerTimeout, CutOffError

MOST_BYTES = 256 << 20
"""Far above a collector's largest answer, the heat map for 16,384 ranks."""
MOST_SECONDS = 300.0
"""Seconds from an answer's head to its end, unless the reader passes fewer."""
_PIECE = 64 << 10


class Answer:
    """The answer to a request; `headers` have lower-case names.

    The body is read once, either by `pieces` or by `read`.
    """

    def __init__(self, response: HTTPResponse, reader: TimedReader, most_bytes: int) -> None:
        """Check the head.

        Raises:
            AnswerError: the body is compressed, which was not asked for.
        """
        self._response, self._reader, self._most = response, reader, most_bytes
        self.status_code = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.getheaders():
            key = name.lower()
            self.headers[key] = f"{self.headers[key]}, {value}" if key in self.headers else value
        self.content = b""
        """The body, after `read`."""
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            # A few kilobytes of it may expand to gigabytes.
            raise AnswerError(f"the answer is compressed ({coding[:40]}), which was not asked for")

    def pieces(self, seconds: float = MOST_SECONDS) -> Iterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            HttpError: the connection ends early, or the body is too long or has not ended within
                `seconds`.
        """
        self._reader.allow(seconds)
        size = 0
        while piece := self._piece():
            size += len(piece)
            if size > self._most:
                raise AnswerError(f"the answer is longer than {self._most} bytes")
            yield piece

    def read(self) -> bytes:
        """Read the body into `content`, and return it.

        Raises:
            HttpError: see `pieces`.
        """
        self.content = b"".join(self.pieces())
        return self.content

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the body's JSON document.

        Raises:
            ValueError: it is none.
        """
        return json.loads(self.content)

    def close(self) -> bool:
        """Release the answer, and return whether its connection can take another request."""
        reusable = self._is_whole and not self._response.will_close
        self._response.close()
        return reusable

    def _piece(self) -> bytes:
        try:
            piece = self._response.read1(_PIECE)
        except TimeoutError as error:
            raise AnswerTimeout(str(error)) from error
        except (OSError, HTTPException, ValueError) as error:  # ValueError: no size of a chunk
            raise CutOffError(str(error) or type(error).__name__) from error
        if not piece and not self._is_whole:
            raise CutOffError("the connection ended before the answer did")
        return piece

    @property
    def _is_whole(self) -> bool:
        if self._response.chunked:
            return self._response.isclosed()
        return not self._response.length  # None lasts until the connection ends


class TimedReader(io.RawIOBase):
    """Reads a socket until a time: a timeout of the socket begins anew with each byte."""

    def __init__(self, connected: socket.socket, seconds: float) -> None:
        """Allow `seconds` for each read, and for all reads until `allow`."""
        self._socket, self._each = connected, seconds
        self._raw = connected.makefile("rb", buffering=0)
        self.allow(seconds)

    def allow(self, seconds: float) -> None:
        """Allow this much time from now on."""
        self._whole, self._end = seconds, time.monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what has arrived.

        Raises:
            TimeoutError: nothing arrived in time, or the time is over.
        """
        remaining_s = self._end - time.monotonic()
        if remaining_s > 0:
            self._socket.settimeout(min(self._each, remaining_s))
            with contextlib.suppress(TimeoutError):
                return self._raw.readinto(buffer)
        if remaining_s > self._each:
            raise TimeoutError(f"nothing arrived within {self._each:g} s")
        raise TimeoutError(f"the answer has not ended within {self._whole:g} s")

    def close(self) -> None:
        """Close this end; the connection closes the socket."""
        self._raw.close()
        super().close()

"""Requests below one base URL, from several threads."""

from __future__ import annotations

import io
import json as encoder
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

from .address import Address, Parameters
from .answer import MOST_BYTES, Answer, TimedReader
from .connections import Connections
from .errors import AnswerTimeout, CutOffError

_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "stepwatch"}
_PIECE = 64 << 10


class Client:
    """Sends requests to paths below `url`; an answer is compressed or redirected for no caller.

    `seconds` is the deadline to connect, for each part that is sent, for the answer's head, and
    between two parts of its body. `authorization` returns the header's value at each request.

    Raises:
        ValueError: the URL is not one.
        ConfigurationError: the environment's proxy cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        seconds: float = 10.0,
        authorization: Callable[[], str | None] | None = None,
        context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.address = Address.parse(url)
        self.authorization = authorization or (lambda: self.address.basic)
        self._seconds, self._most = seconds, most_bytes
        self._connections = Connections(self.address, context)

    def __enter__(self) -> Client:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; later requests fail."""
        self._connections.close()

    def get(self, path: str, params: Parameters | None = None) -> Answer:
        """GET `path` and return the answer with its body.

        Raises:
            HttpError: there is no usable answer.
        """
        return self.request("GET", path, params=params)

    def request(self, method: str, path: str, **sent: Any) -> Answer:
        """Send a request, with the options of `stream`, and return the answer with its body.

        Raises:
            HttpError: there is no usable answer.
        """
        with self.stream(method, path, **sent) as answer:
            answer.read()
        return answer

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Iterator[Answer]:
        """Send a request and yield the answer, whose body the caller reads.

        `json` is a document, `content` bytes; `seconds` replaces the client's.

        Raises:
            HttpError: there is no usable answer.
        """
        if json is not None:
            content = encoder.dumps(json).encode()
            headers = {"content-type": "application/json", **(headers or {})}
        limit_s = self._seconds if seconds is None else seconds
        target = self._connections.prefix + self.address.target(path, params)
        sent_headers = self._headers(headers, content)
        connection = self._connections.take(limit_s)
        reusable = False
        try:
            _send(connection, method, target, content, sent_headers)
            response, reader = _response(connection, limit_s)
            try:
                answer = Answer(response, reader, self._most)
                yield answer
                reusable = answer.close()
            finally:
                response.close()
        finally:
            if reusable:
                self._connections.give(connection)
            else:
                connection.close()

    def _headers(self, headers: Mapping[str, str] | None, content: bytes | None) -> dict[str, str]:
        optional = {
            "authorization": self.authorization(),
            "proxy-authorization": self._connections.proxy_authorization,
            "content-length": None if content is None else str(len(content)),
        }
        given = {name: value for name, value in optional.items() if value is not None}
        return {**_HEADERS, **given, **(headers or {})}


def _send(
    connection: HTTPConnection,
    method: str,
    target: str,
    content: bytes | None,
    headers: dict[str, str],
) -> None:
    try:
        connection.request(method, target, None if content is None else _parts(content), headers)
    except TimeoutError as error:
        raise AnswerTimeout(str(error)) from error
    except (BrokenPipeError, ConnectionResetError):
        pass  # a server may refuse a long body before its end: the answer tells
    except (OSError, HTTPException) as error:
        raise CutOffError(str(error) or type(error).__name__) from error


def _parts(content: bytes) -> Iterator[memoryview]:
    """Yield the content in parts: the socket's timeout is for each."""
    view = memoryview(content)
    for start in range(0, len(view), _PIECE):
        yield view[start : start + _PIECE]


def _response(connection: HTTPConnection, seconds: float) -> tuple[HTTPResponse, TimedReader]:
    """Return the answer's head, and the reader of its body."""
    reader = TimedReader(connection.sock, seconds)
    source: Any = _Source(reader)
    opened: Any = connection
    opened.response_class = lambda _, **named: HTTPResponse(source, **named)
    try:
        return connection.getresponse(), reader
    except TimeoutError as error:
        raise AnswerTimeout(str(error)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise CutOffError(str(error) or type(error).__name__) from error


class _Source:
    """What a response needs of a socket."""

    def __init__(self, reader: TimedReader) -> None:
        self._reader = reader

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader)

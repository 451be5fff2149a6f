"""An exporter's metrics page on this node, with bounds on size and time."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from stepwatch.signals.access.bounded import TooLongError, TooSlowError, read_within
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.http import Address, Answer, AnswerError, Client, HttpError

MAX_BYTES = 4 << 20
"""A page for eight devices with all Kubernetes labels has about 100 KiB."""
WAIT_SECONDS, WHOLE_SECONDS = 1.5, 3.0
"""Seconds per network answer and for the page, together less than the probe's deadline."""
_ACCEPT = {"accept": "text/plain; version=0.0.4"}
_TEXT = ("text/plain", "application/openmetrics-text")


def checked_url(url: str) -> str:
    """Return the URL with its path, by default `/metrics`.

    Raises:
        ConfigurationError: the URL is invalid or holds a password.
    """
    try:
        parts = urlsplit(url)
        Address.parse(url)
    except ValueError as error:
        raise ConfigurationError(
            f"{url!r} is not a URL; pass --dcgm http://127.0.0.1:9400/metrics"
        ) from error
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("--dcgm takes no password: let it listen on loopback instead")
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics"


class Endpoint:
    """One exporter; redirects are not followed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._client: Client | None = None

    def page(self) -> bytes:
        """Return the current page.

        Raises:
            OSError: the exporter does not answer in time, or answers with an error.
            ValueError: it serves something else, or the page is too long.
        """
        end = time.monotonic() + WHOLE_SECONDS
        try:
            with self._open().stream("GET", self._path, headers=_ACCEPT) as answer:
                _check(answer)
                return _body(answer, end)
        except AnswerError as error:
            raise ValueError(f"the exporter's page cannot be read: {error}") from error
        except HttpError as error:
            why = str(error) or type(error).__name__
            raise OSError(f"the exporter does not answer: {why}") from error

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> Client:
        # Opened in the probe's own process at the first read: a fork must not share a connection.
        if self._client is None:
            self._client = Client(self._origin, seconds=WAIT_SECONDS)
        return self._client


def _check(response: Answer) -> None:
    if response.status_code != 200:
        raise OSError(f"the exporter answers {response.status_code}")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TEXT:
        raise ValueError(f"the exporter serves {kind[:40] or 'nothing that it names'}, not metrics")


def _body(response: Answer, end: float) -> bytes:
    try:
        return read_within(response.pieces(), MAX_BYTES, end - time.monotonic())
    except TooLongError as error:
        raise ValueError(f"the exporter's page is longer than {MAX_BYTES >> 20} MiB") from error
    except TooSlowError as error:
        raise OSError(f"the exporter's page takes longer than {WHOLE_SECONDS:g} s") from error

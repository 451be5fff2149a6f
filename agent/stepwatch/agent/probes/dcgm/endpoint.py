"""The metrics page of an exporter on this node, within bounds of size and time."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import httpx

from stepwatch.signals import places
from stepwatch.signals.access.bounded import TooLongError, TooSlowError, read_within
from stepwatch.signals.errors import ConfigurationError

MAX_BYTES = 4 << 20
"""A page of eight devices with all labels of Kubernetes has some 100 KiB."""
WAIT_SECONDS, WHOLE_SECONDS = 1.5, 3.0
"""For each answer of the network, and for the page: together less than the probe's deadline."""
_TEXT = ("text/plain", "application/openmetrics-text")


def checked_url(url: str) -> str:
    """The URL with its path, `/metrics` where it has none.

    Raises:
        ConfigurationError: it is none that can be read, or has a password in it.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        is_valid = False
    if not is_valid:
        raise ConfigurationError(f"{url!r} is not a URL; pass --dcgm http://127.0.0.1:9400/metrics")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("--dcgm takes no password: let it listen on loopback instead")
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics"


class Endpoint:
    """One exporter by its URL; redirects are not followed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: httpx.Client | None = None

    def page(self) -> bytes:
        """What it serves now.

        Raises:
            OSError: it does not answer in time, or answers with an error.
            ValueError: what it serves is no such page, or too long.
        """
        end = time.monotonic() + WHOLE_SECONDS
        try:
            with self._open().stream("GET", self._url) as response:
                _check(response)
                return _body(response, end)
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise OSError(f"the exporter does not answer: {why}") from error

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> httpx.Client:
        # In the probe's own process, at the first read: a connection must not be shared by a fork.
        if self._client is None:
            self._client = httpx.Client(
                headers={"accept": "text/plain; version=0.0.4", "accept-encoding": "identity"},
                timeout=WAIT_SECONDS,
                follow_redirects=False,
                trust_env=places.may_use_proxy(self._url),
            )
        return self._client


def _check(response: httpx.Response) -> None:
    if response.status_code != 200:
        raise OSError(f"the exporter answers {response.status_code}")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TEXT:
        raise ValueError(f"the exporter serves {kind[:40] or 'nothing that it names'}, not metrics")
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ValueError(f"the exporter packs its page ({coding[:40]}), which nobody asked for")


def _body(response: httpx.Response, end: float) -> bytes:
    try:
        return read_within(response.iter_raw(), MAX_BYTES, end - time.monotonic())
    except TooLongError as error:
        raise ValueError(f"the exporter's page is longer than {MAX_BYTES >> 20} MiB") from error
    except TooSlowError as error:
        raise OSError(f"the exporter's page takes longer than {WHOLE_SECONDS:g} s") from error

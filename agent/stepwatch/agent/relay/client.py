"""Connections to a collector, for agents and CLI commands."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from stepwatch.signals import places
from stepwatch.signals.access import Access
from stepwatch.signals.errors import ConfigurationError

from .bounded import limit_answers


class Presented(httpx.Auth):
    """Add the token to each request, as its file holds it then."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        value = self._access.authorization()
        if value is not None:
            request.headers["authorization"] = value
        yield request


def connect(collector: str, access: Access, seconds: float = 10.0) -> httpx.Client:
    """Return a client for a collector's base URL, with a deadline per connect, read and write.

    Its answers are bounded, see `limit_answers`.

    Raises:
        ConfigurationError: the address is not a URL.
    """
    try:
        client = httpx.Client(
            base_url=collector,
            auth=Presented(access),
            verify=access.verify,
            timeout=seconds,
            trust_env=places.may_use_proxy(collector),
        )
    except httpx.InvalidURL as error:
        raise ConfigurationError(
            f"{collector[:200]!r} is not a URL ({error}); pass --collector http://HOST:PORT"
        ) from error
    if client.base_url.scheme not in ("http", "https") or not client.base_url.host:
        client.close()
        raise ConfigurationError(
            f"{collector[:200]!r} is not a URL; pass --collector http://HOST:PORT"
        )
    return limit_answers(client)

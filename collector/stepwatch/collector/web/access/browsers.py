"""Refuses cross-site requests from browsers."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwatch.signals.access.hosts import host_name, may_be_asked_as

from .gate import HOST, OTHER_SITE, Refusals
from .roles import allowed

READS = ("GET", "HEAD")
_OWN_SITES = ("", "same-origin", "none")
"""`Sec-Fetch-Site` values for this page, for a typed URL, and for other programs."""
_PORTS = {"http": 80, "https": 443}
_PROBES = ("/healthz", "/readyz")


class PublicNames(NamedTuple):
    """Lower-case host names by which browsers reach this collector.

    With `only`, the collector accepts these names, IP addresses and `localhost`, and no other name.
    This is required without tokens; with tokens, a page on another site has none to present.
    """

    names: Collection[str] = ()
    only: bool = False


ANY_NAME = PublicNames()


class Browsers:
    """ASGI middleware against cross-site requests.

    It answers 421 for a foreign host name, and 403 if another site's page sends or reads data.
    """

    def __init__(self, app: ASGIApp, public: PublicNames, refusals: Refusals) -> None:
        self._app = app
        self._public = public
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with one line of JSON that names the fix, or forward the request."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if scope["path"] in _PROBES:
            return None
        if self._public.only and not may_be_asked_as(host, self._public.names):
            self._refusals.add(HOST)
            name = host_name(host)[:80]
            text = (
                f"{name!r} is not this collector: ask its address, or start it with --public-host"
            )
            return JSONResponse({"error": text}, 421)
        if self._is_foreign(scope, headers, host):
            self._refusals.add(OTHER_SITE)
            text = "a page of another site sent this; --public-host names this collector's own"
            return JSONResponse({"error": text}, 403)
        return None

    def _is_foreign(self, scope: Scope, headers: dict[bytes, str], host: str) -> bool:
        """Return whether another site's page sent the request.

        A read counts only if it returns data that a script could see.
        """
        method, origin = scope["method"], headers.get(b"origin")
        foreign = headers.get(b"sec-fetch-site", "") not in _OWN_SITES
        if origin is not None and self._is_own(origin, host):
            return False
        if method not in READS:
            return foreign or origin is not None
        shown = headers.get(b"sec-fetch-mode", "") == "navigate"
        return foreign and not shown and bool(allowed(method, scope["path"]))

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` is this collector: the requested host or a public name."""
        try:
            parts = urlsplit(origin)
            port = parts.port or _PORTS.get(parts.scheme, 0)
            request_url = urlsplit(f"{parts.scheme}://{host}")
            asked_port = request_url.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            return False
        name = parts.hostname or ""
        return name in self._public.names or (name, port) == (request_url.hostname, asked_port) != (
            "",
            0,
        )

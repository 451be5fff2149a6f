"""Refuses what a page of another site makes a browser send."""

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
"""`Sec-Fetch-Site` of this page's requests, of what somebody typed, and of other programs."""
_PORTS = {"http": 80, "https": 443}
_PROBES = ("/healthz", "/readyz")


class PublicNames(NamedTuple):
    """Names, in lower case, that this collector has for browsers.

    `only`: it is asked by these, by addresses and as `localhost`, and by no other name. So it must
    be where no token is asked for: where one is, a page of another site has none to present.
    """

    names: Collection[str] = ()
    only: bool = False


ANY_NAME = PublicNames()


class Browsers:
    """An ASGI application in front of another one.

    421 for a name that is not this collector's, 403 for what a page of another site sends or reads.
    """

    def __init__(self, app: ASGIApp, public: PublicNames, refusals: Refusals) -> None:
        self._app = app
        self._public = public
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one line of JSON that says what to do, or pass the request on."""
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
        """Whether a page of another site asks; data only where the answer is shown to no script."""
        method, origin = scope["method"], headers.get(b"origin")
        foreign = headers.get(b"sec-fetch-site", "") not in _OWN_SITES
        if origin is not None and self._is_own(origin, host):
            return False
        if method not in READS:
            return foreign or origin is not None
        shown = headers.get(b"sec-fetch-mode", "") == "navigate"
        return foreign and not shown and bool(allowed(method, scope["path"]))

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether an `Origin` is this collector: the host that was asked, or a public name."""
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

"""The agent's pages, as a WSGI application (PEP 3333)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from stepwatch.signals.access.hosts import may_be_asked_as

from .health import Health

PAGES = ("/metrics", "/healthz", "/readyz")


class Application:
    """Serve `metrics` to clients that present `token`, if there is one, and health to all.

    Health clients (a kubelet, a load balancer) present no token, so health names no job and no
    user.
    """

    def __init__(self, metrics: WSGIApplication, health: Health, token: str | None) -> None:
        self._metrics = metrics
        self._health = health
        self._expected = None if token is None else f"Bearer {token}".encode()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request: 401 without the token, 404 for other pages, 405 for other methods.

        Without a token, a request under a foreign host name gets 421: another site's page may have
        pointed its name at this address.
        """
        path = environ.get("PATH_INFO", "")
        if path not in PAGES:
            return _text(start_response, "404 Not Found", f"there are {', '.join(PAGES)}")
        if environ["REQUEST_METHOD"] != "GET":
            return _text(start_response, "405 Method Not Allowed", "use GET")
        if path == "/healthz":
            return self._alive(start_response)
        if path == "/readyz":
            return self._ready(start_response)
        if not self._may_read(environ):
            return _text(start_response, "401 Unauthorized", "present the bearer token")
        if self._expected is None and not may_be_asked_as(environ.get("HTTP_HOST", "")):
            return _text(start_response, "421 Misdirected Request", "ask the address, or localhost")
        return self._metrics(environ, start_response)

    def _alive(self, start_response: StartResponse) -> list[bytes]:
        reason = self._health.why_not_alive()
        return _answer(start_response, not reason, reason or "ok")

    def _ready(self, start_response: StartResponse) -> list[bytes]:
        checks = self._health.checks()
        ready = all(check.holds for check in checks)
        lines = ["ready" if ready else "not ready", *(check.line() for check in checks)]
        return _answer(start_response, ready, "\n".join(lines))

    def _may_read(self, environ: WSGIEnvironment) -> bool:
        if self._expected is None:
            return True
        presented = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
        return hmac.compare_digest(presented, self._expected)


def _answer(start_response: StartResponse, good: bool, text: str) -> list[bytes]:
    return _text(start_response, "200 OK" if good else "503 Service Unavailable", text)


def _text(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]

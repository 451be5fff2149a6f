"""Requires a token with a permitted role for each request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwatch.signals import names

from .roles import Role, allowed
from .tokens import Tokens

NO_TOKEN, UNKNOWN, ROLE, NODE = "no-token", "unknown-token", "role", "node"
HOST, OTHER_SITE = "host", "other-site"
OVERLOAD, RATE = "overload", "rate"
"""The collector has no room or time for segments now; one node sends more than its share."""
REASONS = (NO_TOKEN, UNKNOWN, ROLE, NODE, HOST, OTHER_SITE, OVERLOAD, RATE)
"""Reasons for a refused request."""
_SCHEME = b"bearer "
_OPTIONS = {role: f"--{role}-token-file" for role in Role}


class Refusals:
    """Counts refused requests by reason; a Prometheus collector."""

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(REASONS, 0))
        self._counting = threading.Lock()

    def add(self, reason: str) -> None:
        """Count one refusal."""
        with self._counting:
            self._counts[reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the counter, with every reason from the start."""
        metric = names.COLLECTOR_REFUSED_REQUESTS
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for reason in REASONS:
            family.add_metric([reason], self._counts[reason])
        yield family


class Gate:
    """ASGI middleware that checks tokens; `tokens` returns the current ones.

    It answers 401 without a token or with an unknown one, and 403 for the wrong role. It passes the
    token's node in `request.state.node` and its roles in `request.state.roles`.
    """

    def __init__(self, app: ASGIApp, tokens: Callable[[], Tokens], refusals: Refusals) -> None:
        self._app = app
        self._tokens = tokens
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with one line of JSON that names the fix, or forward the request."""
        roles = allowed(scope["method"], scope["path"]) if scope["type"] == "http" else frozenset()
        if not roles:
            await self._app(scope, receive, send)
            return
        presented = dict(scope["headers"]).get(b"authorization", b"")
        has_token = presented[:7].lower() == _SCHEME
        grant = self._tokens().find(presented[7:].strip()) if has_token else None
        if grant is None:
            await self._unauthorized(has_token)(scope, receive, send)
        elif not grant.roles & roles:
            await self._forbidden(grant.roles, roles)(scope, receive, send)
        else:
            scope.setdefault("state", {}).update(node=grant.node, roles=grant.roles)
            await self._app(scope, receive, send)

    def _unauthorized(self, has_token: bool) -> JSONResponse:
        self._refusals.add(UNKNOWN if has_token else NO_TOKEN)
        text = (
            "the token is none of this collector's: put a current one into the token file"
            if has_token
            else "present a bearer token: pass --token-file FILE, or set STEPWATCH_TOKEN_FILE"
        )
        return JSONResponse({"error": text}, 401, {"www-authenticate": "Bearer"})

    def _forbidden(self, has: frozenset[Role], needs: frozenset[Role]) -> JSONResponse:
        self._refusals.add(ROLE)
        options = " or ".join(_OPTIONS[role] for role in sorted(needs))
        text = (
            f"this token is for {' and '.join(sorted(has))}, and may not do this: use one of the "
            f"collector's {options}"
        )
        return JSONResponse({"error": text}, 403)

"""Runs the collector's profile requests, each once, beside the agent's loop."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from stepwatch.agent.relay.answers import read_body
from stepwatch.agent.survival import SurvivedErrors
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.http import Client, HttpError
from stepwatch.signals.profiles import NodeRequest

from .asking import Outcome, RankRequest, profile_ranks
from .finding import find_ranks

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 4
"""Most requests in progress; a node runs few jobs."""
UPLOAD_SECONDS = 60.0
"""Time to connect, and between two parts of an upload or its answer."""
RETRY_SECONDS = 5.0
_KEPT_FOR_UPLOAD_SECONDS = 60.0
"""Time before the expiry at which a rank without a trace counts as stalled."""
_MOST_REMEMBERED = 256
_LATER = (408, 429)


class ProfileRequests:
    """Runs each new request on a daemon thread, and sends traces or reasons to the collector."""

    def __init__(
        self, ring_dir: Path, client: Client, errors: SurvivedErrors, clock: Clock
    ) -> None:
        self._ring_dir, self._client = ring_dir, client
        self._errors, self._clock = errors, clock
        self._stopping = threading.Event()
        self._known: OrderedDict[str, None] = OrderedDict()
        """Requests that were begun, the newest last."""
        self._running = threading.BoundedSemaphore(MOST_AT_ONCE)

    def begin(self, requests: Iterable[NodeRequest]) -> None:
        """Begin those that were not begun before; it does not wait for them."""
        for request in requests:
            if request.id in self._known or not self._running.acquire(blocking=False):
                continue
            self._known[request.id] = None
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
            # A daemon: a rank that never answers does not delay the agent's end.
            threading.Thread(
                target=self._run, args=(request,), name=f"profile {request.id}", daemon=True
            ).start()

    def stop(self) -> None:
        """End requests in progress; safe in a signal handler."""
        self._stopping.set()

    def _run(self, request: NodeRequest) -> None:
        until_ns = self._clock.monotonic_ns() + round(request.seconds * NANOSECONDS)
        try:
            with self._errors.survived("profile ranks"):
                for outcome in self._outcomes(request):
                    self._send(request, outcome, until_ns)
        finally:
            self._running.release()

    def _outcomes(self, request: NodeRequest) -> Iterator[Outcome]:
        servers = [
            server
            for server in find_ranks(request.job, self._ring_dir)
            if server.identity.attempt == request.attempt
            if server.identity.rank in request.ranks
        ]
        present = {server.identity.rank for server in servers}
        for rank in request.ranks:
            if rank not in present:
                yield Outcome(rank, reason="the agent of its node sees no process of this rank")
        yield from profile_ranks(
            servers,
            RankRequest(request.id, request.first, request.steps),
            seconds=max(request.seconds - _KEPT_FOR_UPLOAD_SECONDS, request.seconds / 2),
            clock=self._clock,
            wait=self._stopping.wait,
        )

    def _send(self, request: NodeRequest, outcome: Outcome, until_ns: int) -> None:
        """Send one rank's outcome until the collector accepts or refuses it, or it expires."""
        while not self._stopping.is_set() and self._clock.monotonic_ns() < until_ns:
            reason = self._refusal(request, outcome)
            if reason is None:
                return
            logger.debug("the trace of rank %d waits: %s", outcome.rank, reason)
            self._stopping.wait(RETRY_SECONDS)

    def _refusal(self, request: NodeRequest, outcome: Outcome) -> str | None:
        """Return why the outcome must be sent again; None if it is accepted or refused for good."""
        path = f"/v1/profiles/{quote(request.id, safe='')}/traces/{outcome.rank}"
        is_reason = bool(outcome.reason)
        try:
            with self._client.stream(
                "POST",
                path,
                params={"reason": outcome.reason} if is_reason else None,
                content=outcome.trace,
                headers={"content-type": "application/gzip"},
                seconds=UPLOAD_SECONDS,
            ) as response:
                body = read_body(response)
        except HttpError as error:  # the client is closed at the agent's end
            return f"{type(error).__name__}: {error}"
        status = response.status_code
        if status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return f"HTTP {status}"
        if status != HTTPStatus.OK:
            shown = body[:200].decode("utf-8", "replace")
            logger.info("profile %s: HTTP %d: %s", request.id, status, " ".join(shown.split()))
        return None

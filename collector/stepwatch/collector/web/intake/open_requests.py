"""Open profile requests for the answers to agents: read seldom, and never in an evaluation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store.profiles import Profiles, Request
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.profiles import MOST_REQUESTS, NodeRequest

FRESH_SECONDS = 2.0


class OpenRequests:
    """The store's open requests, at most `FRESH_SECONDS` old; thread-safe."""

    def __init__(self, profiles: Profiles, seconds: Callable[[], float] = time.monotonic) -> None:
        self._profiles = profiles
        self._seconds = seconds
        self._requests: list[Request] = []
        self._read_s: float | None = None
        self._reading = threading.Lock()

    def documents_for(self, body: bytes) -> list[dict[str, Any]]:
        """Return the requests to the node that sent these segments, oldest first.

        Without segments, or while the store does not answer, there are none.
        """
        requests = self._newest()
        node = _node_of(body) if requests else ""
        documents = [_document(request, node) for request in requests] if node else []
        return [document for document in documents if document["ranks"]][:MOST_REQUESTS]

    def _newest(self) -> list[Request]:
        # One thread reads; the others use the requests before.
        if self._is_fresh() or not self._reading.acquire(blocking=False):
            return self._requests
        try:
            self._requests = self._profiles.open_requests()
        except sa.exc.SQLAlchemyError:
            self._requests = []
        finally:
            self._read_s = self._seconds()
            self._reading.release()
        return self._requests

    def _is_fresh(self) -> bool:
        return self._read_s is not None and self._seconds() - self._read_s < FRESH_SECONDS


def _node_of(body: bytes) -> str:
    """Return the node of the first segment; the gate has checked a bound token's node."""
    try:
        return next((wire.peek_key(data).node for data in wire.split(body)), "")
    except SegmentError:
        return ""


def _document(request: Request, node: str) -> dict[str, Any]:
    wanted = request.wanted
    pairs = (wanted.rank, wanted.node), (wanted.peer, wanted.peer_node)
    ranks = tuple(rank for rank, place in pairs if place == node)
    steps = wanted.first_step, wanted.steps
    asked = NodeRequest(request.id, wanted.job, wanted.attempt, ranks, *steps, request.seconds_left)
    return asked._asdict()

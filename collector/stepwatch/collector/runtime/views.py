"""Cached answers about a job, each valid until a newer one exists.

A reader computes an answer if the job is free, and gets the newest cached one during an evaluation.
Answers that are requested again and again are recomputed at the end of an evaluation, the more
often the shorter the pause between two requests.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob

KEPT_SECONDS = 10.0
"""Time after its last request for which an answer is kept; readers within it share one."""
OFTEN_SECONDS = 3.0
"""Pause between two requests up to which an answer is renewed at each evaluation."""
RENEWED_SECONDS = 5.0
"""Time between renewals after a longer pause, up to `KEPT_SECONDS`.

After a still longer one there is none: a page that is left open asks twice a minute, and renewing
its answers at each evaluation would cost thirty times more.
"""
FRESH_SECONDS = 1.0
"""Time for which an answer about an unchanged job counts as current."""


class View(NamedTuple):
    """One kind of answer.

    `make` reads a job at a time (Unix seconds) and keeps no reference to it; `finish` converts the
    result for publication, without a lock. The seconds are this view's `KEPT_SECONDS` and
    `OFTEN_SECONDS`.
    """

    name: str
    make: Callable[[LiveJob, Verdicts, float], Any]
    finish: Callable[[Any], Any] = lambda answer: answer
    kept_seconds: float = KEPT_SECONDS
    often_seconds: float = OFTEN_SECONDS


class Published(NamedTuple):
    """An answer, the moment it describes (Unix seconds), and the job's version then."""

    value: Any
    as_of: float
    version: int


class _Request(NamedTuple):
    """A view's last request, monotonic seconds, and the pause before it; infinite for the first."""

    view: View
    asked_s: float
    pause_seconds: float


class Views:
    """The newest answers about one job, and the recent requests; thread-safe."""

    def __init__(self) -> None:
        self._published: dict[str, Published] = {}
        self._requests: dict[str, _Request] = {}
        self._renewed: dict[str, float] = {}
        """When views were renewed, monotonic seconds."""
        self._lock = threading.Lock()

    def ask(self, view: View, now: float) -> Published | None:
        """Record a request at `now` (monotonic).

        Return the newest answer, None before the first.
        """
        with self._lock:
            previous = self._requests.get(view.name)
            pause_seconds = math.inf if previous is None else now - previous.asked_s
            self._requests[view.name] = _Request(view, now, pause_seconds)
            return self._published.get(view.name)

    def newest(self, name: str) -> Published | None:
        """Return the newest answer by name, None before the first."""
        return self._published.get(name)

    def requested(self, now: float) -> list[View]:
        """Return the recently requested views to renew at `now` (monotonic)."""
        with self._lock:
            self._requests = {
                name: request
                for name, request in self._requests.items()
                if now - request.asked_s <= request.view.kept_seconds
            }
            self._published = {
                name: published
                for name, published in self._published.items()
                if name in self._requests
            }
            due = [item.view for item in self._requests.values() if self._is_due(item, now)]
            kept = {name: s for name, s in self._renewed.items() if name in self._requests}
            self._renewed = kept | dict.fromkeys((view.name for view in due), now)
            return due

    def _is_due(self, request: _Request, now: float) -> bool:
        view, asked_s, pause_seconds = request
        if max(now - asked_s, pause_seconds) <= view.often_seconds:
            return True
        renewed_s = self._renewed.get(view.name, asked_s)
        return pause_seconds <= view.kept_seconds and now - renewed_s >= RENEWED_SECONDS

    def publish(self, name: str, published: Published) -> None:
        """Publish an answer, unless a newer one exists."""
        with self._lock:
            previous = self._published.get(name)
            if previous is None or previous.version <= published.version:
                self._published[name] = published

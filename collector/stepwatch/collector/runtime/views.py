"""Cached answers about a job, each valid until a newer one exists.

A reader computes an answer if the job is free, and gets the newest cached one during an evaluation.
Recently requested answers are recomputed at the end of an evaluation: often requested ones each
time, the others so often that a cached one is never old.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob

KEPT_SECONDS = 30.0
"""Time after its last request for which an answer is renewed."""
OFTEN_SECONDS = 3.0
"""Time after its last request for which an answer is renewed at each evaluation."""
RENEWED_SECONDS = 5.0
"""Time between renewals of an answer that is requested less often.

A page asks for some answers twice a minute: renewed at each evaluation they cost thirty times more.
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


class Views:
    """The newest answers about one job, and the recent requests; thread-safe."""

    def __init__(self) -> None:
        self._published: dict[str, Published] = {}
        self._requests: dict[str, tuple[View, float]] = {}
        self._renewed: dict[str, float] = {}
        """When views were renewed, monotonic seconds."""
        self._lock = threading.Lock()

    def ask(self, view: View, now: float) -> Published | None:
        """Record a request at `now` (monotonic).

        Return the newest answer, None before the first.
        """
        with self._lock:
            self._requests[view.name] = view, now
            return self._published.get(view.name)

    def newest(self, name: str) -> Published | None:
        """Return the newest answer by name, None before the first."""
        return self._published.get(name)

    def requested(self, now: float) -> list[View]:
        """Return the recently requested views to renew at `now` (monotonic)."""
        with self._lock:
            views = [
                view
                for view, asked_s in self._requests.values()
                if now - asked_s <= view.kept_seconds
            ]
            self._requests = {view.name: self._requests[view.name] for view in views}
            self._published = {
                name: published
                for name, published in self._published.items()
                if name in self._requests
            }
            due = [view for view in views if self._is_due(view, now)]
            kept = {name: s for name, s in self._renewed.items() if name in self._requests}
            self._renewed = kept | dict.fromkeys((view.name for view in due), now)
            return due

    def _is_due(self, view: View, now: float) -> bool:
        if now - self._requests[view.name][1] <= view.often_seconds:
            return True
        return now - self._renewed.get(view.name, -math.inf) >= RENEWED_SECONDS

    def publish(self, name: str, published: Published) -> None:
        """Publish an answer, unless a newer one exists."""
        with self._lock:
            previous = self._published.get(name)
            if previous is None or previous.version <= published.version:
                self._published[name] = published

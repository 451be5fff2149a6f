"""What readers get of a job: the answer of one moment, kept until there is a newer one.

A reader makes an answer where the job is free, and gets the newest one there is while it is being
evaluated. Answers that somebody asked for lately are made again at the end of each evaluation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob

KEPT_SECONDS = 30.0
"""How long an answer that nobody asks for again is made at each evaluation."""
FRESH_SECONDS = 1.0
"""How long an answer about a job that did not change is as good as a new one."""


class View(NamedTuple):
    """One kind of answer: `make` reads a job at a time (Unix seconds) and keeps nothing of it,
    `finish` turns that into what is given out, with no lock held."""

    name: str
    make: Callable[[LiveJob, Verdicts, float], Any]
    finish: Callable[[Any], Any] = lambda answer: answer
    kept_seconds: float = KEPT_SECONDS


class Published(NamedTuple):
    """An answer, the moment that it is about (Unix seconds), and the job's version then."""

    value: Any
    as_of: float
    version: int


class Views:
    """The newest answers about one job, and who asked for which; safe to call from threads."""

    def __init__(self) -> None:
        self._published: dict[str, Published] = {}
        self._requests: dict[str, tuple[View, float]] = {}
        self._lock = threading.Lock()

    def ask(self, view: View, now: float) -> Published | None:
        """The newest answer, None before the first; it was asked for at `now` (monotonic)."""
        with self._lock:
            self._requests[view.name] = view, now
            return self._published.get(view.name)

    def newest(self, name: str) -> Published | None:
        """The newest answer of a kind, None before the first."""
        return self._published.get(name)

    def requested(self, now: float) -> list[View]:
        """What was asked for lately."""
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
            return views

    def publish(self, name: str, published: Published) -> None:
        """Give an answer out from now on, unless a newer one is there."""
        with self._lock:
            previous = self._published.get(name)
            if previous is None or previous.version <= published.version:
                self._published[name] = published

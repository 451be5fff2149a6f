"""Answers about live jobs: computed if the job is free, else the newest published one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from stepwatch.collector.runtime.agenda import QUIET_SECONDS
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.runtime.views import FRESH_SECONDS, Published, View, Views
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.live import CONTAINED, LiveState
from stepwatch.signals.clock import NANOSECONDS, Clock

logger = logging.getLogger(__name__)

LATEST_SECONDS = 2 * QUIET_SECONDS
"""Age beyond which no evaluation renews an answer: the job has ended, or its evaluation is late."""
PATIENCE_SECONDS = 2.0
"""Longest wait for an evaluation if the answer is older than that."""
Unfinished = tuple[View, Published]
"""An answer that is not finished yet."""


class Answers:
    """The views of all live jobs; a reader waits for an evaluation only for the first answer."""

    def __init__(self, state: LiveState, evaluator: Evaluator, clock: Clock) -> None:
        self._state = state
        self._evaluator = evaluator
        self._clock = clock
        self._views: dict[str, Views] = {}

    def newest(self, job: HeldJob, view: View, *, requested: bool = True) -> Published | None:
        """Return the newest answer about a job; None if the job has no records.

        If `requested`, each evaluation renews the answer for a while.
        """
        views = self._views.setdefault(job.name, Views())
        published = views.ask(view, self._monotonic()) if requested else views.newest(view.name)
        if published is not None and self._is_fresh(job, published):
            return published
        patience = -1.0 if published is None else self._patience(published)
        if not job.lock.acquire(timeout=patience):
            return published
        try:
            if not self._state.fold(job, self._now()):
                return None
            answer = self._make(job, view)
        except CONTAINED as error:
            self._left_out(view, job, error)
            return None
        finally:
            job.lock.release()
        try:
            return self._finish(views, answer)
        except CONTAINED as error:
            self._left_out(view, job, error)
            return None

    def latest(self, job: HeldJob, view: View) -> Published | None:
        """Return the answer of the newest evaluation; a missing or old one is computed."""
        published = self._views.setdefault(job.name, Views()).ask(view, self._monotonic())
        if published is not None and 0 <= self.age(published.as_of) < LATEST_SECONDS:
            return published
        return self.newest(job, view)

    def renew(self, job: HeldJob) -> list[Unfinished]:
        """Compute the recently requested answers; the caller holds the job's lock."""
        views, answers = self._views.get(job.name), []
        for view in views.requested(self._monotonic()) if views is not None else ():
            try:
                answers.append(self._make(job, view))
            except CONTAINED as error:
                self._left_out(view, job, error)
        return answers

    def publish(self, job: HeldJob, answers: Iterable[Unfinished]) -> None:
        """Finish and publish answers; no lock is held."""
        for answer in answers:
            try:
                self._finish(self._views.setdefault(job.name, Views()), answer)
            except CONTAINED as error:
                self._left_out(answer[0], job, error)

    def _left_out(self, view: View, job: HeldJob, error: BaseException) -> None:
        """Log a failed answer; the job and all other answers continue."""
        logger.error("no answer %s about %s", view.name, job.name, exc_info=error)

    def now(self) -> float:
        """Return Unix seconds on the collector's clock."""
        return self._now()

    def age(self, as_of: float) -> float:
        """Return the seconds since a moment (Unix seconds)."""
        return self._now() - as_of

    def forget(self, job: str) -> None:
        """Drop a job that is no longer live."""
        self._views.pop(job, None)

    def _make(self, job: HeldJob, view: View) -> Unfinished:
        now = self._now()
        value: Any = view.make(job.live, self._evaluator.verdicts_of(job.name), now)
        return view, Published(value, now, job.version)

    def _finish(self, views: Views, answer: Unfinished) -> Published:
        view, unfinished = answer
        finished = unfinished._replace(value=view.finish(unfinished.value))
        views.publish(view.name, finished)
        return finished

    def _patience(self, published: Published) -> float:
        """Return how long a reader waits for an evaluation, who has an answer."""
        return PATIENCE_SECONDS if self.age(published.as_of) > LATEST_SECONDS else 0.0

    def _is_fresh(self, job: HeldJob, published: Published) -> bool:
        changed = published.version != job.version or job.cursor.waiting_bytes > 0
        return not changed and 0 <= self._now() - published.as_of < FRESH_SECONDS

    def _now(self) -> float:
        return self._clock.wall_ns() / NANOSECONDS

    def _monotonic(self) -> float:
        return self._clock.monotonic_ns() / NANOSECONDS

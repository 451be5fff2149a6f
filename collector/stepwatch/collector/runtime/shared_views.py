"""Answers for collectors that do not hold a job: its holder writes them to the store.

While another collector is alive, each job's list entry and document are written at most every
`EVERY_SECONDS`; other answers are written on request. An unchanged answer is redated every
`AGAIN_SECONDS`, so an old answer means that no collector renews it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.runtime.answers import Answers
from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.runtime.views import Published, View
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.store import Store
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.views import StoredView

EVERY_SECONDS = 2.0
AGAIN_SECONDS = 4.0
"""Time until an unchanged answer is redated."""
JOBS_AT_ONCE = 50
"""Number of jobs per transaction."""
PATIENCE_SECONDS = 6.0
"""Maximum wait for a job's holder to write a requested answer."""
OLD_SECONDS = 15.0
"""An older answer from another collector is requested again."""
_POLL_SECONDS = 0.2


class _Written(NamedTuple):
    """A written answer: the job's version, and the answer's date."""

    version: int
    as_of: float


class SharedViews:
    """Writes answers for other collectors, and reads theirs."""

    def __init__(self, store: Store, answers: Answers, tenancy: Tenancy) -> None:
        self._views: dict[str, View] = {}
        self._always: frozenset[str] = frozenset()
        self._store = store
        self._answers = answers
        self._tenancy = tenancy
        self._written: dict[tuple[str, str], _Written] = {}
        self._next_s = 0.0
        self._writing = Outage("write answers for other collectors")

    def offer(self, views: Iterable[View], always: Collection[str]) -> None:
        """Set the available views; those named in `always` are written without a request."""
        self._views = {view.name: view for view in views}
        self._always = frozenset(always)

    def write(self, jobs: list[HeldJob]) -> None:
        """Write due answers about held jobs, if another collector is alive."""
        if self._tenancy.replicas == 1 or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + EVERY_SECONDS
        try:
            wanted = set(self._store.views.wanted())
            held_jobs = [job for job in jobs if self._tenancy.holds(job)]
            for start in range(0, len(held_jobs), JOBS_AT_ONCE):
                self._write(held_jobs[start : start + JOBS_AT_ONCE], wanted)
        except sa.exc.SQLAlchemyError as error:
            self._writing.noted(error)
            return
        names = {job.name for job in jobs}
        self._written = {key: entry for key, entry in self._written.items() if key[0] in names}
        self._writing.over()

    def _write(self, jobs: Iterable[HeldJob], wanted: Collection[tuple[str, str]]) -> None:
        views, unchanged, leases, written = [], [], [], {}
        now = self._answers.now()
        for job in jobs:
            for view in self._due_views(job, wanted):
                key = job.name, view.name
                previous = self._written.get(key)
                if previous is not None and previous.version == job.version:
                    if not 0 <= now - previous.as_of < AGAIN_SECONDS:
                        unchanged.append(key)
                        written[key] = previous._replace(as_of=now)
                elif (published := self._answers.newest(job, view, requested=False)) is not None:
                    views.append(StoredView(*key, published.as_of, published.value))
                    written[key] = _Written(published.version, published.as_of)
            if (lease := self._tenancy.lease(job)) is not None:
                leases.append(lease)
        if written:
            self._store.views.save(views, leases, unchanged, now)
            self._written |= written

    def _due_views(self, job: HeldJob, wanted: Collection[tuple[str, str]]) -> Iterator[View]:
        for name, view in self._views.items():
            if name in self._always or (job.name, name) in wanted:
                yield view

    def read(self, job: str, view: View) -> Published | None:
        """Return another collector's answer about a job; None without one.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        if not self._tenancy.is_shared:
            return None
        stored = self._store.views.get(job, view.name)
        if self._will_do(stored) or job not in self._store.positions([job]):
            return _published(stored)
        self._store.views.want(job, view.name)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._will_do(stored) and time.monotonic() < deadline:
            if self._tenancy.replicas == 1:
                break
            time.sleep(_POLL_SECONDS)
            stored = self._store.views.get(job, view.name)
        return _published(stored)

    def _will_do(self, stored: StoredView | None) -> bool:
        """Return whether an answer is recent enough."""
        if stored is None:
            return False
        return stored.name in self._always or self._answers.age(stored.as_of) <= OLD_SECONDS

    def read_all(self, view: View, without: Collection[str]) -> list[Published]:
        """Return other collectors' answers about their jobs, newest first; empty if none is alive.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        if self._tenancy.replicas == 1:
            return []
        stored = self._store.views.all_of(view.name)
        return [
            Published(answer.payload, answer.as_of, 0)
            for answer in stored
            if answer.job not in without
        ]


def _published(stored: StoredView | None) -> Published | None:
    return None if stored is None else Published(stored.payload, stored.as_of, 0)

"""Profiles that the collector itself requests when an incident names a slow rank."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.states import ALERT
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.live import CONTAINED
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.profiles import Wanted
from stepwatch.signals.errors import StoreError
from stepwatch.signals.names import FindingKind

from .placement import Asked, RefusedError, choose, read_placement

logger = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
COUNT_SECONDS = 15.0
"""Time between two readings of the counts for `/metrics`."""
STEPS = 3
SECONDS_A_DAY = 300.0
"""Most profiled time of a job in a day: 0.35 % of it, and at most twice as slow."""
OPENED_SECONDS = 3600.0
"""Age at which an incident is no longer profiled: the store keeps its requests longer."""
RETRY_SECONDS = 15.0
"""Time after a refusal: a new job has no step yet, or another profile is in progress."""
AUTHOR = "stepwatch"


class _Due(NamedTuple):
    """An incident to profile."""

    job: str
    incident: Incident


class IncidentProfiles:
    """Requests a profile of the slow rank and a healthy peer, once per incident.

    The site file names the incidents for each job class; without it nothing is requested. The store
    knows the requests, so a collector that was restarted, or another one, does not repeat them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._outage = Outage("request profiles of incidents")
        self._retry_at: dict[str, float] = {}
        """By open incident: when to try again, in Unix seconds."""
        self._counted_s = -COUNT_SECONDS

    def run(self, wait: Callable[[float], bool]) -> None:
        """Request what is due and count, periodically, until `wait` returns True."""
        while not wait(EVERY_SECONDS):
            try:
                self.request_due()
                self.count()
            except sa.exc.SQLAlchemyError as error:
                self._service.profiles_of_day = None
                self._outage.noted(error)
            except CONTAINED:  # it must not end: the next incident may be another one
                logger.exception("a profile of an incident was not requested")
            else:
                self._outage.over()

    def count(self) -> None:
        """Read the requests of the last day for `/metrics`, if the counts are old.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        now = time.monotonic()
        if self._service.profiles_of_day is None or now - self._counted_s >= COUNT_SECONDS:
            self._service.profiles_of_day = self._service.store.profiles.of_day()
            self._counted_s = now

    def request_due(self) -> None:
        """Request a profile for each incident that is due.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        if not self._service.objectives.profiled:
            return
        now, due = self._service.now(), list(self._due())
        still_due = {item.incident.id for item in due}
        self._retry_at = {name: at for name, at in self._retry_at.items() if name in still_due}
        for item in due:
            if now >= self._retry_at.get(item.incident.id, now):
                self._retry_at[item.incident.id] = now + RETRY_SECONDS
                self._request(item)

    def _due(self) -> Iterator[_Due]:
        now, objectives = self._service.now(), self._service.objectives
        for held in self._service.open_incidents():
            profiled = objectives.profiled_for(held.job_class)
            if any(item.kind == FindingKind.HANG.value for item in held.incidents):
                continue  # a rank in a hang makes no step
            for incident in held.incidents:
                names_slow_rank = incident.rank >= 0 and incident.severity == ALERT
                is_new = now - incident.opened_at < OPENED_SECONDS
                if names_slow_rank and is_new and {incident.kind, incident.cause} & profiled:
                    yield _Due(held.job, incident)

    def _request(self, due: _Due) -> None:
        try:
            wanted, most_steps = self._wanted(due)
            request = self._service.store.profiles.add(wanted, most_steps)
        except (RefusedError, StoreError) as refusal:
            logger.debug("no profile for incident %s: %s", due.incident.id, refusal)
            return
        logger.info(
            "profile %s: ranks %d and %d of %s, for incident %s",
            *(request.id, wanted.rank, wanted.peer, due.job, due.incident.id),
        )

    def _wanted(self, due: _Due) -> tuple[Wanted, int]:
        """Return the profile, and the most profiled steps of the job in a day.

        Raises:
            RefusedError: the ranks cannot be profiled now, or no peer is healthy.
        """
        placement = read_placement(self._service, due.job)
        if placement is None:
            raise RefusedError(f"there is no job {due.job}")
        asked = Asked(due.incident.rank, None, STEPS, AUTHOR)
        wanted = choose(due.job, placement, asked, self._service.asked_pace.seconds)
        if any(rank == wanted.peer for rank, _ in placement["incidents"]):
            raise RefusedError("no peer is without an incident")
        if due.incident.id not in wanted.incidents or due.incident.attempt != wanted.attempt:
            raise RefusedError("the incident is no longer open, or its attempt has ended")
        return wanted, int(SECONDS_A_DAY / placement["step_seconds"])

"""Reads the jobs that streams ask for, and returns the changes since the previous reading."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.runtime.shared_views import EVERY_SECONDS
from stepwatch.collector.runtime.views import Published
from stepwatch.collector.web import withheld_view
from stepwatch.collector.web.documents import LINE, OLD_SECONDS, dated, encoded
from stepwatch.signals.clock import NANOSECONDS

from .log import Change, News
from .pulse import FACTS, PULSE, VIEWS, Pulse
from .topics import Topics

SOON_SECONDS = 1.0
"""Shortest time between two events of a job in the list."""
QUIET_SECONDS = 10.0
"""Shortest time between two events of a job if only `FIGURES` changed.

With it a tab with 20 running jobs reads about 100 kB a minute.
"""
FIGURES = frozenset(
    {"step", "newest_record_at", "slos", "pace", "goodput", "cost_today", "verified_checkpoint"}
    | {"stale"}
)
"""Fields that change with each step, or with time."""


class Feed:
    """Reads documents and compares them; one thread at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._documents: dict[str, dict[str, Any]] = {}
        """The list entry in each job's newest event."""
        self._event_s: dict[str, float] = {}
        """The moment of each job's newest event, monotonic seconds."""
        self._pulses: dict[str, tuple[int, Pulse]] = {}
        """The newest version and pulse of the followed jobs that this collector evaluates."""
        self._facts: dict[str, dict[str, Any]] = {}
        """The newest facts of the followed jobs that another collector evaluates."""
        self._absent = frozenset[str]()
        """Topics of the newest reading without such a job."""
        self._parsed: dict[Published, dict[str, Any]] = {}
        """The list entries in the newest answers."""
        self._others: list[Published] = []
        self._next_others_s = -math.inf

    @property
    def size(self) -> int:
        """Number of jobs with an event."""
        return len(self._documents)

    def read(self, topics: Topics) -> News:
        """Read the jobs of some topics; return the changes."""
        lines = self._lines(topics)
        now = self._monotonic()
        changes = [change for job in lines if (change := self._change(job, lines[job], now))]
        gone = self._gone(topics, lines.keys())
        followed = frozenset(topics.jobs & lines.keys())
        return News(changes, dict(self._pulse_texts(followed, lines)), gone, followed)

    def _gone(self, topics: Topics, present: Set[str]) -> list[str]:
        """Return the jobs that are not in the list any more, and unknown topics; each once."""
        listed = self._documents.keys() if topics.fleet else frozenset[str]()
        absent = (listed | topics.jobs) - present
        for job in absent:
            self._documents.pop(job, None)
            self._event_s.pop(job, None)
        gone = sorted(absent - self._absent)
        self._absent = frozenset(topics.jobs - present)
        return gone

    def _lines(self, topics: Topics) -> dict[str, dict[str, Any]]:
        """Return the list entries by job, also of jobs that no collector evaluates."""
        service = self._service
        names = None if topics.fleet else topics.jobs
        lines = self._entries([*self._of_others(), *service.latest(LINE, names).values()])
        for job, why in service.withheld().items():
            lines[job] = json.loads(encoded(withheld_view.line(job, why)))
        return lines if names is None else {job: lines[job] for job in names & lines.keys()}

    def _entries(self, answers: Iterable[Published]) -> dict[str, dict[str, Any]]:
        """Return the list entries in answers by job; an answer is parsed once until it is old."""
        now, entries = self._service.now(), {}
        for answer in answers:
            is_old = abs(now - answer.as_of) > OLD_SECONDS
            entry = None if is_old else self._parsed.get(answer)
            entries[answer] = entry or json.loads(dated(answer, now))
        self._parsed = entries
        return {entry["job"]: entry for entry in entries.values()}

    def _monotonic(self) -> float:
        return self._service.clock.monotonic_ns() / NANOSECONDS

    def _of_others(self) -> list[Published]:
        """Return other collectors' answers, read as often as they are written.

        While the store does not answer, the previous answers remain, and become stale.
        """
        if self._monotonic() >= self._next_others_s:
            self._next_others_s = self._monotonic() + EVERY_SECONDS
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self._others = self._service.answers_of_others(LINE)
        return self._others

    def _change(self, job: str, document: dict[str, Any], now: float) -> Change | None:
        previous = self._documents.get(job)
        fields = _differing(previous, document)
        if not fields:
            return None
        pause = QUIET_SECONDS if fields.keys() <= FIGURES else SOON_SECONDS
        if previous is not None and now - self._event_s[job] < pause:
            return None
        self._documents[job], self._event_s[job] = document, now
        texts = {name: encoded(value) for name, value in fields.items()}
        return Change(job, texts, encoded(document["as_of"]))

    def _pulse_texts(
        self, followed: frozenset[str], lines: Mapping[str, dict[str, Any]]
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the followed jobs that changed, with their live documents."""
        self._pulses = {job: pulse for job, pulse in self._pulses.items() if job in followed}
        evaluated = self._service.latest(PULSE, followed)
        elsewhere = followed - evaluated.keys()
        facts = {job: {name: lines[job][name] for name in FACTS} for job in elsewhere}
        for job in elsewhere:
            if facts[job] != self._facts.get(job):
                rest: dict[str, Any] = {"version": None, "changed": VIEWS, "points": {}}
                yield job, encoded({"job": job, "as_of": lines[job]["as_of"], **facts[job], **rest})
        self._facts = facts
        for job in followed & evaluated.keys():
            published = evaluated[job]
            version, before = self._pulses.get(job, (-1, None))
            if published.version == version:
                continue
            self._pulses[job] = published.version, published.value
            document = _moved(before, published.value)
            if document:
                head = {"job": job, "version": published.version, "as_of": published.as_of}
                yield job, encoded(head | document)


def _differing(previous: dict[str, Any] | None, document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with a new value; a field that disappeared becomes null."""
    if previous is None:
        previous = {}
    names = (previous.keys() | document.keys()) - {"job", "as_of"}
    return {
        name: document.get(name)
        for name in sorted(names)
        if name not in previous or previous[name] != document.get(name)
    }


def _moved(before: Pulse | None, now: Pulse) -> dict[str, Any]:
    """Return a live document: facts, changed views and new points; empty without a change."""
    if before is None:
        changed = list(VIEWS)
    else:
        changed = [name for name in VIEWS if now.marks[name] != before.marks[name]]
    points = dict(_newer_points(before, now))
    if before is not None and now.facts == before.facts and not (changed or points):
        return {}
    return {**now.facts, "changed": changed, "points": points}


def _newer_points(before: Pulse | None, now: Pulse) -> Iterator[tuple[str, list[Any]]]:
    """Yield each metric's points that are new, or that changed as more ranks reported."""
    same_run = before is not None and before.attempt == now.attempt
    for name, points in now.points.items():
        newer = points.since(before.points.get(name) if before is not None and same_run else None)
        if newer:
            yield name, newer

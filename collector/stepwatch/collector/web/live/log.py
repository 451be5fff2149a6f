"""The newest events as bytes that all streams share; a cursor is a position among them.

A job's list entry is kept by field, with the position of its newest change: a reader that was away
gets each field once, however long it was away. Live documents are kept for a short while only.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .topics import JOB, Topics

FROM_START = -1
"""Position before all events."""
MOST_PULSES = 32
"""Live documents kept for a followed job: half a minute, for a reconnect."""
MOST_GONE = 1000
"""Forgotten jobs that are remembered; an older cursor has to ask for everything again."""
_MOST_TEXTS = 1000
"""Texts kept between two changes, one for each cursor and set of topics."""


class Change(NamedTuple):
    """New fields of a job's list entry, and the moment that they describe, as JSON."""

    job: str
    fields: Mapping[str, bytes]
    as_of: bytes


class News(NamedTuple):
    """Events since the previous reading; `pulses` are live documents by job.

    `followed` are the jobs with live documents from now on.
    """

    changes: list[Change]
    pulses: Mapping[str, bytes]
    gone: list[str]
    followed: frozenset[str]


class _Entry:
    """One job's fields and live documents, each with its position.

    Live documents after the position `complete_from` are all here.
    """

    def __init__(self, job: str, position: int) -> None:
        self.start = b'{"job": ' + json.dumps(job).encode() + b', "as_of": '
        self.as_of = b"null"
        self.fields: dict[str, tuple[int, bytes]] = {}
        self.newest = position
        self.pulses: deque[tuple[int, bytes]] = deque()
        self.complete_from = position

    def change(self, change: Change, position: int) -> None:
        self.fields |= {name: (position, value) for name, value in change.fields.items()}
        self.as_of, self.newest = change.as_of, position

    def follow(self, position: int) -> None:
        self.pulses.clear()
        self.complete_from = position

    def pulse(self, data: bytes, position: int) -> None:
        self.pulses.append((position, data))
        while len(self.pulses) > MOST_PULSES:
            self.complete_from, _ = self.pulses.popleft()

    def line_since(self, position: int) -> bytes:
        """Return the fields that changed after a position, as one JSON object."""
        fields = [
            b'"' + name.encode() + b'": ' + value
            for name, (changed, value) in self.fields.items()
            if changed > position
        ]
        return b", ".join([self.start + self.as_of, *fields]) + b"}"


class EventLog:
    """The newest events; one thread uses it."""

    def __init__(self) -> None:
        self.position = 0
        self._name = secrets.token_hex(4)
        """Positions of another collector, or of one before a restart, mean nothing here."""
        self._entries: dict[str, _Entry] = {}
        self._gone: dict[str, int] = {}
        self._gone_from = 0
        self._followed = frozenset[str]()
        self._texts: dict[tuple[Topics, int], bytes] = {}

    @property
    def cursor(self) -> str:
        """The newest position, for a client."""
        return f"{self._name}-{self.position}"

    def position_of(self, cursor: str) -> int | None:
        """Return a cursor's position; None if it is too old, or from another log."""
        name, _, digits = cursor.partition("-")
        if name != self._name or not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
            return None
        position = int(digits)
        return position if self._gone_from <= position <= self.position else None

    def add(self, news: News) -> bool:
        """Add a reading; return whether it contains an event."""
        for job in news.followed - self._followed:
            self._entry(job).follow(self.position)
        self._followed = news.followed
        if not (news.changes or news.pulses or news.gone):
            return False
        self.position += 1
        for change in news.changes:
            self._entry(change.job).change(change, self.position)
        for job, data in news.pulses.items():
            self._entry(job).pulse(data, self.position)
        for job in news.gone:
            self._entries.pop(job, None)
            self._gone.pop(job, None)
            self._gone[job] = self.position
        while len(self._gone) > MOST_GONE:
            self._gone_from = self._gone.pop(next(iter(self._gone)))
        self._texts.clear()
        return True

    def _entry(self, job: str) -> _Entry:
        entry = self._entries.get(job)
        if entry is None:
            entry = self._entries[job] = _Entry(job, self.position)
        self._gone.pop(job, None)
        return entry

    def since(self, topics: Topics, position: int) -> bytes:
        """Return the events on some topics after a position, empty without any."""
        text = self._texts.get((topics, position))
        if text is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            text = self._texts[topics, position] = self._text(topics, position)
        return text

    def _text(self, topics: Topics, position: int) -> bytes:
        """Return the events as text; the id is on the last one, so a client has all or none."""
        events = [*self._events(topics, position)]
        if events:
            events[-1] = b"id: " + self.cursor.encode() + b"\n" + events[-1]
        return b"".join(events)

    def _events(self, topics: Topics, position: int) -> Iterator[bytes]:
        followed = sorted(topics.jobs & self._entries.keys())
        if position != FROM_START:
            entries = ((name, self._entries[name]) for name in followed)
            lost = [JOB + name for name, entry in entries if entry.complete_from > position]
            if lost:
                yield resync(lost)
        for name in self._entries if topics.fleet else followed:
            entry = self._entries[name]
            if entry.newest > position and entry.fields:
                yield event("job", entry.line_since(position))
        for name in followed if position != FROM_START else ():
            pulses = self._entries[name].pulses
            yield from (event("live", data) for number, data in pulses if number > position)
        for name, number in self._gone.items():
            if number > position and (topics.fleet or name in topics.jobs):
                yield event("gone", json.dumps({"job": name}).encode())


def event(name: str, data: bytes) -> bytes:
    """Return one event as text; `data` is one line of JSON."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def resync(topics: list[str]) -> bytes:
    """Return the event after which a client asks for everything on some topics again."""
    return event("resync", json.dumps({"topics": topics}).encode())

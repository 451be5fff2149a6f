"""Incident notes: append-only rows, and the response state derived from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store.database import writing
from stepwatch.collector.store.leases import Now, database_ns
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import StoreError

from .tables import incident_note

ACKNOWLEDGED, MITIGATED, COMMENT = "acknowledged", "mitigated", "comment"
ASSIGNED, REOPENED = "assigned", "reopened"
EVENTS = (ACKNOWLEDGED, MITIGATED, COMMENT, ASSIGNED, REOPENED)
"""Note types: acknowledged, mitigated, comment, assigned (`text` is the owner), reopened.

A reopened incident pages again. No note changes the incident's state, which detectors set.
"""
MOST_NOTES = 500
"""Maximum number of notes per incident."""
_AT_ONCE = 500


class Note(NamedTuple):
    """One note: event, author, time (Unix seconds), and text."""

    event: str
    by: str
    at: float
    text: str


class Notes:
    """The notes in a store."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    def add(self, incident: str, job: str, event: str, author: str, text: str) -> None:
        """Add a note to a job's incident, at the database's current time.

        Raises:
            StoreError: the incident has the maximum number of notes.
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        table = incident_note
        counted = sa.select(sa.func.count()).where(table.c.incident == incident)
        with writing(self._engine) as connection:
            if connection.execute(counted).scalar_one() >= MOST_NOTES:
                raise StoreError(f"incident {incident} has {MOST_NOTES} notes, and takes no more")
            row = {"incident": incident, "job": job, "at_ns": self._now(connection)}
            row |= {"event": event, "written_by": author, "text": text}
            connection.execute(sa.insert(table), row)

    def of_incidents(self, incidents: Collection[str]) -> dict[str, list[Note]]:
        """Return the notes for these incidents, oldest first.

        Incidents without notes are absent.
        """
        names = sorted(incidents)
        notes: dict[str, list[Note]] = {}
        for start in range(0, len(names), _AT_ONCE):
            notes |= self._read(incident_note.c.incident.in_(names[start : start + _AT_ONCE]))
        return notes

    def of_job(self, job: str) -> dict[str, list[Note]]:
        """Return the notes for all incidents in a job."""
        return self._read(incident_note.c.job == job)

    def _read(self, condition: sa.ColumnElement[bool]) -> dict[str, list[Note]]:
        table = incident_note
        query = sa.select(table).where(condition).order_by(table.c.at_ns, table.c.id)
        notes: dict[str, list[Note]] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(query):
                note = Note(row.event, row.written_by, row.at_ns / NANOSECONDS, row.text)
                notes.setdefault(row.incident, []).append(note)
        return notes


def response_of(notes: Iterable[Note]) -> dict[str, Any]:
    """Return the response state that follows from an incident's notes.

    `acknowledged` and `mitigated` hold author and time, or null; `owner` is empty without one;
    `notes` lists all notes.
    """
    response: dict[str, Any] = {ACKNOWLEDGED: None, MITIGATED: None, "owner": "", "notes": []}
    for note in notes:
        response["notes"].append(note._asdict())
        if note.event == REOPENED:
            response |= {ACKNOWLEDGED: None, MITIGATED: None}
        elif note.event == ASSIGNED:
            response["owner"] = note.text
        elif note.event != COMMENT:
            response[note.event] = {"by": note.by, "at": note.at}
    return response

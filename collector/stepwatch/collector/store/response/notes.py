"""What people did about incidents: rows that are only added, and what follows from them."""

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
"""What a note says: somebody works on it; did something about it; a remark; who owns it (`text`);
it is not over after all, and pages again. None of them changes the state, which detectors set."""
MOST_NOTES = 500
"""Notes on one incident."""
_AT_ONCE = 500


class Note(NamedTuple):
    """One note: what, by whom, when (Unix seconds), and its text."""

    event: str
    by: str
    at: float
    text: str


class Notes:
    """The notes of a store."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    def add(self, incident: str, job: str, event: str, author: str, text: str) -> None:
        """Add a note on an incident of a job, at this moment of the database's clock.

        Raises:
            StoreError: the incident has as many as it may have.
            sqlalchemy.exc.SQLAlchemyError: the database is gone; nothing was written.
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
        """Notes of each of some incidents that has any, oldest first."""
        names = sorted(incidents)
        notes: dict[str, list[Note]] = {}
        for start in range(0, len(names), _AT_ONCE):
            notes |= self._read(incident_note.c.incident.in_(names[start : start + _AT_ONCE]))
        return notes

    def of_job(self, job: str) -> dict[str, list[Note]]:
        """The same of all incidents of a job."""
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
    """What follows from the notes on an incident: `acknowledged` and `mitigated`, by whom and when
    or null, `owner`, empty for nobody, and the `notes` themselves."""
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

"""Pins an incident's data: its job's segments from before its beginning to after its end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.signals.clock import NANOSECONDS

MARGIN_S = 600.0
"""Time kept before and after an incident: the normal state, and the aftermath."""
MOST_WINDOWS = 100
"""Maximum number of windows per job; beyond it, the closest neighbours are joined."""


class Window(NamedTuple):
    """Segments received between two times, both inclusive, in wall nanoseconds."""

    first_ns: int
    last_ns: int


Pins = Mapping[str, Sequence[Window]]
"""Pinned windows by job, in time order, without overlaps."""


def find(connection: sa.Connection, may_be_pinned: sa.ColumnElement[bool]) -> Pins:
    """Return the windows that incidents pin, for jobs whose row meets a condition."""
    table, job = schema.incident, schema.job
    kind = sa.LargeBinary() if connection.dialect.name == "sqlite" else sa.Text()
    document = sa.cast(table.c.document, kind).label("document")
    query = sa.select(table.c.job, table.c.opened_at, document)
    query = query.where(table.c.job.in_(sa.select(job.c.name).where(may_be_pinned)))
    windows_by_job: dict[str, list[Window]] = {}
    for row in connection.execute(query):
        windows_by_job.setdefault(row.job, []).append(_window(row.opened_at, row.document))
    return {name: _joined(windows) for name, windows in windows_by_job.items()}


def inside(table: sa.Table, windows: Sequence[Window]) -> sa.ColumnElement[bool]:
    """Return the condition that a segment or bundle row overlaps one of the windows."""
    if table is schema.bundle:
        first, last = table.c.first_received_ns, table.c.last_received_ns
    else:
        first = last = table.c.received_ns
    within = (sa.and_(first <= window.last_ns, last >= window.first_ns) for window in windows)
    return sa.or_(sa.false(), *within)


def _window(opened_at: float, raw: str | bytes) -> Window:
    """Return an incident's window; with a damaged document, a window around its opening."""
    try:
        document: Any = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    fields = document if isinstance(document, dict) else {}
    first = _moment(fields, "began_at", opened_at)
    last = max(_moment(fields, name, opened_at) for name in ("resolved_at", "last_seen_at"))
    return Window(
        int((min(first, opened_at) - MARGIN_S) * NANOSECONDS),
        int((max(last, opened_at) + MARGIN_S) * NANOSECONDS),
    )


def _moment(document: Mapping[str, Any], name: str, otherwise: float) -> float:
    """Return a time from a document, or `otherwise` if it is missing or implausible."""
    moment = document.get(name)
    if isinstance(moment, int | float) and 0 < moment < 1 << 33:
        return float(moment)
    return otherwise


def _joined(windows: Sequence[Window]) -> list[Window]:
    """Merge overlapping windows: 1 to 5, 4 to 9 and 20 to 30 give 1 to 9 and 20 to 30."""
    joined: list[Window] = []
    for window in sorted(windows):
        if joined and window.first_ns <= joined[-1].last_ns:
            joined[-1] = Window(joined[-1].first_ns, max(joined[-1].last_ns, window.last_ns))
        else:
            joined.append(window)
    while len(joined) > MOST_WINDOWS:
        gaps = [later.first_ns - earlier.last_ns for earlier, later in itertools.pairwise(joined)]
        index = gaps.index(min(gaps))
        joined[index : index + 2] = [Window(joined[index].first_ns, joined[index + 1].last_ns)]
    return joined

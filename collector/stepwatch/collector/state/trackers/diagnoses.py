"""Diagnoses of suspect ranks: each rank's newest answer, with its flight recorder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import GilState, Kind
from stepwatch.signals.wire import Rows

MAX_ENTRIES = 256
"""Maximum flight-recorder entries per rank: sixteen groups of sixteen."""


class FlightEntry(NamedTuple):
    """One collective that a rank entered: group, its number in that group, operation, sizes."""

    group: str
    number: int
    op: str
    sizes: str
    state: str


class Diagnosis(NamedTuple):
    """One rank's answer; `at_ns` is its node's monotonic time, counters are -1 while unknown."""

    at_ns: int
    answered: bool
    stack_read: bool
    gil: GilState
    enqueued: int
    completed: int
    function: str
    line: str
    stack: str
    note: str
    flight: tuple[FlightEntry, ...] = ()

    def newest(self) -> dict[str, FlightEntry]:
        """Return each group's newest collective."""
        newest: dict[str, FlightEntry] = {}
        for entry in self.flight:
            if entry.group not in newest or entry.number > newest[entry.group].number:
                newest[entry.group] = entry
        return newest

    def age_seconds(self, now_ns: int) -> float:
        """Return the diagnosis's age at `now_ns` on the same node's clock."""
        return (now_ns - self.at_ns) / NANOSECONDS


class Diagnoses(Tracker):
    """Newest diagnosis by rank."""

    kinds = frozenset({Kind.DIAGNOSIS})
    given_back = True

    def __init__(self) -> None:
        self.by_rank: dict[int, Diagnosis] = {}

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply DIAGNOSIS rows and their FLIGHT rows."""
        if (rows := batch.rows(Kind.DIAGNOSIS)) is not None:
            self.add(rows, batch.rows(Kind.FLIGHT), attempt.world)

    def add(self, rows: Rows, flights: Rows | None, world: int) -> None:
        """Add DIAGNOSIS rows and their FLIGHT rows."""
        newest = {int(row["rank"]): row for row in rows}
        recorded = _by_rank(flights)
        for rank, row in newest.items():
            if not 0 <= rank < world:
                continue
            gil = int(row["gil"])
            self.by_rank[rank] = Diagnosis(
                int(row["time_ns"]),
                bool(row["worker_answered"]),
                bool(row["stack_read"]),
                GilState(gil) if gil in set(GilState) else GilState.UNKNOWN,
                int(row["enqueued"]),
                int(row["completed"]),
                _text(row["function"]),
                _text(row["line"]),
                _text(row["stack"]),
                _text(row["note"]),
                _entries(recorded.get(rank)),
            )


def _by_rank(rows: Rows | None) -> dict[int, Rows]:
    """Return each rank's rows in order, for all ranks at once."""
    if rows is None or not len(rows):
        return {}
    ordered = rows[np.argsort(rows["rank"], kind="stable")]
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered["rank"])) + 1)
    return {int(part["rank"][0]): part for part in parts}


def _entries(rows: Rows | None) -> tuple[FlightEntry, ...]:
    newest = rows[-MAX_ENTRIES:] if rows is not None else ()
    return tuple(
        FlightEntry(
            _text(row["group"]),
            int(row["collective_seq"]),
            *(_text(row[name]) for name in ("op", "sizes", "state")),
        )
        for row in newest
    )


def _text(value: bytes) -> str:
    return bytes(value).decode("utf-8", "replace")

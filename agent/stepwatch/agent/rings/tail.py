"""Follows every ring below the ring directory, across restarts of ranks and of the agent."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.agent.keys import AttemptKey, Cursors, Tables
from stepwatch.agent.survival import SHORTAGES, SurvivedErrors
from stepwatch.signals.arrays import joined_rows
from stepwatch.signals.blackbox import (
    Identity,
    RingReader,
    RingSlots,
    closed_directories,
    is_elsewhere,
    owner_lives,
    rows_of,
)
from stepwatch.signals.errors import RingError
from stepwatch.signals.records import DTYPES, Kind, ProcessState
from stepwatch.signals.wire import Rows

from .bounds import ELSEWHERE, MALFORMED, UNREADABLE, RingBounds
from .ended import EndedRings
from .folders import RingFolders
from .namespaces import LocalProcesses
from .process_exits import ProcessExit, ProcessExits
from .processes import state_of
from .users import UserJobs

logger = logging.getLogger(__name__)

READ_LIMIT = 49_152
"""Maximum records per segment, shared by its rings; the remaining records wait in the rings.

The largest record kinds then stay below a segment's limit even without compression.
"""


MOST_CURSORS = 4096
"""Maximum number of cursors for rings that are not open."""
CLOSED_FLUSHES = 5
"""Segments that still report a rank after it closed its ring, unless its process ends earlier."""
SEARCH_SECONDS = 0.9
"""Seconds after which every ring's file is looked at again, although no folder changed: it may
have been cut short. So one of four polls does it."""


class WatchedRank(NamedTuple):
    """A ring, its tail's counts, and its process's exit (None while alive)."""

    reader: RingReader
    overruns: int
    torn: int
    exited: ProcessExit | None = None


class Position(NamedTuple):
    """How far one ring was read."""

    tail: RingTail
    next_seq: int
    records: int
    overruns: int
    torn: int
    reported: bool


@dataclass
class RingTail:
    """A followed ring."""

    reader: RingReader
    next_seq: int = 1
    records: int = 0
    overruns: int = 0
    torn: int = 0
    closed_flushes: int = 0
    drained: bool = False
    """The rank has ended, all records were read, and its last state was sent."""
    reported: bool = False
    """Its last stderr lines were sent, or there are none."""
    job: str = ""
    """The sent job name; empty for the job's own name."""

    @property
    def key(self) -> AttemptKey:
        """The ring's attempt."""
        identity = self.reader.identity
        return AttemptKey(self.job or identity.job, identity.attempt)

    @property
    def ring_id(self) -> int:
        """The random number that the writer chose."""
        return self.reader.identity.ring_id

    def ended(self, now_ns: int, exits: ProcessExits) -> bool:
        """Return whether no record and no exit code will follow.

        Each call counts as one flush for a closed ring whose process is still alive.
        """
        if self.reader.closed:
            self.closed_flushes += 1
            if self.closed_flushes > CLOSED_FLUSHES:
                return True
        if exits.lives(self.ring_id):
            return False
        exited = exits.exit_of(self.ring_id)
        return state_of(self.reader, now_ns, exited)[0] is ProcessState.GONE


@dataclass
class Tail:
    """Follow all rings below `root`; `cursors` holds an earlier agent's positions."""

    root: Path
    cursors: Cursors = field(default_factory=dict)
    records_read: int = 0
    overruns: int = 0
    ended: EndedRings | None = None
    """Takes over rings without further records; with None they stay open."""
    errors: SurvivedErrors | None = None
    _tails: dict[Path, RingTail] = field(default_factory=dict)
    _logged: set[str] = field(default_factory=set)
    _attempts: Counter[int] = field(default_factory=Counter)
    """Number of attempts that may bring records, by user id."""
    _searched_s: float = -1.0
    _has_changed: bool = True
    """Whether a folder has changed since `forget_missing`."""
    bounds: RingBounds = field(default_factory=RingBounds)
    _users: UserJobs = field(default_factory=UserJobs)
    _processes: LocalProcesses = field(default_factory=LocalProcesses)

    def __post_init__(self) -> None:
        self._folders = RingFolders(self.root)

    def discover(self) -> bool:
        """Open new rings, and reopen replaced files that were read to their end.

        Returns whether the files were looked at: they are not if no folder changed since the last
        time, `SEARCH_SECONDS` ago at the most.
        """
        entries, now_s = list(self._folders.entries()), time.monotonic()
        self._has_changed |= self._folders.changed
        if not self._folders.changed and now_s - self._searched_s < SEARCH_SECONDS:
            return False
        self._searched_s = now_s
        self.bounds.begin(self._tails)
        for path, inode in entries:
            tail = self._tails.get(path)
            if tail is None and self.ended is not None and self.ended.holds(path, inode):
                continue
            if tail is not None and not tail.reader.is_replaced():
                continue
            if tail is not None and tail.next_seq <= tail.reader.head:
                continue
            if tail is not None:
                self._drop(path)
            reader = self._open(path)
            if reader is not None and not self._has_moved(reader):
                start = self.cursors.pop(reader.identity.ring_id, 1)
                self._tails[path] = RingTail(reader, start)
        return True

    def _has_moved(self, reader: RingReader) -> bool:
        """Return whether `reader` is a followed ring under a new name, and keep following it.

        A rank may learn its number after it made its ring, and then renames the ring.
        """
        for former, tail in self._tails.items():
            if tail.reader.inode == reader.inode and tail.ring_id == reader.identity.ring_id:
                reader.close()
                if not former.exists():
                    tail.reader.path = reader.path
                    self._tails[reader.path] = self._tails.pop(former)
                return True
        return False

    def _name_closed_directories(self) -> None:
        """Log once the users whose rings this agent may not read, and the remedy."""
        for folder in closed_directories(self.root):
            self._log_once(
                f"cannot read the rings in {folder}: run an agent as their user, or this one as "
                "root or with CAP_DAC_READ_SEARCH"
            )

    def identities(self) -> list[Identity]:
        """Return the identities in the open rings."""
        return [tail.reader.identity for tail in self._tails.values()]

    @property
    def followed(self) -> list[RingTail]:
        """The open rings."""
        return [*self._tails.values()]

    def forget_missing(self, now_ns: int) -> None:
        """Close rings that were removed and fully read, and rings whose rank has ended.

        `now_ns` is monotonic. Directories that are closed to this agent are logged once.
        """
        has_changed, self._has_changed = self._has_changed, False
        if has_changed:
            self._name_closed_directories()
        for path, tail in list(self._tails.items()):
            if tail.next_seq <= tail.reader.head:
                self._has_changed |= has_changed  # looked at again when it is read
                continue
            if has_changed and not _exists(path):
                if not (tail.drained or tail.reader.closed):
                    self._log_once(
                        f"the ring {path} was removed while its rank may still run; a rank makes "
                        "a new one within seconds"
                    )
                self._drop(path)
            elif self.ended is not None and tail.drained and not owner_lives(tail.reader, now_ns):
                self.ended.add(tail.reader, tail.next_seq, tail.key.job)
                del self._tails[path]
        for reader, next_seq in self.ended.tidy() if self.ended is not None else ():
            self._tails[reader.path] = RingTail(reader, next_seq)
        while len(self.cursors) > MOST_CURSORS:
            del self.cursors[next(iter(self.cursors))]
        self._users.keep({identity.job for identity in self.identities()})

    def attempts(self) -> dict[AttemptKey, list[RingTail]]:
        """Return rings that may still bring records, by attempt.

        An ended rank that still writes is followed again: an agent in a container may not see the
        process.
        """
        grouped: dict[AttemptKey, list[RingTail]] = {}
        for tail in self._tails.values():
            identity = self.localise(tail.reader)
            tail.job = self._users.name_of(identity.job, tail.reader.owner)
            if not tail.drained or tail.next_seq <= tail.reader.head:
                grouped.setdefault(tail.key, []).append(tail)
        self._attempts = Counter(tails[0].reader.owner for tails in grouped.values())
        return grouped

    def read(self, tails: list[RingTail]) -> Tables:
        """Return new records and gaps from these rings, as tables for one segment.

        Advances the rings; call `rewind` if the segment could not be stored.
        """
        slots_by_kind: dict[Kind, list[RingSlots]] = {}
        gaps: list[Rows] = []
        limit = self.bounds.share(READ_LIMIT, self._attempts, tails[0].reader.owner) // len(tails)
        limit = max(1, limit)
        for tail in tails:
            first_seq = tail.next_seq
            slots, tail.next_seq, overruns, torn = tail.reader.take(tail.next_seq, limit)
            tail.records += sum(map(len, slots.values()))
            tail.overruns += overruns
            tail.torn += torn
            for kind, ring_slots in slots.items():
                slots_by_kind.setdefault(kind, []).append(ring_slots)
            if overruns or torn:
                gaps.append(_gap(tail, first_seq, first_seq + overruns + torn - 1))
        tables = {kind: rows_of(slots) for kind, slots in slots_by_kind.items()}
        if gaps:
            tables[Kind.GAP] = joined_rows(gaps, DTYPES[Kind.GAP])
        if tables:
            tables[Kind.CURSOR] = _cursor_rows(tails)
        return tables

    def positions(self, tails: list[RingTail]) -> list[Position]:
        """Return each ring's position, for `rewind` or `commit`."""
        return [
            Position(tail, tail.next_seq, tail.records, tail.overruns, tail.torn, tail.reported)
            for tail in tails
        ]

    @staticmethod
    def rewind(positions: list[Position]) -> None:
        """Go back to `positions`: the records stay in the rings until they can be stored."""
        for tail, next_seq, records, overruns, torn, reported in positions:
            tail.next_seq, tail.records, tail.reported = next_seq, records, reported
            tail.overruns, tail.torn = overruns, torn

    def commit(self, positions: list[Position]) -> None:
        """Count the records since `positions`: they are stored now."""
        for position in positions:
            self.records_read += position.tail.records - position.records
            self.overruns += position.tail.overruns - position.overruns

    def _drop(self, path: Path) -> None:
        tail = self._tails.pop(path)
        # A ring that was only moved away and back must not be read twice.
        self.cursors[tail.ring_id] = tail.next_seq
        tail.reader.close()

    def _open(self, path: Path) -> RingReader | None:
        if not self.bounds.admits(path):
            return None
        try:
            reader = RingReader(path, below=self.root)
        except RingError as error:
            cause = error.__cause__
            if self.errors is not None and isinstance(cause, OSError) and cause.errno in SHORTAGES:
                self.errors.count(cause)
            self.bounds.refuse(path, UNREADABLE if isinstance(cause, OSError) else MALFORMED)
            self._log_once(str(error))
            return None
        identity = self.localise(reader)
        if is_elsewhere(identity):
            reader.close()
            self.bounds.refuse(path, ELSEWHERE)
            self._log_once(
                f"rings of node {identity.node} lie in {self.root}, too: they are left to its own "
                "agent; a container of this node needs its name in STEPWATCH_NODE"
            )
            return None
        return reader

    def localise(self, reader: RingReader) -> Identity:
        """Read a ring's identity again, with the pid in the agent's namespace."""
        reader.identity = self._processes.localise(reader.refresh_identity())
        return reader.identity

    def _log_once(self, message: str) -> None:
        if message not in self._logged and len(self._logged) < 1000:
            self._logged.add(message)
            logger.warning("%s", message)


def watched(tails: list[RingTail], exits: ProcessExits) -> list[WatchedRank]:
    """Return the rings in the form that probes read."""
    return [
        WatchedRank(tail.reader, tail.overruns, tail.torn, exits.exit_of(tail.ring_id))
        for tail in tails
    ]


def _exists(path: Path) -> bool:
    """Return whether a file exists; one that cannot be checked may exist."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _cursor_rows(tails: list[RingTail]) -> Rows:
    rows = np.zeros(len(tails), dtype=DTYPES[Kind.CURSOR])
    rows["rank"] = [tail.reader.identity.rank for tail in tails]
    rows["ring_id"] = [tail.ring_id for tail in tails]
    rows["next_seq"] = [tail.next_seq for tail in tails]
    return rows


def _gap(tail: RingTail, first: int, last: int) -> Rows:
    rows = np.zeros(1, dtype=DTYPES[Kind.GAP])
    rows["rank"], rows["seq"] = tail.reader.identity.rank, first
    rows["first_seq"], rows["last_seq"] = first, last
    rows["text"] = b"overwritten or torn in the ring"
    return rows

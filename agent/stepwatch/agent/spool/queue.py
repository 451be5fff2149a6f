"""Segments on disk until the collector has them.

    <spool>/cursors.json       how far acknowledged segments had read each ring
    <spool>/<sequence>.seg     one segment each, complete or absent
    <spool>/<sequence>.refused a segment that the collector refused; the newest few are kept
    <spool>/<sequence>.damaged a segment that can no longer be read, kept for whoever looks into it

A segment carries the ring cursors it was read up to. What a restarted agent reads next is the
newest cursor among the acknowledged ones and those still spooled: nothing is read twice, nothing is
left out, whenever the agent was killed.

Every agent that opens a spool draws a number of its own for the keys of the segments it makes. A
key can then never come back, whatever was deleted from the spool meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.agent.keys import AttemptKey, Cursors, cursors_in
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import ConfigurationError, SegmentError
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Rows, Segment, SegmentKey

from .refused import MOST_BYTES, SUFFIX, Refused

logger = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES = 256 << 20
_IN_RINGS = (Kind.STEP, Kind.COLLECTIVE, Kind.MICROBATCH)
"""Expendable kinds that come from rings: what is dropped of them leaves a gap."""
_MAX_REMEMBERED_RINGS = 65_536
BATCH_BYTES = 16 << 20
"""Most bytes that `oldest` hands out at once, far below what a collector takes in one request."""


class Spooled(NamedTuple):
    """One segment file."""

    sequence: int
    path: Path
    size: int


class Spool:
    """A bounded queue of segments on disk; one thread puts, another takes.

    Raises:
        ConfigurationError: the directory cannot be created or written, or belongs to another agent.
    """

    def __init__(
        self,
        folder: Path,
        node: str,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        expendable: Collection[Kind] = frozenset(),
    ) -> None:
        self.folder = folder
        self.dropped = 0
        self._node = node
        self._limit = limit_bytes
        self._expendable = frozenset({*_IN_RINGS, *expendable})
        self._refused = Refused(folder, min(limit_bytes // 8, MOST_BYTES))
        self._lock = threading.Lock()
        self._queue: dict[int, Spooled] = {}
        self._thinned: set[int] = set()
        self.number = secrets.randbits(63)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._claim()
            self._acknowledged = self._load_cursors()
            self._cursors = dict(self._acknowledged)
            for path in sorted(folder.glob("*.seg")):
                self._adopt(path)
            self._probe_writing()
        except OSError as error:
            raise ConfigurationError(
                f"cannot use the spool {folder}: {error.strerror}; pass --spool with a writable "
                "directory"
            ) from error
        self._next = max(_sequences(folder), default=0) + 1

    def cursors(self) -> Cursors:
        """Where reading must go on, from everything acknowledged or spooled at the start."""
        return dict(self._cursors)

    def _claim(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        self._claimed = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another agent uses the spool {self.folder}; stop it, or pass another --spool"
            ) from error

    def close(self) -> None:
        """Leave the spool to another agent."""
        self._claimed()

    def _adopt(self, path: Path) -> None:
        """Take over what an earlier agent left; one damaged file must not hold up the others."""
        try:
            sequence = int(path.stem)
            data = path.read_bytes()
            self._cursors.update(cursors_in(wire.decode(data).tables))
        except (ValueError, SegmentError) as error:
            logger.warning(
                "%s is damaged (%s); it is set aside and its facts are lost", path, error
            )
            self.dropped += 1
            os.replace(path, path.with_suffix(".damaged"))
            return
        self._queue[sequence] = Spooled(sequence, path, len(data))

    def _probe_writing(self) -> None:
        probe = self.folder / ".writable"
        probe.touch()
        probe.unlink()

    @property
    def waiting_bytes(self) -> int:
        """Bytes waiting."""
        return sum(spooled.size for spooled in list(self._queue.values()))

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, key: AttemptKey, clock: ClockPair, tables: dict[Kind, Rows]) -> None:
        """Write one segment durably.

        Raises:
            OSError: the disk is full or gone; nothing was written.
            SegmentError: the tables do not fit into one segment.
        """
        with self._lock:
            sequence = self._next
            segment_key = SegmentKey(key.job, key.attempt, self._node, self.number, sequence)
            data = wire.encode(Segment(segment_key, clock, tables))
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(len(data))
            path = self.folder / f"{sequence:016d}.seg"
            _write_durably(path, data)
            self._queue[sequence] = Spooled(sequence, path, len(data))
            self._next = sequence + 1

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Up to `count` of the oldest segments as (sequence, bytes); at most `BATCH_BYTES`."""
        found: list[tuple[int, bytes]] = []
        size = 0
        with self._lock:
            for sequence in sorted(self._queue)[:count]:
                spooled = self._queue[sequence]
                size += spooled.size
                if found and size > BATCH_BYTES:
                    break
                try:
                    found.append((sequence, spooled.path.read_bytes()))
                except OSError as error:
                    logger.warning("spooled segment %s is lost: %s", spooled.path, error)
                    self.dropped += 1
                    del self._queue[sequence]
        return found

    def acknowledge(
        self, sent: list[tuple[int, bytes]], refused: Collection[int] = frozenset()
    ) -> None:
        """The collector is done with these: remember their cursors, then delete them.

        Those whose sequence is in `refused` are moved aside instead, within a bound.

        Raises:
            OSError: the disk is full or gone; the segments stay, and may be sent again.
        """
        cursors = {sequence: _cursors_of(data) for sequence, data in sent}
        with self._lock:
            for found in cursors.values():
                self._acknowledged.update(found)
            while len(self._acknowledged) > _MAX_REMEMBERED_RINGS:
                self._acknowledged.pop(next(iter(self._acknowledged)))
            try:
                self._save_cursors()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self._delete(_superseded(cursors))
                self._save_cursors()
            for sequence in refused:
                if sequence in self._queue:
                    self._refused.keep(self._queue[sequence].path)
            self._delete(list(cursors))

    def _delete(self, sequences: list[int]) -> None:
        for sequence in sequences:
            spooled = self._queue.pop(sequence, None)
            self._thinned.discard(sequence)
            if spooled is not None:
                spooled.path.unlink(missing_ok=True)

    def _make_room(self, needed: int) -> None:
        excess = self.waiting_bytes + needed - self._limit
        for sequence in sorted(set(self._queue) - self._thinned):
            if excess <= 0:
                return
            excess -= self._thin(self._queue[sequence])
        if excess > 0:
            raise OSError(28, "the spool is full of facts that may not be dropped")

    def _thin(self, spooled: Spooled) -> int:
        """Replace a segment's expendable rows by a gap record; returns the bytes won."""
        try:
            segment = wire.decode(spooled.path.read_bytes())
        except (FileNotFoundError, SegmentError) as error:
            logger.warning("spooled segment %s is lost: %s", spooled.path, error)
            self.dropped += 1
            self._delete([spooled.sequence])
            return spooled.size
        kept = {k: rows for k, rows in segment.tables.items() if k not in self._expendable}
        lost = [segment.tables[kind] for kind in _IN_RINGS if kind in segment.tables]
        gaps = [_gap(rows[rows["rank"] == rank]) for rows in lost for rank in set(rows["rank"])]
        if gaps:
            kept[Kind.GAP] = np.concatenate([kept.get(Kind.GAP, gaps[0][:0]), *gaps])
        data = wire.encode(segment._replace(tables=kept))
        _write_durably(spooled.path, data)
        self._queue[spooled.sequence] = spooled._replace(size=len(data))
        self._thinned.add(spooled.sequence)
        self.dropped += 1
        return spooled.size - len(data)

    def _load_cursors(self) -> Cursors:
        path = self.folder / "cursors.json"
        if not path.exists():
            return {}
        try:
            state = json.loads(path.read_text())
            return {int(ring): int(seq) for ring, seq in state["cursors"].items()}
        except (ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{path} is damaged ({error}); move the spool away: rings are then read anew"
            ) from error

    def _save_cursors(self) -> None:
        state = {"cursors": self._acknowledged}
        _write_durably(self.folder / "cursors.json", json.dumps(state).encode())


def _sequences(folder: Path) -> Iterator[int]:
    """Sequence numbers that have a file, whether it waits or was refused."""
    for path in folder.iterdir():
        if path.suffix in (".seg", SUFFIX) and path.stem.isascii() and path.stem.isdigit():
            yield int(path.stem)


def _cursors_of(data: bytes) -> Cursors:
    with contextlib.suppress(SegmentError):
        return cursors_in(wire.decode(data).tables)
    return {}


def _superseded(cursors: dict[int, Cursors]) -> list[int]:
    """Segments whose cursors a newer one of them repeats or passes: losing those loses nothing."""
    later: Cursors = {}
    found = []
    for sequence in sorted(cursors, reverse=True):
        if all(later.get(ring, 0) >= seq for ring, seq in cursors[sequence].items()):
            found.append(sequence)
        later |= {ring: seq for ring, seq in cursors[sequence].items() if ring not in later}
    return found


def _gap(rows: Rows) -> Rows:
    gap = np.zeros(1, dtype=DTYPES[Kind.GAP])
    gap["rank"], gap["seq"] = rows["rank"][0], rows["seq"].min()
    gap["first_seq"], gap["last_seq"] = rows["seq"].min(), rows["seq"].max()
    gap["text"] = b"dropped: the spool was full"
    return gap


def _write_durably(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(path.suffix + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""Segments on disk until the collector has them.

    <spool>/cursors.json       how far acknowledged segments had read each ring
    <spool>/<sequence>.seg     one segment each, complete or absent
    <spool>/<sequence>.held    a segment that the collector cannot read yet
    <spool>/<sequence>.refused a segment that the collector refused; the newest few are kept
    <spool>/<sequence>.damaged a segment that can no longer be read; the newest few are kept

A segment carries the ring cursors it was read up to. What a restarted agent reads next is the
newest cursor among the acknowledged segments and those still spooled: nothing is read twice,
nothing is left out, whenever the agent was killed. Only the cursors in a segment of a later format
cannot be read, by an agent that was downgraded: it reads those records again.

Every agent that opens a spool draws a number of its own for the keys of the segments it makes. A
key can then never come back, whatever was deleted from the spool meanwhile.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import threading
from collections.abc import Collection, Iterable
from pathlib import Path

from stepwatch.agent.keys import AttemptKey, Cursors, Tables, advance
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import ConfigurationError, SegmentError
from stepwatch.signals.places.owned import own_folder
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment, SegmentKey

from .adopt import adopt
from .claim import claim
from .cursors import CursorFile, superseded
from .downsample import downsample
from .files import (
    HELD,
    MOST_BYTES,
    SEQUENCE_DIGITS,
    WAITING,
    Spooled,
    quarantine,
    sequences,
)
from .refused import Refused

logger = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES = 256 << 20
BATCH_BYTES = 16 << 20
"""Most bytes that `oldest` hands out at once, far below what a collector takes in one request."""


class Spool:
    """A bounded queue of segments on disk; one thread puts, another sends.

    Rows of the `expendable` kinds may be dropped when it is full.

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
        self.number = secrets.randbits(63)
        self._node = node
        self._limit = limit_bytes
        self._expendable = expendable
        self._refused = Refused(folder, min(limit_bytes // 8, MOST_BYTES))
        self._lock = threading.Lock()
        self._queue: dict[int, Spooled] = {}
        self._held: dict[int, Spooled] = {}
        self._downsampled: set[int] = set()
        try:
            self._release = claim(folder, self)
            self._acknowledged = CursorFile(folder)
            self._adopt()
            self._next = max(sequences(folder), default=0) + 1
        except OSError as error:
            raise ConfigurationError(
                f"cannot use the spool {folder}: {error.strerror}; pass --spool with a writable "
                "directory"
            ) from error

    def cursors(self) -> Cursors:
        """Where reading must go on, from everything acknowledged or spooled at the start."""
        return dict(self._cursors)

    def close(self) -> None:
        """Leave the spool to another agent."""
        self._release()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the segments that wait to be sent."""
        return sum(spooled.size for spooled in list(self._queue.values()))

    @property
    def held_bytes(self) -> int:
        """Bytes of the segments that wait for a collector that can read them."""
        return sum(spooled.size for spooled in list(self._held.values()))

    @property
    def held(self) -> int:
        """Segments that wait for a collector that can read them."""
        return len(self._held)

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, key: AttemptKey, clock: ClockPair, tables: Tables) -> None:
        """Write one segment durably.

        Raises:
            OSError: the disk is full or gone; nothing was written.
            SegmentError: the tables do not fit into one segment.
        """
        with self._lock:
            sequence = self._next
            segment_key = SegmentKey(key.job, key.attempt, self._node, self.number, sequence)
            data = wire.encode(Segment(segment_key, clock, tables))
            own_folder(self.folder)
            self._make_room(len(data))
            path = self.folder / f"{sequence:0{SEQUENCE_DIGITS}d}{WAITING}"
            write_durably(path, data)
            cursors = tables.get(Kind.CURSOR)
            self._queue[sequence] = Spooled(sequence, path, len(data), wire.WRITTEN_FORMAT, cursors)
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
                    self._drop(spooled)
        return found

    def acknowledge(self, done: Collection[int], refused: Collection[int] = frozenset()) -> None:
        """The collector is done with these sequences: remember their cursors, then delete them.

        Those that are in `refused` are moved aside instead, within a bound.

        Raises:
            OSError: the disk is full or gone; the segments stay, and may be sent again.
        """
        with self._lock:
            segments = [self._queue[sequence] for sequence in done if sequence in self._queue]
            self._acknowledged.advance(segments)
            try:
                self._acknowledged.save()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self._delete(superseded(segments))
                self._acknowledged.save()
            for sequence in refused:
                if sequence in self._queue:
                    self._refused.keep(self._queue[sequence].path)
            self._delete(done)

    def hold(self, held: Iterable[int], announced: Collection[int]) -> None:
        """Keep these sequences, unsent, until the collector reads more than `announced`.

        Raises:
            OSError: the disk is full or gone; some of the segments still wait to be sent.
        """
        with self._lock:
            segments = [self._queue[sequence] for sequence in held if sequence in self._queue]
            self._acknowledged.advance(segments)
            self._acknowledged.save()
            for spooled in segments:
                path = spooled.path.with_suffix(HELD)
                os.replace(spooled.path, path)
                del self._queue[spooled.sequence]
                self._held[spooled.sequence] = spooled._replace(
                    path=path, tried=frozenset(announced)
                )

    def release(self, announced: Collection[int]) -> None:
        """Send held segments again that may be read now.

        Raises:
            OSError: the disk is gone; some of the segments are still held.
        """
        readable = set(announced).union(wire.READABLE_FORMATS)
        with self._lock:
            segments = [
                spooled
                for spooled in self._held.values()
                if spooled.format in readable and not spooled.tried.issuperset(announced)
            ]
            for spooled in segments:
                if not spooled.path.exists():
                    logger.warning("held segment %s is lost: its file is gone", spooled.path)
                    self._drop(spooled)
                    continue
                path = spooled.path.with_suffix(WAITING)
                os.replace(spooled.path, path)
                del self._held[spooled.sequence]
                self._queue[spooled.sequence] = spooled._replace(path=path)

    def discard_damaged(self, sequence: int, reason: str) -> None:
        """Take a segment that cannot be decoded out of the queue; its file is kept.

        Raises:
            OSError: the folder cannot be written.
        """
        with self._lock:
            spooled = self._queue.pop(sequence, None)
            if spooled is not None:
                quarantine(spooled.path, reason)
                self.dropped += 1

    def _adopt(self) -> None:
        found = adopt(self.folder)
        self._queue, self._held, self.dropped = found.waiting, found.held, found.damaged
        self._cursors = dict(self._acknowledged.cursors)
        for sequence in sorted(found.waiting):
            advance(self._cursors, found.waiting[sequence].cursors)

    def _delete(self, done: Iterable[int]) -> None:
        for sequence in done:
            spooled = self._queue.pop(sequence, None)
            self._downsampled.discard(sequence)
            if spooled is not None:
                spooled.path.unlink(missing_ok=True)

    def _drop(self, spooled: Spooled) -> None:
        """Give a segment up: it is lost, or there is no room."""
        self.dropped += 1
        for segments in (self._queue, self._held):
            segments.pop(spooled.sequence, None)
        self._downsampled.discard(spooled.sequence)
        spooled.path.unlink(missing_ok=True)

    def _make_room(self, needed: int) -> None:
        """Downsample the oldest segments; if that is not enough, drop what nobody here can read."""
        excess = self.waiting_bytes + self.held_bytes + needed - self._limit
        segments = self._queue | self._held
        for sequence in sorted(set(segments) - self._downsampled):
            if excess <= 0:
                return
            if segments[sequence].format in wire.READABLE_FORMATS:
                excess -= self._downsample(segments[sequence])
        for sequence in sorted(segments):
            if excess <= 0:
                return
            if segments[sequence].format not in wire.READABLE_FORMATS:
                excess -= segments[sequence].size
                self._drop(segments[sequence])
        if excess > 0:
            raise OSError(errno.ENOSPC, "the spool is full of facts that may not be dropped")

    def _downsample(self, spooled: Spooled) -> int:
        """Drop a segment's expendable rows; returns the bytes won."""
        try:
            data = downsample(spooled.path.read_bytes(), self._expendable)
        except (FileNotFoundError, SegmentError) as error:
            logger.warning("spooled segment %s is lost: %s", spooled.path, error)
            self._drop(spooled)
            return spooled.size
        write_durably(spooled.path, data)
        place = self._queue if spooled.sequence in self._queue else self._held
        place[spooled.sequence] = spooled._replace(size=len(data), format=wire.format_of(data))
        self._downsampled.add(spooled.sequence)
        self.dropped += 1
        return spooled.size - len(data)

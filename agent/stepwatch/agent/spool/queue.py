"""Segments on disk until the collector has them.

    <spool>/cursors.json       how far acknowledged segments had read each ring
    <spool>/<sequence>.seg     one segment each, complete or absent; acknowledged ones are deleted
                               after the cursors were saved, every few seconds
    <spool>/<sequence>.held    a segment that the collector cannot read yet
    <spool>/<sequence>.refused a segment that the collector refused; the newest few are kept
    <spool>/<sequence>.damaged a segment that can no longer be read; the newest few are kept

A segment carries the ring cursors that it was read up to. A restarted agent resumes at the newest
cursor among acknowledged and spooled segments. So no record is read twice or skipped, whenever the
agent is killed. The exception is a file that cannot be read at the start or has a later format
than this agent's: its cursors are unknown, and its records are read again.

An unreadable file waits with the held ones and is tried again. Only content that is provably
damaged is moved aside, and a gap record says what it held.

Every agent that opens a spool draws a random number for its segments' keys. A key therefore never
repeats, whatever was deleted from the spool.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from stepwatch.agent.keys import AttemptKey, Cursors, Tables, advance
from stepwatch.agent.survival import SHORTAGES
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair, SystemClock
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import ConfigurationError, SegmentError
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import SegmentKey

from . import limit
from .adopt import adopt
from .claim import OwnFolder, claim
from .downsample import downsample
from .files import (
    HELD,
    MOST_BYTES,
    SEQUENCE_DIGITS,
    WAITING,
    Spooled,
    quarantine,
    read_segment,
    sequences,
)
from .gaps import gap_rows
from .parts import encode_parts
from .refused import Refused
from .settled import Settled

logger = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES = 256 << 20
_UNREAD = Spooled(0, Path(), 0, wire.WRITTEN_FORMAT)
"""Stands for a segment whose attempt alone is known."""
BATCH_BYTES = 16 << 20
"""Maximum bytes that `oldest` returns at once, far below a collector's request limit."""


class Spool:
    """A bounded queue of segments on disk; one thread puts, another sends.

    A full spool may drop rows with `expendable` kinds.

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
        self._own_folder = OwnFolder(folder)
        self._downsampled: set[int] = set()
        self._gaps: dict[AttemptKey, list[wire.Rows]] = {}
        """Gaps from lost segments, until a segment reports them."""
        try:
            self._release = claim(folder, self)
            self._acknowledged = Settled(folder)
            self._adopt()
            self._next = max(sequences(folder), default=0) + 1
        except OSError as error:
            raise ConfigurationError(
                f"cannot use the spool {folder}: {error.strerror}; pass --spool with a writable "
                "directory"
            ) from error

    def cursors(self) -> Cursors:
        """Return where reading resumes, from data acknowledged or spooled at the start."""
        return dict(self._cursors)

    def acknowledged(self, ring_id: int) -> int:
        """Return the first record in a ring that the collector may lack."""
        return self._acknowledged.cursors.get(ring_id, 1)

    def forget_ring(self, ring_id: int) -> None:
        """Forget a removed ring's cursor."""
        with self._lock:
            self._acknowledged.forget(ring_id)
            self._cursors.pop(ring_id, None)

    def close(self) -> None:
        """Save the cursors, and release the spool for another agent."""
        with self._lock, suppress(OSError):  # else the next agent sends the last segments again
            if self._acknowledged.waiting_bytes:
                self._acknowledged.save()
        self._release()

    @property
    def waiting_bytes(self) -> int:
        """Bytes in segments that wait to be sent."""
        return sum(spooled.size for spooled in list(self._queue.values()))

    @property
    def held_bytes(self) -> int:
        """Bytes in held segments."""
        return sum(spooled.size for spooled in list(self._held.values()))

    @property
    def held_segments(self) -> int:
        """Number of segments that wait for a capable collector or for a successful read."""
        return len(self._held)

    @property
    def unreadable(self) -> int:
        """Number of segments whose newest read failed."""
        return sum(segment.unreadable for segment in self._all())

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, key: AttemptKey, clock: ClockPair, tables: Tables) -> None:
        """Write one segment durably, or several if the tables are too large for one.

        Raises:
            OSError: the disk is full or gone; nothing was written.
            SegmentError: one rank's tables do not fit into one segment.
        """
        with self._lock:
            self._report_gaps()
            self._put(key, clock, tables)

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Return up to `count` of the oldest segments as (sequence, bytes), at most `BATCH_BYTES`.

        An unreadable segment is held and does not block later ones.

        Raises:
            OSError: this process or node lacks resources to read; no segment is held for that.
        """
        batch: list[tuple[int, bytes]] = []
        size = 0
        with self._lock:
            for sequence in sorted(self._queue)[:count]:
                spooled = self._queue[sequence]
                size += spooled.size
                if batch and size > BATCH_BYTES:
                    break
                data = self._read(spooled)
                if data is not None:
                    batch.append((sequence, data))
        return batch

    def acknowledge(
        self, sequences: Collection[int], refused: Collection[int] = frozenset()
    ) -> None:
        """Take these sequences from the queue; their files are deleted with the next saved cursors.

        Segments in `refused` are moved aside instead, within a bound.

        Raises:
            OSError: the disk is full or gone; the files stay, and are sent again after a restart.
        """
        with self._lock:
            for sequence in refused:
                if sequence in self._queue:
                    self._refused.keep(self._queue[sequence].path)
            segments = [self._queue[sequence] for sequence in sequences if sequence in self._queue]
            for spooled in segments:
                del self._queue[spooled.sequence]
                self._downsampled.discard(spooled.sequence)
            self._acknowledged.add(segments)
            if refused or self._acknowledged.is_due:
                self._acknowledged.save()

    def hold(self, sequences: Iterable[int], announced: Collection[int]) -> None:
        """Keep these sequences unsent until the collector reads more than `announced`.

        Raises:
            OSError: the disk is full or gone; some segments still wait to be sent.
        """
        with self._lock:
            segments = [self._queue[sequence] for sequence in sequences if sequence in self._queue]
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
        """Send held segments again that may be readable now.

        Raises:
            OSError: the disk is gone; some segments are still held.
        """
        readable = set(announced).union(wire.READABLE_FORMATS)
        with self._lock:
            segments = [
                spooled
                for spooled in self._held.values()
                if spooled.format in readable and not spooled.tried.issuperset(announced)
            ]
            for spooled in segments:
                path = spooled.path.with_suffix(WAITING)
                try:
                    os.replace(spooled.path, path)
                except FileNotFoundError:
                    self._lose(spooled, "its file is gone")
                    continue
                del self._held[spooled.sequence]
                self._queue[spooled.sequence] = spooled._replace(path=path)

    def discard_damaged(self, sequence: int, reason: str) -> None:
        """Remove a segment that cannot be decoded from the queue; its file is kept.

        Raises:
            OSError: the folder cannot be written.
        """
        with self._lock:
            spooled = self._queue.get(sequence)
            if spooled is not None:
                quarantine(spooled.path, reason)
                self._lose(spooled, reason)

    def _adopt(self) -> None:
        adopted = adopt(self.folder)
        self._queue, self._held, self.dropped = (
            adopted.waiting,
            adopted.held_segments,
            adopted.damaged,
        )
        for key in adopted.lost:
            self._gaps.setdefault(key, []).append(gap_rows(_UNREAD, (), {}))
        self._cursors = dict(self._acknowledged.cursors)
        for sequence in sorted(adopted.waiting):
            advance(self._cursors, adopted.waiting[sequence].cursors)

    def _put(self, key: AttemptKey, clock: ClockPair, tables: Tables) -> None:
        segment_key = SegmentKey(key.job, key.attempt, self._node, self.number, self._next)
        parts = encode_parts(segment_key, clock, tables)
        self._own_folder.check()
        self._make_room(sum(len(data) for _, data in parts))
        written: dict[int, Spooled] = {}
        try:
            for sequence, (part, data) in enumerate(parts, self._next):
                path = self.folder / f"{sequence:0{SEQUENCE_DIGITS}d}{WAITING}"
                write_durably(path, data)
                cursors, size = part.get(Kind.CURSOR), len(data)
                written[sequence] = Spooled(
                    sequence, path, size, wire.WRITTEN_FORMAT, cursors, attempt=key
                )
        except OSError:
            for segment in written.values():
                segment.path.unlink(missing_ok=True)
            raise
        self._queue |= written
        self._next += len(written)

    def _report_gaps(self) -> None:
        """Spool gap records for lost segments, each once."""
        while self._gaps:
            key, rows = next(iter(self._gaps.items()))
            self._put(key, ClockPair.now(SystemClock()), {Kind.GAP: np.concatenate(rows)})
            del self._gaps[key]

    def _read(self, spooled: Spooled) -> bytes | None:
        """Return a waiting segment's bytes; None if it left the queue."""
        try:
            data = read_segment(spooled.path)
        except FileNotFoundError:
            self._lose(spooled, "its file is gone")
        except SegmentError as error:
            quarantine(spooled.path, str(error))
            self._lose(spooled, str(error))
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            self._held[spooled.sequence] = limit.marked(self._queue.pop(spooled.sequence), error)
        else:
            self._queue[spooled.sequence] = spooled._replace(unreadable=False)
            return data
        return None

    def _lose(self, spooled: Spooled, reason: str) -> None:
        """Give up a missing or damaged segment; a gap record reports it."""
        logger.warning("spooled segment %s is lost: %s", spooled.path, reason)
        if spooled.attempt is not None:
            gap = gap_rows(spooled, self._all(), self._acknowledged.cursors)
            self._gaps.setdefault(spooled.attempt, []).append(gap)
        self._forget(spooled)

    def _forget(self, spooled: Spooled) -> None:
        self.dropped += 1
        for segments in (self._queue, self._held):
            segments.pop(spooled.sequence, None)
        self._downsampled.discard(spooled.sequence)

    def _all(self) -> list[Spooled]:
        """Return a copy that is safe while another thread changes the queue."""
        return [*list(self._queue.values()), *list(self._held.values())]

    def _make_room(self, needed: int) -> None:
        """Downsample the oldest segments; if that is not enough, drop unreadable formats."""
        excess = limit.excess(self._all(), self._limit) + needed
        if excess + self._acknowledged.waiting_bytes > 0 and self._acknowledged.waiting_bytes:
            self._acknowledged.save()
        segments = self._queue | self._held
        for sequence in sorted(set(segments) - self._downsampled):
            if excess <= 0:
                return
            segment = segments[sequence]
            if segment.format in wire.READABLE_FORMATS and not segment.unreadable:
                self._downsample(segment)
                downsampled = self._queue.get(sequence, self._held.get(sequence))
                excess -= segment.size - (0 if downsampled is None else downsampled.size)
                if downsampled is not None and downsampled.unreadable:
                    excess = limit.excess(self._all(), self._limit) + needed
        for sequence in sorted(segments):
            if excess <= 0:
                return
            if segments[sequence].format not in wire.READABLE_FORMATS:
                segments[sequence].path.unlink(missing_ok=True)
                excess -= segments[sequence].size
                self._forget(segments[sequence])
        if excess > 0:
            occupants = limit.what_fills(self._all(), self._limit)
            raise OSError(errno.ENOSPC, f"the spool is full of {occupants}")

    def _downsample(self, spooled: Spooled) -> None:
        """Drop a segment's expendable rows."""
        place = self._queue if spooled.sequence in self._queue else self._held
        try:
            data = downsample(read_segment(spooled.path), self._expendable)
        except FileNotFoundError:
            self._lose(spooled, "its file is gone")
        except SegmentError as error:
            quarantine(spooled.path, str(error))
            self._lose(spooled, str(error))
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            place[spooled.sequence] = limit.marked(spooled, error)
        else:
            write_durably(spooled.path, data)
            place[spooled.sequence] = spooled._replace(size=len(data), format=wire.format_of(data))
            self._downsampled.add(spooled.sequence)
            self.dropped += 1

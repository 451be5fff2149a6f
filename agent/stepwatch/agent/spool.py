"""Segments on disk until the collector has them.

    <spool>/id             random number of this spool, part of every segment's key
    <spool>/cursors.json   how far acknowledged segments had read each ring
    <spool>/<sequence>.seg one segment each, complete or absent

A segment carries the ring cursors it was read up to. What a restarted agent reads next is the
newest cursor among the acknowledged ones and those still spooled: nothing is read twice, nothing is
left out, whenever the agent was killed.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.agent.tail import AttemptKey, Cursors, cursors_in
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import ConfigurationError, SegmentError
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind
from stepwatch.signals.wire import Rows, Segment, SegmentKey

logger = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES = 256 << 20
_EXPENDABLE = (Kind.STEP, Kind.COLLECTIVE, Kind.RANK_STATE, Kind.HOST)
_MAX_REMEMBERED_RINGS = 65_536


class Spooled(NamedTuple):
    """One segment file."""

    sequence: int
    path: Path
    size: int


class Spool:
    """A bounded queue of segments on disk.

    Raises:
        ConfigurationError: the directory cannot be created or written.
    """

    def __init__(self, folder: Path, node: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder = folder
        self.dropped = 0
        self._node = node
        self._limit = limit_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.number = self._load_number()
            self._acknowledged, highest = self._load_cursors()
        except OSError as error:
            raise ConfigurationError(
                f"cannot use the spool {folder}: {error.strerror}; pass --spool with a writable "
                "directory"
            ) from error
        self._queue: dict[int, Spooled] = {}
        self._thinned: set[int] = set()
        for path in sorted(folder.glob("*.seg")):
            sequence = int(path.stem)
            self._queue[sequence] = Spooled(sequence, path, path.stat().st_size)
        self._next = max([highest, *self._queue]) + 1

    def cursors(self) -> Cursors:
        """Where reading must go on, from everything acknowledged or spooled."""
        cursors = dict(self._acknowledged)
        for spooled in self._queue.values():
            try:
                cursors.update(cursors_in(wire.decode(spooled.path.read_bytes()).tables))
            except (OSError, SegmentError) as error:
                logger.warning("spooled segment %s is unreadable: %s", spooled.path.name, error)
        return cursors

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
        sequence = self._next
        segment_key = SegmentKey(key.job, key.attempt, self._node, self.number, sequence)
        data = wire.encode(Segment(segment_key, clock, tables))
        self._make_room(len(data))
        path = self.folder / f"{sequence:016d}.seg"
        _write_durably(path, data)
        self._queue[sequence] = Spooled(sequence, path, len(data))
        self._next = sequence + 1

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Up to `count` of the oldest segments as (sequence, bytes)."""
        found = []
        for sequence in sorted(list(self._queue))[:count]:
            try:
                found.append((sequence, self._queue[sequence].path.read_bytes()))
            except OSError:
                self._queue.pop(sequence, None)
        return found

    def acknowledge(self, sent: list[tuple[int, bytes]]) -> None:
        """The collector has these: remember their cursors, then delete them."""
        for _, data in sent:
            try:
                self._acknowledged.update(cursors_in(wire.decode(data).tables))
            except SegmentError:
                continue
        while len(self._acknowledged) > _MAX_REMEMBERED_RINGS:
            self._acknowledged.pop(next(iter(self._acknowledged)))
        self._save_cursors(max(sequence for sequence, _ in sent))
        for sequence, _ in sent:
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
        segment = wire.decode(spooled.path.read_bytes())
        kept = {k: rows for k, rows in segment.tables.items() if k not in _EXPENDABLE}
        lost = [segment.tables[kind] for kind in _EXPENDABLE if kind in segment.tables]
        gaps = [_gap(rows) for rows in lost if len(rows)]
        if gaps:
            kept[Kind.GAP] = np.concatenate([kept.get(Kind.GAP, gaps[0][:0]), *gaps])
        data = wire.encode(segment._replace(tables=kept))
        _write_durably(spooled.path, data)
        self._queue[spooled.sequence] = spooled._replace(size=len(data))
        self._thinned.add(spooled.sequence)
        self.dropped += 1
        return spooled.size - len(data)

    def _load_number(self) -> int:
        path = self.folder / "id"
        if not path.exists():
            _write_durably(path, f"{secrets.randbits(63)}\n".encode())
        return int(path.read_text())

    def _load_cursors(self) -> tuple[Cursors, int]:
        path = self.folder / "cursors.json"
        if not path.exists():
            return {}, 0
        try:
            state = json.loads(path.read_text())
            cursors = {int(ring): int(seq) for ring, seq in state["cursors"].items()}
            return cursors, int(state["sequence"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{path} is damaged ({error}); move the spool away: rings are then read anew"
            ) from error

    def _save_cursors(self, sequence: int) -> None:
        state = {"sequence": sequence, "cursors": self._acknowledged}
        _write_durably(self.folder / "cursors.json", json.dumps(state).encode())


def _gap(rows: Rows) -> Rows:
    gap = np.zeros(1, dtype=DTYPES[Kind.GAP])
    gap["rank"] = rows["rank"][0] if len(set(rows["rank"])) == 1 else UNKNOWN_RANK
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

"""The sender's receipts of each segment: its key, a digest of its content, the answer."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.wire import SegmentKey
from stepwatch.signals.wire.compression import Codec
from stepwatch.signals.wire.frame import open_frame

SENT, ACCEPTED, DUPLICATE, OTHER = range(4)
_WORDS = {"accepted": ACCEPTED, "duplicate": DUPLICATE}
KEY = [("node", "S16"), ("attempt", "<i8"), ("spool", "<u8"), ("sequence", "<u8")]
DIGEST = [("high", "<u8"), ("low", "<u8")]
RECEIPT = np.dtype([("what", "u1"), *KEY, *DIGEST])
"""One attempt to send a segment (`SENT`), or its answer."""
_codec = Codec(3, dictionary=True)


class SegmentIdentity(NamedTuple):
    """A segment's key, and the two halves of its digest."""

    key: SegmentKey
    high: int
    low: int

    def row(self, verdict: int) -> tuple[int | bytes, ...]:
        """A row of `RECEIPT`."""
        key = self.key
        return verdict, key.node.encode(), key.attempt, key.spool, key.sequence, self.high, self.low


def identify(data: bytes) -> SegmentIdentity:
    """Key and digest of a segment; the digest is that of its content, however it is compressed."""
    _, header, payload, raw_size = open_frame(data)
    content = hashlib.blake2b(header, digest_size=16)
    content.update(_codec.inflate(payload, raw_size))
    digest = content.digest()
    halves = (int.from_bytes(half, "little") for half in (digest[:8], digest[8:]))
    return SegmentIdentity(wire.peek_key(data), *halves)


class Receipts:
    """Writes a row of `RECEIPT` for each try and each answer."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def sent(self, body: bytes) -> list[SegmentIdentity]:
        """Note and return the segments of a request."""
        segments = [identify(piece) for piece in wire.split(body)]
        self._write([segment.row(SENT) for segment in segments])
        return segments

    def answered(self, segments: list[SegmentIdentity], status: int, body: bytes) -> None:
        """Note the answer to a request."""
        if not segments or status != 200:
            return
        verdicts = json.loads(body)["verdicts"]
        words = [_WORDS.get(row["verdict"], OTHER) for row in verdicts]
        self._write([segment.row(word) for segment, word in zip(segments, words, strict=True)])

    def _write(self, rows: list[tuple[int | bytes, ...]]) -> None:
        raw = np.array(rows, dtype=RECEIPT).tobytes()
        with self._lock, open(self._file, "ab") as file:
            file.write(raw)


def read(file: Path) -> Rows:
    """All rows that were written."""
    return np.fromfile(file, dtype=RECEIPT)

"""One pass over a file: CRCs of its members, zero pages, and its digest."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .limits import PAGE
from .reading import ReadAhead, Window

DEFLATED = 8
"""The number of the deflate method in a zip file."""


@dataclass(frozen=True)
class Span:
    """A member's bytes in a file, with the CRC-32 of its content; -1 is a size without a claim."""

    start: int
    stop: int
    name: str
    crc: int
    method: int = 0
    size: int = -1


@dataclass
class Sweep:
    """The result of one pass: members with a wrong CRC, runs of zero pages, SHA-256 or None."""

    bad: list[Span] = field(default_factory=list)
    zeros: list[tuple[int, int]] = field(default_factory=list)
    """Byte ranges of whole pages that hold only zeros, in order; a file's last page may be short"""
    size: int = 0
    sha256: str | None = None


class _Member:
    """The running CRC of one member."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._crc = self._size = 0
        self._inflater = zlib.decompressobj(-15) if span.method == DEFLATED else None
        self._broken = False

    def add(self, data: memoryview) -> None:
        """Add the next bytes of the member."""
        if self._inflater is None:
            self._crc = zlib.crc32(data, self._crc)
            self._size += len(data)
            return
        try:
            waiting: bytes | memoryview = data
            while len(waiting) and not self._broken:
                content = self._inflater.decompress(waiting, 1 << 20)
                self._crc = zlib.crc32(content, self._crc)
                self._size += len(content)
                self._broken = 0 <= self.span.size < self._size
                waiting = self._inflater.unconsumed_tail
        except zlib.error:
            self._broken = True

    @property
    def is_good(self) -> bool:
        """Return whether size and CRC match."""
        size = self.span.size if self.span.size >= 0 else self._size
        return not self._broken and self._crc == self.span.crc and self._size == size


def sweep(
    window: Window,
    spans: Sequence[Span],
    reader: ReadAhead,
    *,
    with_digest: bool,
    with_zeros: bool,
) -> Sweep:
    """Read all of a file once.

    Args:
        window: the whole file.
        spans: members in order of their start, without overlap.
        reader: the thread that reads ahead.
        with_digest: also compute the SHA-256.
        with_zeros: also find zero pages.
    Raises:
        DeadlineError: the session's time is over.
        OSError: the storage cannot be read.
    """
    result = Sweep()
    digest = hashlib.sha256() if with_digest else None
    position, index = 0, 0
    member: _Member | None = None
    for chunk in reader.chunks(window):
        end = position + len(chunk)
        if digest is not None:
            digest.update(chunk)
        if with_zeros:
            _note_zeros(result.zeros, chunk, position)
        while index < len(spans) and spans[index].start < end:
            span = spans[index]
            member = member or _Member(span)
            member.add(chunk[max(span.start - position, 0) : span.stop - position])
            if span.stop > end:
                break
            if not member.is_good:
                result.bad.append(span)
            member, index = None, index + 1
        position = end
    result.size = position
    result.bad.extend(spans[index:])
    result.sha256 = digest.hexdigest() if digest is not None else None
    return result


def longest_zeros(window: Window, span: Span) -> tuple[int, int] | None:
    """Return the longest range of whole zero pages in a member, or None.

    Raises:
        OSError: the storage cannot be read.
    """
    ranges: list[tuple[int, int]] = []
    first, last = -(-span.start // PAGE) * PAGE, span.stop // PAGE * PAGE
    for position in range(first, last, 1 << 20):
        data = window.read(position, min(1 << 20, last - position))
        _note_zeros(ranges, memoryview(data), position)
    return max(ranges, key=lambda part: part[1] - part[0], default=None)


def _note_zeros(ranges: list[tuple[int, int]], chunk: memoryview, position: int) -> None:
    """Add the chunk's zero pages; two words of each page choose the few that are compared whole."""
    whole = len(chunk) // PAGE
    words = np.frombuffer(chunk, dtype=np.uint64, count=whole * PAGE // 8).reshape(whole, PAGE // 8)
    candidates = np.flatnonzero((words[:, 0] == 0) & (words[:, -1] == 0))
    starts = [PAGE * int(page) for page in candidates if not words[page].any()]
    if len(chunk) % PAGE and not any(chunk[whole * PAGE :]):
        starts.append(whole * PAGE)
    for start in starts:
        first, stop = position + start, position + min(start + PAGE, len(chunk))
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], stop)
        else:
            ranges.append((first, stop))

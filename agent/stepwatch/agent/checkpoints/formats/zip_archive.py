"""Zip archives: the central directory and the place of every member.

Layout: PKWARE APPNOTE 6.3.10. Sizes in local headers are not used: torch writes them after the
data.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import NamedTuple

from stepwatch.agent.checkpoints.limits import Limits
from stepwatch.agent.checkpoints.reading import DamageError, UncheckableError, Window

LOCAL = b"PK\x03\x04"
_END, _END_64, _LOCATOR_64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_END_RECORD = struct.Struct("<4s4H2LH")
_END_RECORD_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LONGEST_COMMENT = 65535
_END_DAMAGED = "its central directory's end record is damaged"
_FLAGS = 0x080E
"""Allowed flags: a descriptor after the data, UTF-8 names, deflate's levels."""
_FOLDER = 0x10
"""MS-DOS attribute of a folder."""
_BIG = 0xFFFFFFFF


class Member(NamedTuple):
    """One member: `start` of its bytes in the window, stored and content size, CRC and method."""

    name: str
    start: int
    stored: int
    size: int
    crc: int
    method: int

    @property
    def stop(self) -> int:
        """The end of its bytes in the window."""
        return self.start + self.stored


def read_members(window: Window, limits: Limits) -> list[Member]:
    """Return the members of an archive in order of their place.

    Raises:
        DamageError: the archive is cut short, or its parts contradict each other.
        UncheckableError: its directory is larger than the limit.
        OSError: the storage cannot be read.
    """
    position, size, count = _directory(window)
    if size > limits.directory_bytes:
        raise UncheckableError(f"its central directory has {size} bytes")
    data = window.read(position, size)
    if len(data) < size:
        raise DamageError("its central directory is cut short")
    members, names = [], set()
    for entry, name, offset in _entries(data):
        names.add(name)
        members.append(_located(window, entry, name, offset))
    if len(members) != count:
        raise DamageError(f"its central directory lists {len(members)} members instead of {count}")
    if len(names) != count:
        raise DamageError("two members have one name")
    members.sort(key=lambda member: member.start)
    for member, following in pairwise(members):
        if member.stop > following.start:
            raise DamageError(f"its members {member.name} and {following.name} overlap")
    if members and members[-1].stop > position:
        raise DamageError(f"its member {members[-1].name} reaches into the central directory")
    return members


def _directory(window: Window) -> tuple[int, int, int]:
    """Return position and size of the central directory, and the number of entries."""
    tail_size = min(window.size, _END_RECORD.size + _LONGEST_COMMENT)
    tail = window.read(window.size - _END_RECORD.size, _END_RECORD.size)
    if not tail.startswith(_END):
        tail = window.read(window.size - tail_size, tail_size)
    at_end = tail.rfind(_END)
    if at_end < 0 or len(tail) - at_end < _END_RECORD.size:
        raise DamageError("it is cut short: no central directory at its end")
    end = window.size - len(tail) + at_end
    _, disk, first_disk, here, count, size, position, comment = _END_RECORD.unpack_from(
        tail, at_end
    )
    if end + _END_RECORD.size + comment != window.size:
        raise DamageError("it has more bytes than its central directory says")
    locator = window.read(end - _LOCATOR.size, _LOCATOR.size)  # torch always writes wide records
    if locator.startswith(_LOCATOR_64) and len(locator) == _LOCATOR.size:
        narrow = (disk, first_disk, here, count, size, position)
        _, wide_disk, end, disks = _LOCATOR.unpack(locator)
        record = window.read(end, _END_RECORD_64.size)
        if len(record) < _END_RECORD_64.size or not record.startswith(_END_64):
            raise DamageError(_END_DAMAGED)
        _, length, *_, disk, first_disk, here, count, size, position = _END_RECORD_64.unpack(record)
        wide = (disk, first_disk, here, count, size, position)
        pairs = zip(narrow, wide, strict=True)
        if wide_disk or disks != 1 or length < _END_RECORD_64.size - 12:
            raise DamageError(_END_DAMAGED)
        if any(short not in (0xFFFF, _BIG, long) for short, long in pairs):
            raise DamageError(_END_DAMAGED)
    if disk or first_disk or here != count:
        raise DamageError(_END_DAMAGED)
    if position + size != end:
        raise DamageError("its central directory is not where its end record says")
    return position, size, count


def _entries(data: bytes) -> list[tuple[tuple[int, ...], str, int]]:
    """Return (stored size, size, CRC, method, flags), name and header's offset of all members."""
    entries: list[tuple[tuple[int, ...], str, int]] = []
    position = 0
    while position < len(data):
        if data[position : position + 4] != b"PK\x01\x02":
            raise DamageError("its central directory is damaged")
        if len(data) - position < _ENTRY.size:
            raise DamageError("its central directory is cut short")
        fields = _ENTRY.unpack_from(data, position)
        flags, method, crc, stored, size = fields[3], fields[4], *fields[7:10]
        name_size, extra_size, comment_size, offset = *fields[10:13], fields[16]
        position += _ENTRY.size
        name = data[position : position + name_size].decode("utf-8", "replace")
        extra = data[position + name_size : position + name_size + extra_size]
        position += name_size + extra_size + comment_size
        stored, size, offset = _wide(extra, stored, size, offset)
        is_folder = fields[15] & _FOLDER and not name.endswith("/")
        if position > len(data) or flags & ~_FLAGS or fields[2] > 0xFF or fields[13] or is_folder:
            raise DamageError("its central directory is damaged")
        entries.append(((stored, size, crc, method, flags), name, offset))
    return entries


def _wide(extra: bytes, stored: int, size: int, offset: int) -> tuple[int, int, int]:
    """Return stored size, size and offset; those beyond 32 bits come from the extra field 1."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        if kind == 1:
            count = min(length, len(extra) - position - 4) // 8
            wide = list(struct.unpack_from(f"<{count}Q", extra, position + 4))
            try:
                size = wide.pop(0) if size == _BIG else size
                stored = wide.pop(0) if stored == _BIG else stored
                offset = wide.pop(0) if offset == _BIG else offset
            except IndexError:
                raise DamageError("its central directory is damaged") from None
        position += 4 + length
    return stored, size, offset


def _located(window: Window, entry: tuple[int, ...], name: str, offset: int) -> Member:
    """Return one member with the place of its bytes, from its local header."""
    stored, size, crc, method, flags = entry
    header = window.read(offset, _LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(LOCAL):
        raise DamageError(f"its member {name} is not where the central directory says")
    fields = _LOCAL_HEADER.unpack(header)
    start = offset + _LOCAL_HEADER.size + fields[9] + fields[10]
    local_name = window.read(offset + _LOCAL_HEADER.size, fields[9]).decode("utf-8", "replace")
    if local_name != name:
        raise DamageError(f"its member {name} has another name beside its bytes")
    # A writer that did not know them yet leaves zeros or, with wide fields, ones.
    claims = zip(fields[6:9], (crc, stored, size), strict=True)
    if fields[2:4] != (flags, method) or any(
        claim not in (0, _BIG, value) for claim, value in claims
    ):
        raise DamageError(f"its member {name} has other sizes or another CRC beside its bytes")
    if start + stored > window.size:
        raise DamageError(f"its member {name} is cut short")
    return Member(name, start, stored, size, crc, method)

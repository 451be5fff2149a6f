"""Each segment of a request is read as if it were alone, whatever was read before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import format1, frame

from .test_format1 import from_later
from .test_wire import random_rows, segment

LAYOUTS = [
    wire.encode(segment({Kind.STEP: 2, Kind.RANK_STATE: 2})),
    wire.encode(segment({Kind.STEP: 2, Kind.RANK_STATE: 3})),
    wire.encode(segment({Kind.STEP: 2})),
    wire.encode(segment({})),
    wire.encode(segment({Kind.HOST: 1, Kind.GAP: 1})),
    wire.encode(segment({Kind.GROUP: 2})),
    from_later({900: random_rows(Kind.GAP, 2, 0), int(Kind.GAP): random_rows(Kind.HOST, 1, 0)}),
]
"""More layouts than the reader compares with the next one."""
Edit = tuple[int, int, bytes]
"""Offset in the content (negative from its end), number of removed bytes, and inserted bytes."""

edits = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 40), st.integers(-40, -1), st.integers(0, 3000)),
        st.integers(0, 3),
        st.binary(max_size=3),
    ),
    max_size=2,
)


def changed(data: bytes, content: list[Edit], header: list[Edit]) -> bytes:
    """Return a segment with other content, whose checksum and sizes are right."""
    _, head, payload, raw_size = frame.open_frame(data)
    raw = edited(format1._codec.inflate(payload, raw_size), content)
    return frame.close_frame(1, edited(head, header), format1._codec.deflate(raw), len(raw))


def edited(data: bytes, changes: list[Edit]) -> bytes:
    for offset, cut, put in changes:
        offset = min(max(offset + len(data) * (offset < 0), 0), len(data))
        data = data[:offset] + put + data[offset + cut :]
    return data


def read(data: bytes) -> object:
    """Return everything that is read from a segment, or its refusal."""
    try:
        decoded = wire.decode(data)
    except SegmentError as error:
        return type(error), str(error)
    tables = {kind: (rows.dtype, rows.tobytes()) for kind, rows in decoded.tables.items()}
    unknown = {number: (rows.dtype, rows.tobytes()) for number, rows in decoded.unknown.items()}
    return decoded.key, decoded.clock, tables, unknown, decoded.row_count, decoded.nbytes


def read_alone(data: bytes) -> object:
    """Read a segment as a process does that has read nothing before."""
    newest = format1._newest
    format1._newest = format1._NewestDirectories()
    format1._kept_directory.cache_clear()
    try:
        return read(data)
    finally:
        format1._newest = newest


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, len(LAYOUTS) - 1), edits, edits.map(lambda changes: changes[:1])),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=1),
)
def test_what_was_read_before_changes_nothing(
    requests: list[tuple[int, list[Edit], list[Edit]]], damage: list[tuple[int, int]]
) -> None:
    body = bytearray(
        b"".join(
            changed(LAYOUTS[number], *edits_of_segment) for number, *edits_of_segment in requests
        )
    )
    for offset, value in damage:
        body[offset % len(body)] = value
    pieces = [*wire.split(bytes(body))]
    assert b"".join(pieces) == body
    assert [read(piece) for piece in pieces] == [read_alone(piece) for piece in pieces]


def test_a_directory_that_only_begins_like_one_before_is_another() -> None:
    """A directory's size is read with it, so none is the beginning of another one."""
    first, second = LAYOUTS[0], LAYOUTS[1]
    assert read(first) == read_alone(first)
    assert read(second) == read_alone(second)
    longer = changed(first, [(0, 1, b"\xff")], [])
    assert read(longer) == read_alone(longer)
    assert isinstance(read(longer), tuple)
    assert read(first) == read_alone(first)

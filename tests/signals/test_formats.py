"""Golden files of the segment and ring formats: their bytes keep their meaning.

A test here fails if the bytes change under the same number.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.blackbox import Identity, LayoutCondition, RingReader
from stepwatch.signals.blackbox.described import read_layout
from stepwatch.signals.blackbox.layout import (
    IDENTITY_CRC_AT,
    IDENTITY_VERSION,
    SLOT_DTYPES,
    pack_identity,
)
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import RING_KINDS, UNKNOWN, Kind
from stepwatch.signals.wire import SegmentKey, format1, frame

FOLDER = Path(__file__).parents[1] / "data" / "formats"
SEGMENT = (FOLDER / "segment-1.seg").read_bytes()
RING = gzip.decompress((FOLDER / "ring-1.gz").read_bytes())


def expected(name: str) -> Any:
    """Return the content of a fixture."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def plain(value: Any) -> Any:
    """Return a value as the fixtures' JSON spells it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    special = isinstance(value, float) and value - value != 0
    return str(value) if special else value


def check(kind: Kind, rows: Rows, written: dict[str, list[Any]]) -> None:
    """Check every field; a field that the writer lacks is unknown."""
    for name in rows.dtype.names or ():
        values = [plain(value) for value in rows[name].tolist()]
        unknown = [plain(UNKNOWN[kind][name])] * len(rows)
        assert values == written.get(name, unknown), f"{kind.name}.{name}"


def golden_identity() -> Identity:
    """Return the golden ring's identity; fields of later versions have their default."""
    identity: dict[str, Any] = expected("ring-1")["identity"]
    for name in ("mesh_index", "mesh_size"):
        identity[name] = tuple(identity[name])
    return Identity(**identity)


def test_the_golden_segment_is_decoded() -> None:
    written = expected("segment-1")
    key, clock = SegmentKey(*written["key"]), ClockPair(*written["clock"])
    segment = wire.decode(SEGMENT)
    assert (segment.key, segment.clock, segment.unknown) == (key, clock, {})
    assert wire.peek_key(SEGMENT) == key
    assert wire.format_of(SEGMENT) == wire.WRITTEN_FORMAT == 1
    assert {str(int(kind)) for kind in segment.tables} == written["tables"].keys()
    for kind, rows in segment.tables.items():
        check(kind, rows, written["tables"][str(int(kind))])


def test_the_golden_segment_is_written_again_byte_for_byte() -> None:
    number, header, payload, size = frame.open_frame(wire.write_sent(wire.read_sent(SEGMENT)))
    golden_number, golden_header, golden_payload, golden_size = frame.open_frame(SEGMENT)
    assert (number, header, size) == (golden_number, golden_header, golden_size)
    # Another release of zstd may compress in another way: the content is the same.
    inflate = format1._codec.inflate
    assert inflate(payload, size) == inflate(golden_payload, size)
    assert len(payload) == pytest.approx(len(golden_payload), rel=0.05)


def test_the_golden_ring_is_read(tmp_path: Path) -> None:
    path = tmp_path / "5"
    path.write_bytes(RING)
    tables = expected("ring-1")["tables"]
    reader = RingReader(path)
    assert reader.identity == golden_identity()
    assert reader.layout_condition is LayoutCondition.DESCRIBED
    assert (reader.heartbeat_ns, reader.hook_errors, reader.closed) == (55, 4, True)
    read = reader.read()
    assert (read.overruns, read.torn, reader.unknown_kinds) == (8, 0, 0)
    assert set(map(int, read.rows)) == set(map(int, tables)) <= set(map(int, RING_KINDS))
    for kind, rows in read.rows.items():
        check(kind, rows, tables[str(int(kind))])
    reader.close()


def test_the_golden_ring_is_written_again_at_the_same_places() -> None:
    assert pack_identity(golden_identity()) == RING[: IDENTITY_CRC_AT + 4]
    golden = read_layout(lambda offset, size: RING[offset : offset + size])
    for kind, converter in golden.converters.items():
        places = dict(SLOT_DTYPES[Kind(kind)].fields or {})
        is_same = dict(converter.source.fields or {}).items() <= places.items()
        assert is_same or IDENTITY_VERSION > 1, f"{Kind(kind).name} moved: raise IDENTITY_VERSION"

"""Files of every released format are decoded to what was written into them, by every version."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.blackbox import Identity, LayoutCondition, RingReader
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import RING_KINDS, UNKNOWN, Kind
from stepwatch.signals.wire import SegmentKey
from tests.signals.carried import carried, check_carried

FOLDER = Path(__file__).parents[1] / "data" / "formats"
SEGMENTS = {"2-first": 2, "2-second": 2, "2": 2, "3": 3}
"""Format of each fixture."""
RINGS = {"2": LayoutCondition.ABSENT, "3": LayoutCondition.DESCRIBED}


def expected(name: str) -> Any:
    """What a fixture holds."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def plain(value: Any) -> Any:
    """A value as the fixtures' JSON spells it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    special = isinstance(value, float) and value - value != 0
    return str(value) if special else value


def check(kind: Kind, rows: Rows, written: dict[str, list[Any]]) -> None:
    """Every field is there; one that the writer did not have is unknown."""
    for name in rows.dtype.names or ():
        found = [plain(value) for value in rows[name].tolist()]
        unknown = [plain(UNKNOWN[kind][name])] * len(rows)
        assert found == written.get(name, unknown), f"{kind.name}.{name}"


@pytest.mark.parametrize("name", SEGMENTS)
def test_a_released_segment_is_decoded(name: str) -> None:
    data = (FOLDER / f"segment-{name}.seg").read_bytes()
    written = expected(f"segment-{name}")
    key, clock = SegmentKey(*written["key"]), ClockPair(*written["clock"])
    segment = wire.decode(data)
    assert (segment.key, segment.clock, segment.unknown) == (key, clock, {})
    assert wire.peek_key(data) == key
    assert wire.format_of(data) == SEGMENTS[name]
    assert {str(int(kind)) for kind in segment.tables} == written["tables"].keys()
    for kind, rows in segment.tables.items():
        check(kind, rows, written["tables"][str(int(kind))])


@pytest.mark.parametrize("name", SEGMENTS)
def test_a_released_segment_says_the_same_in_every_format(name: str) -> None:
    data = (FOLDER / f"segment-{name}.seg").read_bytes()
    segment = wire.decode(data)
    for number in wire.READABLE_FORMATS:
        again = wire.decode(wire.transcode(data, number))
        assert (again.key, again.clock) == (segment.key, segment.clock)
        for kind, rows in again.tables.items():
            check_carried(number, kind, segment.tables[kind], rows)
        lost = {kind for kind in segment.tables if not carried(number, kind)}
        assert set(segment.tables) - set(again.tables) == lost


def test_a_format_once_written_is_written_the_same_way_again() -> None:
    for name in ("2", "3"):
        data = (FOLDER / f"segment-{name}.seg").read_bytes()
        again = wire.encode(wire.decode(data), format=SEGMENTS[name])
        # zstd may compress otherwise in another release: what it compresses is the same.
        assert len(again) == pytest.approx(len(data), rel=0.05)
        assert again[:8] == data[:8]


@pytest.mark.parametrize("name", RINGS)
def test_a_released_ring_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "5"
    path.write_bytes(gzip.decompress((FOLDER / f"ring-{name}.gz").read_bytes()))
    written = expected(f"ring-{name}")
    reader = RingReader(path)
    known = {k: tuple(v) if isinstance(v, list) else v for k, v in written["identity"].items()}
    # What a later version added is unknown: it has its default.
    assert reader.identity._asdict() == {**Identity._field_defaults, **known}
    assert reader.layout_condition is RINGS[name]
    assert (reader.heartbeat_ns, reader.hook_errors, reader.closed) == (55, 4, True)
    read = reader.read()
    assert (read.overruns, read.torn, reader.unknown_kinds) == (8, 0, 0)
    assert set(map(int, read.rows)) == set(map(int, written["tables"])) <= set(map(int, RING_KINDS))
    for kind, rows in read.rows.items():
        check(kind, rows, written["tables"][str(int(kind))])
    reader.close()

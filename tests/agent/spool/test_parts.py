"""Rows that are too many for one segment: all are spooled once, whenever the agent is killed."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.agent.spool import Spool, queue
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind, make_rows
from stepwatch.signals.wire import Rows

KEY, NOW = AttemptKey("job", 0), ClockPair(1, 1)
RANKS, STEPS, ENTRIES = 64, 8, 900
_FLIGHT_BYTES = DTYPES[Kind.FLIGHT].itemsize


@pytest.fixture(scope="module")
def tables() -> Tables:
    """What 64 stalled ranks hold: records of their rings, cursors, and 12 MB of entries that do not
    compress."""
    noise = np.random.default_rng(0).bytes(RANKS * ENTRIES * _FLIGHT_BYTES)
    flights = np.frombuffer(noise, dtype=DTYPES[Kind.FLIGHT]).copy()
    ranks, numbers = np.arange(RANKS), np.arange(RANKS * STEPS)
    flights["rank"] = np.tile(ranks, ENTRIES)
    steps = make_rows(Kind.STEP, len(numbers), rank=np.repeat(ranks, STEPS), step=numbers)
    read = make_rows(Kind.CURSOR, RANKS, rank=ranks, ring_id=ranks + 1, next_seq=STEPS + 1)
    agent_row = make_rows(Kind.AGENT, 1, rank=UNKNOWN_RANK)
    return {Kind.STEP: steps, Kind.CURSOR: read, Kind.FLIGHT: flights, Kind.AGENT: agent_row}


def rows_in(folder: Path, kind: Kind) -> Rows:
    tables = [wire.decode(path.read_bytes()).tables for path in sorted(folder.glob("*.seg"))]
    return np.concatenate([table[kind] for table in tables if kind in table])


def test_all_rows_are_spooled_in_several_segments(tmp_path: Path, tables: Tables) -> None:
    spool = Spool(tmp_path, "n1")
    spool.put(KEY, NOW, tables)
    assert len(spool) > 1
    for kind, rows in tables.items():
        assert Counter(row.tobytes() for row in rows_in(tmp_path, kind)) == Counter(
            row.tobytes() for row in rows
        )
    assert sorted(path.name for path in tmp_path.glob("*.seg")) == [
        f"{sequence:016d}.seg" for sequence in range(1, len(spool) + 1)
    ]
    keys = [wire.peek_key(path.read_bytes()).sequence for path in sorted(tmp_path.glob("*.seg"))]
    assert keys == list(range(1, len(spool) + 1))
    spool.close()


def test_an_agent_killed_between_two_parts_reads_on_where_they_end(
    tmp_path: Path, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, "n1")
    if not (pid := os.fork()):
        written: list[Path] = []

        def write(path: Path, data: bytes) -> None:
            if written:
                os._exit(9)
            written.append(path)
            path.write_bytes(data)

        monkeypatch.setattr(queue, "write_durably", write)
        try:
            spool.put(KEY, NOW, tables)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    spool.close()
    reopened = Spool(tmp_path, "n1")
    read = reopened.cursors()
    stored_ranks = {int(rank) for rank in rows_in(tmp_path, Kind.STEP)["rank"]}
    assert 0 < len(stored_ranks) < RANKS
    assert read == {rank + 1: STEPS + 1 for rank in stored_ranks}, "cursors and rows tell the same"
    reopened.close()


def test_a_disk_that_fills_between_two_parts_keeps_none_of_them(
    tmp_path: Path, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, "n1")
    written: list[Path] = []

    def write(path: Path, data: bytes) -> None:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        path.write_bytes(data)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(queue, "write_durably", write)
        spool.put(KEY, NOW, tables)
    assert (len(spool), list(tmp_path.glob("*.seg"))) == (0, [])
    spool.put(KEY, NOW, tables)
    assert len(rows_in(tmp_path, Kind.STEP)) == RANKS * STEPS
    spool.close()


def test_gaps_of_very_many_lost_segments_do_not_stop_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "n1")
    count = wire.MAX_ROWS + 1
    gaps = make_rows(Kind.GAP, count, first_seq=np.arange(count))
    spool._gaps[KEY] = [gaps]
    spool.put(KEY, NOW, {})
    assert sorted(rows_in(tmp_path, Kind.GAP)["first_seq"]) == list(range(len(gaps)))
    spool.close()


def test_what_no_segment_can_hold_is_an_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "n1")
    with pytest.raises(SegmentError):
        spool.put(KEY, NOW, {Kind.STEP: make_rows(Kind.GAP, 5)})
    assert list(tmp_path.glob("*.seg")) == []
    spool.close()

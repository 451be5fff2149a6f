"""Rings survive wrap-around, late readers, races, kills and hostile files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.signals.blackbox import Identity, RingReader, RingRows, RingWriter, find_rings
from stepwatch.signals.blackbox.layout import (
    DEVICE_AT,
    HEAD_AT,
    HEADER_SIZE,
    IDENTITY_CRC_AT,
    LIVE_AT,
    SLOT_SIZE,
    DeviceLine,
    LiveLine,
    pack_device,
    pack_identity,
    pack_live,
    unpack_device,
    unpack_live,
)
from stepwatch.signals.errors import RingError
from stepwatch.signals.records import DTYPES, DeviceState, Kind, Op, Phase


def identity(capacity: int = 16, ring_id: int = 7) -> Identity:
    return Identity("job", 0, 3, 4, "node-1", os.getpid(), ring_id, capacity, (1, 0, 1, 0))


def write(ring: RingWriter, number: int) -> None:
    """Write the record `number`, which repeats its number three times to show mixed-up records."""
    ring.write(Kind.LIFECYCLE, number, number * 10, 1, number, f"n{number}".encode())


def numbers(read: RingRows) -> list[int]:
    """Return the numbers of the read records, each checked in all its places."""
    rows = read.rows.get(Kind.LIFECYCLE, np.zeros(0, dtype=DTYPES[Kind.LIFECYCLE]))
    for row in rows:
        number = int(row["seq"])
        assert (row["rank"], row["step"], row["time_ns"]) == (3, number, number * 10)
        assert (row["value"], row["text"]) == (number, f"n{number}".encode())
    return [int(row["seq"]) for row in rows]


@settings(max_examples=60)
@given(
    capacity=st.integers(1, 12),
    bursts=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), max_size=8),
)
def test_what_was_not_read_was_counted(
    tmp_path_factory: pytest.TempPathFactory, capacity: int, bursts: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("rings") / "3"
    ring = RingWriter(path, identity(capacity))
    reader = RingReader(path)
    received: list[int] = []
    cursor, lost = 1, 0
    for written, limit in bursts:
        for _ in range(written):
            write(ring, ring.written + 1)
        read = reader.read(cursor, limit)
        received += numbers(read)
        cursor, lost = read.next_seq, lost + read.overruns
        assert read.torn == 0
        assert len(received) + lost == cursor - 1
    while cursor <= ring.written:
        read = reader.read(cursor)
        received += numbers(read)
        cursor, lost = read.next_seq, lost + read.overruns
    assert len(received) + lost == ring.written
    assert received == sorted(set(received))
    assert received[-capacity:] == list(
        range(max(1, ring.written - capacity + 1), ring.written + 1)
    )
    ring.close()
    reader.close()


RACER = """
import sys
from pathlib import Path
from tests.signals.test_blackbox import RingWriter, identity, write
ring = RingWriter(Path(sys.argv[1]), identity(int(sys.argv[2])))
print("ready", flush=True)
for number in range(1, int(sys.argv[3]) + 1):
    write(ring, number)
ring.close()
"""


def start_writer(path: Path, capacity: int, count: int) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    arguments = [sys.executable, "-c", RACER, str(path), str(capacity), str(count)]
    return subprocess.Popen(
        arguments,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("capacity", [1, 8, 4096])
def test_a_reader_races_a_writer(tmp_path: Path, capacity: int) -> None:
    total = 150_000
    path = tmp_path / "3"
    with start_writer(path, capacity, total) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        reader = RingReader(path)
        count, lost, cursor, last = 0, 0, 1, 0
        while not (reader.closed and cursor > reader.head):
            read = reader.read(cursor, limit=512)
            batch = numbers(read)
            assert not batch or batch[0] > last
            last = batch[-1] if batch else last
            count, lost, cursor = count + len(batch), lost + read.overruns, read.next_seq
            assert read.torn == 0
        assert process.wait(240) == 0
    assert reader.head == total
    assert count + lost == total
    assert count > 0
    reader.close()


def test_a_killed_writer_leaves_every_committed_record(tmp_path: Path) -> None:
    chance = random.Random(4)
    for round_number in range(6):
        path = tmp_path / str(round_number)
        with start_writer(path, 64, 10**9) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        reader = RingReader(path)
        assert reader.identity.job == "job"
        assert not reader.closed
        read = reader.read()
        records = numbers(read)
        expected = list(range(max(1, reader.head - 63), reader.head + 1))
        # The slot that was being overwritten at the kill may have lost its old record.
        assert records in (expected, expected[1:])
        assert len(records) + read.overruns == reader.head
        assert read.torn == 0
        reader.close()


def test_a_flipped_bit_is_torn_and_skipped(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "3", identity())
    for number in range(1, 6):
        write(ring, number)
    with open(tmp_path / "3", "r+b") as file:
        file.seek(HEADER_SIZE + 2 * SLOT_SIZE + 40)
        file.write(b"\xff")
    reader = RingReader(tmp_path / "3")
    read = reader.read()
    assert numbers(read) == [1, 2, 4, 5]
    assert (read.torn, read.overruns, read.next_seq) == (1, 0, 6)
    reader.close()
    ring.close()


def forged(**changes: object) -> bytes:
    return pack_identity(identity()._replace(**changes)).ljust(HEADER_SIZE, b"\0")  # type: ignore[arg-type]


def other_version() -> bytes:
    raw = bytearray(forged())
    raw[8:12] = (99).to_bytes(4, "little")
    raw[IDENTITY_CRC_AT : IDENTITY_CRC_AT + 4] = zlib.crc32(raw[:IDENTITY_CRC_AT]).to_bytes(
        4, "little"
    )
    return bytes(raw)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a stepwatch ring"),
        (b"SWRING01", "not a stepwatch ring"),
        (random.Random(1).randbytes(9000), "not a stepwatch ring"),
        (b"SWRING01" + bytes(9000), "checksum"),
        (forged() + bytes(100), "bytes long instead of"),
        (forged(capacity=1 << 20), "bytes long instead of"),
        (forged(capacity=(1 << 32) - 1), "out of range"),
        (forged(capacity=0), "out of range"),
        (forged(job="../../etc"), "job name"),
        (forged(job=""), "job name"),
        (other_version(), "schema 99"),
    ],
)
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "0"
    path.write_bytes(content)
    with pytest.raises(RingError, match=reason) as refused:
        RingReader(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_what_is_no_file_at_all_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0")
    (tmp_path / "1").mkdir()
    (tmp_path / "2").symlink_to(tmp_path / "nowhere")
    for name in ("0", "1", "2", "missing"):
        with pytest.raises(RingError):
            RingReader(tmp_path / name)


def test_a_file_cut_short_under_its_reader_reads_as_replaced(tmp_path: Path) -> None:
    path = tmp_path / "0"
    ring = RingWriter(path, identity())
    write(ring, 1)
    reader = RingReader(path)
    assert not reader.is_replaced()
    copy = path.read_bytes()
    ring.close()
    path.chmod(0o600)  # no writer of the same user cuts it by accident
    os.truncate(path, 100)
    assert reader.is_replaced()
    assert (reader.read().rows, reader.head, reader.live().step) == ({}, 0, 0)
    assert reader.refresh_identity().job == "job"
    path.write_bytes(copy)
    assert numbers(reader.read()) == [1]
    reader.close()


def test_a_head_beyond_any_record_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "0"
    ring = RingWriter(path, identity())
    write(ring, 1)
    ring.words[HEAD_AT // 8] = (1 << 64) - 1
    reader = RingReader(path)
    read = reader.read()
    assert numbers(read) == []
    assert read.torn + read.overruns == read.next_seq - 1 == reader.head < 1 << 63
    reader.close()
    ring.close()


@given(
    since=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**32 - 1),
    microbatch=st.integers(0, 2**16 - 1),
    phase=st.integers(0, 255),
    waiting=st.booleans(),
)
def test_live_lines_round_trip(
    since: int, step: int, microbatch: int, phase: int, waiting: bool
) -> None:
    live = LiveLine(since, step, microbatch, phase, waiting)
    assert unpack_live(*pack_live(live)) == live


@given(
    since=st.integers(0, 2**63),
    step=st.integers(0, 2**32 - 1),
    phase=st.integers(0, 255),
    state=st.sampled_from(DeviceState),
    op=st.integers(0, 255),
    group=st.integers(0, 2**16 - 1),
)
def test_device_lines_round_trip(
    since: int, step: int, phase: int, state: DeviceState, op: int, group: int
) -> None:
    line = DeviceLine(since, step, phase, state, op, group)
    assert unpack_device(*pack_device(line)) == line


def test_a_device_line_is_unknown_until_it_is_written(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", identity())
    reader = RingReader(tmp_path / "0")
    assert reader.device().state is DeviceState.UNKNOWN
    line = DeviceLine(5, 9, Phase.BACKWARD, DeviceState.IN_COLLECTIVE, Op.ALL_REDUCE, 3)
    ring.set_device(line)
    assert reader.device() == line
    ring.words[DEVICE_AT // 8 + 2] = 250
    assert reader.device().state is DeviceState.UNKNOWN
    reader.close()
    ring.close()


def test_a_live_line_is_never_seen_half_written(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", identity())
    reader = RingReader(tmp_path / "0")
    stop = threading.Event()

    def flip() -> None:
        value = 0
        while not stop.is_set():
            value = 0xFFFFFFFF_FFFFFFFF if value == 0 else 0
            ring.words[LIVE_AT // 8] = value

    writer = threading.Thread(target=flip)
    writer.start()
    values = {reader.live().since_ns for _ in range(5_000)}
    stop.set()
    writer.join()
    assert values <= {0, 0xFFFFFFFF_FFFFFFFF}
    reader.close()
    ring.close()


def test_a_restart_replaces_the_ring_and_the_old_one_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "0"
    old = RingWriter(path, identity(ring_id=1))
    write(old, 1)
    reader = RingReader(path)
    new = RingWriter(path, identity(ring_id=2))
    assert reader.is_replaced()
    assert numbers(reader.read()) == [1]
    fresh = RingReader(path)
    assert (fresh.identity.ring_id, fresh.head) == (2, 0)
    # A cursor of the old ring must not hide the first records of the new one.
    write(new, 1)
    assert numbers(fresh.read(next_seq=50)) == [1]
    for opened in (reader, fresh, old, new):
        opened.close()


def test_the_identity_is_read_whole_while_it_is_replaced(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", identity())
    reader = RingReader(tmp_path / "0")
    ring.set_identity(identity()._replace(mesh_index=(1, 0, 0, 0), worker_socket="/run/x"))
    assert reader.refresh_identity() == ring.identity
    ring.set_heartbeat(55)
    ring.set_hook_errors(4)
    assert (reader.heartbeat_ns, reader.hook_errors) == (55, 4)
    with open(tmp_path / "0", "r+b") as file:  # half of a new identity
        file.seek(12)
        file.write(b"\xff\xff")
    assert reader.refresh_identity() == ring.identity
    reader.close()
    ring.close()


def test_rings_are_found_in_order_and_nothing_else_is(tmp_path: Path) -> None:
    for place in ("a/0/10", "a/0/2", "a/1/0", "b/0/0"):
        RingWriter(tmp_path / place, identity()).close()
    (tmp_path / "a/0/.3.77").write_bytes(b"half a ring")
    (tmp_path / "a/notes.txt").write_text("hello")
    rings = [str(path.relative_to(tmp_path)) for path in find_rings(tmp_path)]
    assert rings == ["a/0/2", "a/0/10", "a/1/0", "b/0/0"]
    assert list(find_rings(tmp_path / "b/0/0")) == [tmp_path / "b/0/0"]
    assert list(find_rings(tmp_path / "missing")) == []


def test_a_ring_belongs_to_its_user_alone(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "job/0/0", identity())
    assert (tmp_path / "job/0/0").stat().st_mode & 0o777 == 0o400
    assert [path.name for path in (tmp_path / "job/0").iterdir()] == ["0"]
    ring.close()


def test_an_identity_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    for change in ({"rank": 1 << 40}, {"mesh_index": (1 << 20, 0, 0, 0)}):
        with pytest.raises(RingError, match="cannot create the ring"):
            RingWriter(tmp_path / "0", identity()._replace(**change))
    assert list(tmp_path.iterdir()) == []

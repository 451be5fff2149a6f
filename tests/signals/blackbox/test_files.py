"""A removed or cut ring continues in a new file, and its writer lives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stepwatch.signals.blackbox import FileCondition, Identity, RingReader, RingWriter
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.other_users import as_other_user, needs_root


def opened(path: Path, capacity: int = 16) -> RingWriter:
    return RingWriter(path, Identity("job", 0, 0, 1, "node", os.getpid(), 7, capacity))


def write(ring: RingWriter, count: int = 1) -> None:
    for _ in range(count):
        ring.write(Kind.LIFECYCLE, 3, 5, LifecycleEvent.START, 1, b"text")


def seqs(path: Path, next_seq: int = 1) -> list[int]:
    reader = RingReader(path)
    records = reader.read(next_seq)
    reader.close()
    assert (records.torn, records.overruns) == (0, 0)
    return [int(seq) for seq in records.rows[Kind.LIFECYCLE]["seq"]]


@needs_root
def test_a_program_of_the_same_user_cannot_cut_a_ring() -> None:
    folder = Path(tempfile.mkdtemp(prefix="stepwatch-ring-"))
    folder.chmod(0o777)

    def work() -> None:
        ring = opened(folder / "0")
        for cut in (lambda: os.truncate(folder / "0", 0), lambda: (folder / "0").open("wb")):
            try:
                cut()
            except PermissionError:
                continue
            raise AssertionError("it was cut")
        write(ring)

    try:
        as_other_user(work)
        assert seqs(folder / "0") == [1]
    finally:
        shutil.rmtree(folder)


def test_a_removed_ring_goes_on_with_all_its_records(tmp_path: Path) -> None:
    path = tmp_path / "job" / "0" / "0"
    ring = opened(path)
    words = ring.words
    write(ring, 3)
    assert ring.condition() is FileCondition.WHOLE
    shutil.rmtree(tmp_path / "job")
    write(ring)
    assert ring.condition() is FileCondition.REMOVED
    ring.renew(FileCondition.REMOVED)
    write(ring)
    words[8] = words[8]  # a timeline's old view still leads into the ring
    assert ring.condition() is FileCondition.WHOLE
    assert seqs(path) == [1, 2, 3, 4, 5]
    reader = RingReader(path)
    assert reader.identity.ring_id == 7 and not reader.closed
    ring.close()
    assert reader.closed
    reader.close()


def test_a_ring_is_not_lost_where_no_new_one_can_be_made(tmp_path: Path) -> None:
    path = tmp_path / "job" / "0"
    ring = opened(path)
    shutil.rmtree(tmp_path / "job")
    (tmp_path / "job").write_text("in the way")
    assert ring.condition() is FileCondition.REMOVED
    with pytest.raises(OSError, match="exists"):
        ring.renew(FileCondition.REMOVED)
    write(ring)
    (tmp_path / "job").unlink()
    ring.renew(FileCondition.REMOVED)
    assert seqs(path) == [1]


CUT = """
import os, sys
from pathlib import Path
from tests.signals.blackbox.test_files import opened, write
from stepwatch.signals.blackbox import FileCondition
path, size, way = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ring = opened(path, 256)
write(ring, 3)
os.chmod(path, 0o600)
os.truncate(path, size)
assert ring.condition() is FileCondition.CUT
if way == "blocked":
    path.unlink()
    path.mkdir()
if way != "kept":
    try:
        ring.renew(FileCondition.CUT)
    except OSError:
        assert way == "blocked"
write(ring, 2)
ring.set_heartbeat(9)
os._exit(0)
"""


@pytest.mark.parametrize(("size", "remaining"), [(0, [4, 5]), (5000, [4, 5]), (4096 + 256, [4, 5])])
def test_a_cut_ring_goes_on_with_the_next_record(
    tmp_path: Path, size: int, remaining: list[int]
) -> None:
    assert _cut(tmp_path / "0", size, "renewed") == 0
    assert seqs(tmp_path / "0", 4) == remaining
    reader = RingReader(tmp_path / "0")
    assert (reader.identity.job, reader.head, reader.heartbeat_ns) == ("job", 5, 9)
    reader.close()


def test_a_cut_ring_without_a_place_ends_no_rank(tmp_path: Path) -> None:
    assert _cut(tmp_path / "0", 0, "blocked") == 0


def test_without_a_new_ring_a_store_into_a_cut_one_is_fatal(tmp_path: Path) -> None:
    """The reason for renewed rings, and the check that the tests above can fail."""
    assert _cut(tmp_path / "0", 0, "kept") == -7, "SIGBUS"


def _cut(path: Path, size: int, way: str) -> int:
    words = [sys.executable, "-c", CUT, str(path), str(size), way]
    return subprocess.run(words, check=False).returncode

"""A segment that cannot be read waits; only damaged content is moved aside, with a gap record."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.relay.client import connect
from stepwatch.agent.relay.problems import SPOOL
from stepwatch.agent.relay.relay import Relay
from stepwatch.agent.spool import Spool
from stepwatch.agent.survival import SHORTAGES
from stepwatch.signals import wire
from stepwatch.signals.access import Access
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import UNKNOWN_RANK, Kind, make_rows
from stepwatch.signals.wire import Rows
from tests.agent.conftest import collector, give_up
from tests.agent.spool.test_adopt import cursors

KEY = AttemptKey("job", 0)
OF_THE_FILE = [errno.EIO, errno.EACCES, errno.ESTALE]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """Three segments, whose cursors read ring 97 up to 5, 9 and 14."""
    new_spool = filled(tmp_path)
    yield new_spool
    new_spool.close()


def filled(folder: Path) -> Spool:
    new_spool = Spool(folder, "n1")
    for position in (5, 9, 14):
        new_spool.put(KEY, ClockPair(1, 1), {Kind.CURSOR: cursors(a=position)})
    return new_spool


@contextmanager
def without_descriptors() -> Iterator[None]:
    """No further file can be opened in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 32, hard))
    try:
        while True:
            descriptors.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> Iterator[None]:
    """A disk that answers every read of the file `name` with this error."""
    real: Callable[[Path], bytes] = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name.startswith(name):
            raise OSError(number, os.strerror(number))
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read)
        yield


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name[0] == "0")


def gaps(spool: Spool) -> list[tuple[int, int, int]]:
    tables = [wire.decode(data).tables for _, data in spool.oldest(100)]
    rows: list[Rows] = [table[Kind.GAP] for table in tables if Kind.GAP in table]
    return [
        (int(row["rank"]), int(row["first_seq"]), int(row["last_seq"]))
        for row in np.concatenate([make_rows(Kind.GAP, 0), *rows])
    ]


def test_nothing_is_lost_while_no_descriptor_is_free(spool: Spool, tmp_path: Path) -> None:
    with without_descriptors(), pytest.raises(OSError, match="Too many open files"):
        spool.oldest(10)
    assert (len(spool), spool.dropped) == (3, 0)
    assert [number for number, _ in spool.oldest(10)] == [1, 2, 3]


def test_a_relay_without_descriptors_says_so_and_sends_later(
    spool: Spool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with collector(tmp_path / "store.db") as url:
        relay = Relay(spool, connect(url, Access()))
        relay.drain(give_up)
        spool.put(KEY, ClockPair(1, 1), {Kind.CURSOR: cursors(a=20)})
        with without_descriptors():
            assert relay.send_once() > 0
        assert relay.problem is not None and relay.problem.reason == SPOOL
        assert "nothing is sent (the spool cannot be read now" in caplog.text
        relay.drain(give_up)
        relay.client.close()
    assert (len(spool), spool.dropped) == (0, 0)


@pytest.mark.parametrize("number", sorted(SHORTAGES), ids=errno.errorcode.get)
def test_a_shortage_sets_nothing_aside(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with failing(monkeypatch, "0000000000000002", number), pytest.raises(OSError):
        spool.oldest(10)
    assert (len(spool), spool.held_segments, spool.dropped) == (3, 0, 0)


@pytest.mark.parametrize("number", OF_THE_FILE, ids=errno.errorcode.get)
def test_a_file_that_cannot_be_read_waits_and_holds_up_no_other(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with failing(monkeypatch, "0000000000000002", number):
        assert [sequence for sequence, _ in spool.oldest(10)] == [1, 3]
    assert (len(spool), spool.held_segments, spool.dropped) == (2, 1, 0)
    assert files(tmp_path) == [f"{sequence:016d}.seg" for sequence in (1, 2, 3)]
    spool.release({3})
    assert [sequence for sequence, _ in spool.oldest(10)] == [1, 2, 3]


@pytest.mark.parametrize("number", OF_THE_FILE, ids=errno.errorcode.get)
def test_an_agent_that_starts_keeps_what_it_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    filled(tmp_path).close()
    with failing(monkeypatch, "0000000000000002", number):
        spool = Spool(tmp_path, "n1")
    assert (len(spool), spool.held_segments, spool.dropped) == (2, 1, 0)
    spool.release({3})
    assert [sequence for sequence, _ in spool.oldest(10)] == [1, 2, 3]
    spool.close()


@pytest.mark.parametrize("number", OF_THE_FILE, ids=errno.errorcode.get)
def test_what_cannot_be_read_keeps_no_new_rows_out_of_a_full_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    filled(tmp_path).close()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.seg"))
    spool = Spool(tmp_path, "n1", size)
    with failing(monkeypatch, "000000000000000", number):
        spool.put(KEY, ClockPair(1, 1), {Kind.CURSOR: cursors(a=20)})
        assert [sequence for sequence, _ in spool.oldest(10)] == []
        assert (spool.unreadable, spool.held_segments, spool.dropped) == (4, 4, 0)
    assert len(files(tmp_path)) == 4
    spool.release({3})
    assert [sequence for sequence, _ in spool.oldest(10)] == [1, 2, 3, 4]
    assert (spool.unreadable, spool.held_segments, spool.dropped) == (0, 0, 0)
    spool.close()


def test_a_spool_of_which_nothing_can_be_read_stays_below_twice_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path).close()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.seg"))
    spool = Spool(tmp_path, "n1", size)
    with failing(monkeypatch, "0", errno.EIO):
        with pytest.raises(OSError, match="the spool is full of files that cannot be read"):
            for _ in range(20):
                spool.put(KEY, ClockPair(1, 1), {Kind.CURSOR: cursors(a=20)})
        for _ in range(3):  # each hour
            spool.release({3})
            assert spool.oldest(10) == []
    sizes = [path.stat().st_size for path in tmp_path.glob("*.seg")]
    assert size < sum(sizes) <= 2 * size and spool.dropped == 0
    assert caplog.text.count("it cannot be read") == len(sizes)
    spool.release({3})
    assert len(spool.oldest(20)) == len(sizes)
    spool.close()


@pytest.mark.parametrize("number", sorted(SHORTAGES), ids=errno.errorcode.get)
def test_a_full_spool_names_the_shortage_that_keeps_it_from_making_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    filled(tmp_path).close()
    spool = Spool(tmp_path, "n1", sum(path.stat().st_size for path in tmp_path.glob("*.seg")))
    with failing(monkeypatch, "0", number), pytest.raises(OSError) as refused:
        spool.put(KEY, ClockPair(1, 1), {})
    assert refused.value.errno == number
    assert (len(spool), spool.unreadable, spool.dropped) == (3, 0, 0)
    spool.close()


def test_damage_found_while_the_agent_runs_leaves_a_gap(spool: Spool, tmp_path: Path) -> None:
    second = tmp_path / "0000000000000002.seg"
    second.write_bytes(second.read_bytes()[:-1])
    spool.discard_damaged(2, "cut")
    spool.put(KEY, ClockPair(1, 1), {})
    assert gaps(spool) == [(0, 5, 8)]
    assert second.with_suffix(".damaged").exists()


def test_a_full_spool_moves_damage_aside_and_says_what_it_held(tmp_path: Path) -> None:
    filled(tmp_path).close()
    spool = Spool(tmp_path, "n1", sum(path.stat().st_size for path in tmp_path.glob("*.seg")))
    victim = tmp_path / "0000000000000001.seg"
    damaged = victim.read_bytes()[:-1]
    victim.write_bytes(damaged)
    spool.put(KEY, ClockPair(1, 1), {})
    assert victim.with_suffix(".damaged").read_bytes() == damaged
    spool._limit *= 4
    spool.put(KEY, ClockPair(1, 1), {})
    assert gaps(spool) == [(0, 1, 4)]
    spool.close()


def test_damage_found_at_the_start_leaves_a_gap(tmp_path: Path) -> None:
    filled(tmp_path).close()
    second = tmp_path / "0000000000000002.seg"
    second.write_bytes(second.read_bytes()[:-1])
    spool = Spool(tmp_path, "n1")
    spool.put(KEY, ClockPair(1, 1), {})
    assert gaps(spool) == [(UNKNOWN_RANK, 0, 0)]
    spool.close()

"""Rings that a user forges take no ring of another user's place, and never end a poll."""

from __future__ import annotations

import os
import random
import resource
import shutil
import struct
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.rings.bounds import (
    AGAIN_SECONDS,
    BEYOND,
    MALFORMED,
    UNREADABLE,
    RingBounds,
    most_rings,
)
from stepwatch.agent.rings.folders import MAX_ENTRIES, RingFolders
from stepwatch.agent.rings.tail import Tail
from stepwatch.signals.blackbox import Identity, RingWriter, layout
from stepwatch.signals.clock import NANOSECONDS
from tests.agent.conftest import Rank
from tests.agent.probes.hand_clock import HandClock
from tests.other_users import OTHER, as_other_user, needs_root

FORGED = 2000


def forge(folder: Path, number: int, rng: random.Random) -> None:
    """A ring whose checksums are right and whose content is drawn."""
    identity = Identity(
        job=rng.choice(["job", f"job-{number}"]),
        attempt=rng.choice([0, number, 2**31 - 1]),
        rank=rng.choice([number, 0, 2**31 - 1]),
        world=rng.choice([0, 4, 2**31 - 1]),
        node=rng.choice(["", "node"]),
        pid=rng.choice([0, 1, -1, os.getppid(), 2**31 - 1]),
        ring_id=rng.getrandbits(64),
        capacity=rng.choice([1, 4]),
        process_start=rng.choice([0, 5, 2**64 - 1]),
        worker_socket=rng.choice(["", "..", "/a/b", "a\0b"]),
        pid_namespace=rng.choice([0, 2**64 - 1]),
    )
    path = folder / f"job-{number}" / "0" / str(number)
    ring = RingWriter(path, identity)
    ring.words.release()
    ring._slots.release()
    ring._map.close()
    data = bytearray(path.read_bytes())
    for offset in range(layout.LIVE_AT, layout.CLOSED_AT, 8):
        data[offset : offset + 8] = rng.choice([bytes(8), b"\xff" * 8, rng.randbytes(8)])
    for slot in range(identity.capacity):
        raw = bytearray(rng.randbytes(layout.SLOT_SIZE - 4))
        struct.pack_into("<QH", raw, 0, slot + 1, rng.randrange(64))
        offset = layout.HEADER_SIZE + slot * layout.SLOT_SIZE
        data[offset : offset + layout.SLOT_SIZE] = raw + zlib.crc32(raw).to_bytes(4, "little")
    path.unlink()
    path.write_bytes(data)


def break_ring(path: Path, rng: random.Random) -> None:
    """Damage a ring as no writer does: cut, overwritten, a folder, a link, a pipe."""
    kind = rng.randrange(5)
    data = bytearray(path.read_bytes())
    path.unlink()
    if kind == 0:
        path.write_bytes(data[: rng.randrange(len(data))])
    elif kind == 1:
        data[rng.randrange(len(data))] ^= 0xFF
        path.write_bytes(data)
    elif kind == 2:
        path.mkdir()
    elif kind == 3:
        path.symlink_to("/etc/shadow")
    else:
        os.mkfifo(path)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A ring directory that another user reaches; pytest's folders are closed to others."""
    root = Path(tempfile.mkdtemp(prefix="stepwatch-rings-"))
    root.chmod(0o1777)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """The limit that a process has by default."""
    limits_before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits_before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits_before)


@needs_root
@pytest.mark.usefixtures("few_descriptors")
def test_two_thousand_forged_rings_take_no_other_users_place(shared: Path, tmp_path: Path) -> None:
    def work() -> None:
        rng = random.Random(7)
        foreign_folder = shared / f"uid-{OTHER}"
        foreign_folder.mkdir(mode=0o700)
        for number in range(FORGED):
            forge(foreign_folder, number, rng)
            if number % 4 == 0:
                break_ring(foreign_folder / f"job-{number}" / "0" / str(number), rng)

    as_other_user(work)
    options = AgentOptions(shared, tmp_path / "spool", "http://127.0.0.1:1", "node", port=None)
    agent = Agent(options, probes=[])
    try:
        agent.poll()
        agent.flush()
        own_rank = Rank(shared / f"uid-{os.geteuid()}", job="ours")
        own_rank.steps(10)
        for _ in range(3):
            agent.poll()
            agent.flush()
        owners = Counter(
            tail.reader.owner for tails in agent.tail.attempts().values() for tail in tails
        )
        read = sum(tail.records for tail in agent.tail._tails.values() if tail.job == "ours")
        assert read >= 10, "what is not a forgery is read"
        assert owners[OTHER] <= most_rings() // 2
        unread = agent.tail.bounds.unread
        assert unread[BEYOND] > FORGED // 2 and unread[MALFORMED] > 0 and unread[UNREADABLE] > 0
    finally:
        agent.close()


def test_rings_beyond_a_users_share_wait_until_others_are_closed(tmp_path: Path) -> None:
    for number in range(3):
        Rank(tmp_path, number)
    tail = Tail(tmp_path, bounds=RingBounds(most=4))
    tail.discover()
    assert len(tail.identities()) == 2, "no user has more than half"
    tail.discover()
    assert tail.bounds.unread[BEYOND] == 1
    (tmp_path / "job" / "0" / "0").unlink()
    tail.forget_missing(time.monotonic_ns())
    tail.discover()
    assert sorted(identity.rank for identity in tail.identities()) == [1, 2]
    tail.discover()
    assert tail.bounds.unread[BEYOND] == 0


def test_a_malformed_ring_is_counted_and_tried_again(tmp_path: Path) -> None:
    clock = HandClock()
    bounds = RingBounds(most=8, clock=clock)
    tail = Tail(tmp_path, bounds=bounds)
    path = tmp_path / "job" / "0" / "0"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no ring")
    for _ in range(2):
        tail.discover()
    assert (bounds.unread[MALFORMED], len(tail.identities())) == (1, 0)
    path.unlink()
    Rank(tmp_path)
    tail.discover()
    assert len(tail.identities()) == 0, "it is left alone for a while"
    clock.now += int(AGAIN_SECONDS * NANOSECONDS)
    for _ in range(2):
        tail.discover()
    assert (bounds.unread[MALFORMED], len(tail.identities())) == (0, 1)


def test_attempts_of_one_user_share_what_is_read_at_once() -> None:
    bounds = RingBounds(most=8)
    assert bounds.share(100, Counter({1: 1, 2: 50}), 1) == 100
    assert bounds.share(100, Counter({1: 1, 2: 50}), 2) == 4
    assert bounds.share(100, Counter({2: 5000}), 2) == 1


def test_a_folder_with_too_many_files_is_listed_in_part(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES + 10):
        (tmp_path / str(number)).touch()
    assert len(list(RingFolders(tmp_path).rings())) == MAX_ENTRIES


@needs_root
def test_no_user_hides_the_folder_of_another_one(shared: Path) -> None:
    def work() -> None:
        for number in range(MAX_ENTRIES + 10):
            (shared / f"a{number}").mkdir()
        (shared / "uid-0-old").mkdir()
        (shared / "uid-4242").mkdir()
        (shared / "uid-4242" / "0").touch()

    as_other_user(work)
    own_folder = shared / f"uid-{os.geteuid()}" / "job" / "0" / "0"
    own_folder.parent.mkdir(parents=True)
    own_folder.touch()
    assert list(RingFolders(shared).rings()) == [own_folder]

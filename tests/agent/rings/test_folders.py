"""Folders are listed anew where they changed; what comes within a tick of a clock is not missed."""

from __future__ import annotations

import os
from pathlib import Path

from stepwatch.agent.rings.folders import SETTLED_SECONDS, RingFolders
from stepwatch.signals.blackbox import find_rings
from stepwatch.signals.clock import NANOSECONDS
from tests.agent.probes.hand_clock import HandClock


def ring(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"")


def test_rings_that_come_and_go_are_seen_at_once(tmp_path: Path) -> None:
    clock = HandClock()
    folders = RingFolders(tmp_path, clock)
    assert list(folders.rings()) == []
    for name in ("job/0/0", "job/0/10", "job/0/2", "other/3/0", "job/0/0.sock", "uid-7/job/0/1"):
        ring(tmp_path, name)
        clock.now += 7 * NANOSECONDS
        assert sorted(folders.rings()) == sorted(find_rings(tmp_path))
    (tmp_path / "job/0/2").unlink()
    assert sorted(folders.rings()) == sorted(find_rings(tmp_path))
    (tmp_path / "job").rename(tmp_path / "renamed")
    assert sorted(folders.rings()) == sorted(find_rings(tmp_path))
    for _ in range(3):
        clock.now += 7 * NANOSECONDS
        assert len(list(folders.rings())) == 4, "nothing changed"


def test_a_ring_that_comes_in_the_tick_of_the_newest_change_is_seen(tmp_path: Path) -> None:
    """As on a file system whose times are coarse: the folder's time is the same after it."""
    clock = HandClock()
    folders = RingFolders(tmp_path, clock)
    ring(tmp_path, "0")
    mtime_before = tmp_path.stat().st_mtime_ns
    assert len(list(folders.rings())) == 1
    ring(tmp_path, "1")
    os.utime(tmp_path, ns=(mtime_before, mtime_before))
    clock.now += round(SETTLED_SECONDS * NANOSECONDS / 2)
    assert len(list(folders.rings())) == 2


def test_no_link_below_the_root_is_followed_and_a_missing_root_is_none(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "rings"
    ring(elsewhere, "job/0/0")
    assert list(RingFolders(root).rings()) == []
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    assert list(RingFolders(root).rings()) == []
    (tmp_path / "door").symlink_to(elsewhere)
    assert len(list(RingFolders(tmp_path / "door").rings())) == 1, "the root itself may be a link"

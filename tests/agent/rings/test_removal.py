"""What is removed is the ring that was read, and nothing that a user put in its way."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from stepwatch.agent.rings.removal import remove_ring
from stepwatch.signals.places.directories import SHARED_MODE


def make_ring(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"ring")
    return path.stat().st_ino


@pytest.mark.parametrize("user", ["", "uid-1000/"])
def test_a_ring_goes_with_its_socket_and_its_empty_folders(tmp_path: Path, user: str) -> None:
    if user:
        tmp_path.chmod(SHARED_MODE)
    first, second = tmp_path / f"{user}job/0/0", tmp_path / f"{user}job/0/1"
    inode, other_inode = make_ring(first), make_ring(second)
    make_ring(first.with_name("0.sock"))
    assert remove_ring(tmp_path, first, inode)
    assert [path.name for path in first.parent.iterdir()] == ["1"]
    assert remove_ring(tmp_path, second, other_inode)
    assert sorted(tmp_path.iterdir()) == ([tmp_path / "uid-1000"] if user else [])
    assert remove_ring(tmp_path, second, other_inode), "it is gone"


def test_a_ring_that_took_the_place_stays(tmp_path: Path) -> None:
    place = tmp_path / "job/0/0"
    inode = make_ring(place)
    make_ring(tmp_path / "new")
    (tmp_path / "new").rename(place)
    assert remove_ring(tmp_path, place, inode)
    assert place.read_bytes() == b"ring"


@pytest.mark.parametrize("link", ["job", "job/0"])
def test_no_link_on_the_way_is_followed(tmp_path: Path, link: str) -> None:
    root, elsewhere = tmp_path / "rings", tmp_path / "elsewhere"
    inode = make_ring(elsewhere / "job/0/0")
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(elsewhere / link)
    with pytest.raises(OSError):
        remove_ring(root, root / "job/0/0", inode)
    assert (elsewhere / "job/0/0").exists()


def test_nothing_is_removed_while_a_rank_looks_for_its_place(tmp_path: Path) -> None:
    place = tmp_path / "job/0/0"
    inode = make_ring(place)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert not remove_ring(tmp_path, place, inode) and place.exists()
    os.close(handle)
    assert remove_ring(tmp_path, place, inode) and not place.exists()


def test_a_ring_that_lies_elsewhere_than_hooks_put_it_stays(tmp_path: Path) -> None:
    for place in (tmp_path / "0", tmp_path / "a/b/c/0"):
        assert not remove_ring(tmp_path, place, make_ring(place)) and place.exists()

"""Users of one node share the ring directory, and no user can take another's place in it."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from stepwatch.agent.rings.tail import Tail
from stepwatch.signals import places
from stepwatch.signals.blackbox import (
    Identity,
    RingReader,
    RingWriter,
    closed_directories,
    own_directory,
    user_directories,
)
from stepwatch.signals.errors import RingError


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the default ring directory of a node before the first training run."""
    root = tmp_path / "stepwatch"
    monkeypatch.setattr(places, "DEFAULT_RING_DIR", root)
    return root


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_first_user_leaves_room_for_others(shared: Path) -> None:
    previous_umask = os.umask(0o077)
    try:
        directory = own_directory(shared)
    finally:
        os.umask(previous_umask)
    assert directory == shared / f"uid-{os.geteuid()}"
    assert (mode_of(shared), mode_of(directory)) == (0o1777, 0o700)
    assert own_directory(shared) == directory and list(user_directories(shared)) == [directory]


def test_a_directory_of_an_earlier_version_is_opened_to_others(shared: Path) -> None:
    (shared / "job" / "0").mkdir(parents=True)
    shared.chmod(0o755)
    assert own_directory(shared).parent == shared and mode_of(shared) == 0o1777


def test_a_directory_that_the_user_named_holds_jobs_directly(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    assert own_directory(directory) == directory and list(user_directories(directory)) == [
        directory
    ]
    directory.chmod(0o1777)
    assert own_directory(directory) == directory / f"uid-{os.geteuid()}", "shared on purpose"


@pytest.mark.parametrize("trick", ["link", "theirs", "open"])
def test_a_place_that_somebody_else_prepared_is_refused(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    directory = own_directory(shared)
    if trick == "link":
        directory.rmdir()
        directory.symlink_to(tmp_path)
    elif trick == "open":
        directory.chmod(0o777)
    else:
        me = os.geteuid()
        directory.rename(shared / f"uid-{me + 1}")
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(RingError, match="is not a directory of this user alone: remove it"):
        own_directory(shared)


def test_a_shared_directory_that_is_a_link_is_not_followed(shared: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    shared.symlink_to(target)
    with pytest.raises(RingError, match="is a link: remove it"):
        own_directory(shared)
    assert mode_of(target) == 0o755 and list(target.iterdir()) == []


def test_an_agent_reads_all_users_it_may_and_names_the_others_once(
    shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory = own_directory(shared)
    foreign_directory = shared / "uid-4242"
    foreign_directory.mkdir()
    rings = [
        RingWriter(folder / "job" / "0" / "0", Identity("job", 0, 0, 1, "n", 1, number, 16))
        for number, folder in enumerate((directory, foreign_directory))
    ]
    tail = Tail(shared)
    tail.discover()
    assert [identity.ring_id for identity in tail.identities()] == [0, 1]
    monkeypatch.setattr(os, "access", lambda path, mode: path != foreign_directory)
    assert closed_directories(shared) == [foreign_directory]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            tail.forget_missing(1)
    (record,) = caplog.records
    assert (
        f"cannot read the rings in {foreign_directory}: run an agent as their user"
        in record.message
    )
    for ring in rings:
        ring.close()


def test_two_users_of_one_job_name_have_a_job_each(
    shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rings = []
    for number, user in enumerate(("uid-1", "uid-2")):
        own_directory(shared)
        path = shared / user / "job" / "0" / "0"
        rings.append(RingWriter(path, Identity("job", 0, 0, 1, "n", 1, number, 16)))
    owners = property(lambda reader: 1 + reader.identity.ring_id)
    monkeypatch.setattr(RingReader, "owner", owners)
    tail = Tail(shared)
    for _ in range(2):
        tail.discover()
        keys = sorted(key.job for key in tail.attempts())
        tail.forget_missing(1)
    assert keys == ["job", "job-uid-2"]
    assert [record.message for record in caplog.records] == [
        "two users train as job job: that of user 2 is job-uid-2"
    ]
    rings[0].path.unlink()
    tail.discover()  # as a poll does before each flush
    tail.forget_missing(1)
    assert [key.job for key in tail.attempts()] == ["job-uid-2"], "a job keeps its name"
    for ring in rings:
        ring.close()

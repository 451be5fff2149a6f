"""A file holds its old or its new content, and no other file remains."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stepwatch.signals.durable import sync, write_durably


def test_content_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    for data in (b"old", b"new", b""):
        write_durably(path, data)
        assert path.read_bytes() == data
        assert list(tmp_path.iterdir()) == [path]


def test_both_the_file_and_its_folder_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_durably(tmp_path / "a", b"x")
    assert [Path(path).parent for path in synced] == [tmp_path, tmp_path.parent]
    assert Path(synced[1]) == tmp_path


def test_a_full_disk_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_durably(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_durably(tmp_path / "missing" / "a", b"x")
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "missing")

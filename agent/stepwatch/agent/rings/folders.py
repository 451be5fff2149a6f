"""The files below the ring directory, listed anew only where a folder has changed."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stepwatch.signals.clock import NANOSECONDS, Clock, SystemClock
from stepwatch.signals.places.directories import USER_PREFIX, is_shared

SETTLED_SECONDS = 2.0
"""A folder is listed again for so long after its time was seen to change: what comes within one
tick of the file system's clock changes that time once."""
MAX_FOLDERS, MAX_FOLDERS_OF_USER = 16_384, 4096
"""Below one ring directory, and of one user there: users write there, and each costs a `stat`."""
MAX_ENTRIES = 8192
"""Of one folder: more are not looked at."""


_OF_THE_AGENT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about a folder: the agent has no room to look at it."""


@dataclass
class _Folder:
    changed: tuple[int, int, int]
    """Which it is (device, inode), and when it changed last, as the file system counts."""
    seen_ns: int
    """When that was first seen, monotonic."""
    owner: int = 0
    """User id."""
    rings: dict[Path, int] = field(default_factory=dict)
    """Each with its inode."""
    folders: list[str] = field(default_factory=list)


class RingFolders:
    """Finds what `find_rings` finds below `root`, at the cost of one `stat` a folder."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._listed: dict[str, _Folder] = {}

    def rings(self) -> Iterator[Path]:
        """Files that are named by a number, folder after folder."""
        return (path for path, _ in self.entries())

    def entries(self) -> Iterator[tuple[Path, int]]:
        """`rings`, each with the inode that it had when its folder was listed."""
        listed: dict[str, _Folder] = {}
        counts: Counter[int] = Counter()
        waiting = [os.fspath(self._root)]
        while waiting and len(listed) < MAX_FOLDERS:
            path = waiting.pop()
            folder = self._folder(path)
            if folder is None:
                continue
            counts[folder.owner] += 1
            if counts[folder.owner] > MAX_FOLDERS_OF_USER:
                continue
            listed[path] = folder
            yield from folder.rings.items()
            waiting += folder.folders
        self._listed = listed

    def _folder(self, path: str) -> _Folder | None:
        now = self._clock.monotonic_ns()
        try:
            # Below the root no link is followed: users write there.
            status = os.stat(path, follow_symlinks=path == os.fspath(self._root))
            changed = (status.st_dev, status.st_ino, status.st_mtime_ns)
            folder = self._listed.get(path)
            if folder is None or folder.changed != changed:
                folder = _Folder(changed, now, status.st_uid)
            elif now - folder.seen_ns > SETTLED_SECONDS * NANOSECONDS:
                return folder
            _list(path, folder, shared=path == os.fspath(self._root) and is_shared(self._root))
        except OSError as error:
            if error.errno in _OF_THE_AGENT:
                raise
            return None  # removed meanwhile, or closed to this user: others are listed all the same
        return folder


def _list(path: str, folder: _Folder, *, shared: bool) -> None:
    """List a folder; of a shared one the folder of each user, and whatever else within a bound.

    Users add what they like to a shared folder: that must not hide the folder of another one.
    """
    known_paths = {path_of_ring.name: path_of_ring for path_of_ring in folder.rings}
    names: list[tuple[str, int]] = []
    folders: list[str] = []
    other_entries = 0
    with os.scandir(path) as entries:
        for entry in entries:
            if shared and entry.name.startswith(USER_PREFIX):
                folders += [entry.path] if _is_of_user(entry) else []
                continue
            other_entries += 1
            if other_entries > MAX_ENTRIES:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.name.isdigit():
                names.append((entry.name, entry.inode()))
    names.sort(key=lambda ring: (len(ring[0]), ring[0]))
    folder.rings = {known_paths.get(name) or Path(path, name): inode for name, inode in names}
    folder.folders = sorted(folders, reverse=True)


def _is_of_user(entry: os.DirEntry[str]) -> bool:
    """Whether a folder has the name of its owner, or is the superuser's."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # removed meanwhile
        return False
    owners = ("0", entry.name.removeprefix(USER_PREFIX))
    return stat.S_ISDIR(status.st_mode) and str(status.st_uid) in owners

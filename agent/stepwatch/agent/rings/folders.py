"""Files below the ring directory, listed again only after a folder changed."""

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
"""A folder is listed again for this many seconds after a change was seen: several changes within
one tick of the file system's clock have one timestamp."""
MAX_FOLDERS, MAX_FOLDERS_OF_USER = 16_384, 4096
"""Folders below a ring directory, in total and per user: users write there, and each costs a
`stat`.
"""
MAX_ENTRIES = 8192
"""Maximum number of entries read per folder."""


_OF_THE_AGENT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors unrelated to a folder: the agent itself lacks resources."""


@dataclass
class _Folder:
    changed: tuple[int, int, int]
    """Device, inode and modification time in nanoseconds."""
    seen_ns: int
    """Monotonic time when this state was first seen."""
    owner: int = 0
    """User id."""
    rings: dict[Path, int] = field(default_factory=dict)
    """Inode by path."""
    folders: list[str] = field(default_factory=list)


class RingFolders:
    """Find the same files as `find_rings` below `root`, with one `stat` per folder."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._listed: dict[str, _Folder] = {}
        self.changed = True
        """Whether the newest search listed a folder, or lost one."""

    def rings(self) -> Iterator[Path]:
        """Yield files whose names are numbers, folder by folder."""
        return (path for path, _ in self.entries())

    def entries(self) -> Iterator[tuple[Path, int]]:
        """Yield `rings` with their inodes from the folder listing."""
        listed: dict[str, _Folder] = {}
        counts: Counter[int] = Counter()
        self.changed = False
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
        self.changed |= listed.keys() != self._listed.keys()
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
            self.changed = True
            _list(path, folder, shared=path == os.fspath(self._root) and is_shared(self._root))
        except OSError as error:
            if error.errno in _OF_THE_AGENT:
                raise
            return None  # removed meanwhile, or closed to this user: the others are still listed
        return folder


def _list(path: str, folder: _Folder, *, shared: bool) -> None:
    """List a folder; in a shared one every user's folder, and other entries up to a limit.

    Users may add files to a shared folder: these must not hide another user's folder.
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
    """Return whether the folder is named after its owner, or root owns it."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # removed meanwhile
        return False
    owners = ("0", entry.name.removeprefix(USER_PREFIX))
    return stat.S_ISDIR(status.st_mode) and str(status.st_uid) in owners

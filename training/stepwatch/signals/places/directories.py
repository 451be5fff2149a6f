"""A node's ring directory, which its users share.

    /dev/shm/stepwatch                       mode 1777: every user may add, none may remove others'
    /dev/shm/stepwatch/uid-1000              mode 0700: one user's rings
    /dev/shm/stepwatch/uid-1000/<job>/...

A directory that is not shared in this way (STEPWATCH_RING_DIR, as a rule) holds jobs directly.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from stepwatch.signals import places
from stepwatch.signals.errors import RingError

from .owned import PRIVATE_MODE

SHARED_MODE = 0o1777
_STICKY_FOR_ALL = stat.S_ISVTX | stat.S_IWOTH
USER_PREFIX = "uid-"
_CURE = "set STEPWATCH_RING_DIR to a writable directory with free space"


def cannot_create(path: Path, error: Exception) -> RingError:
    """Return the error that states why a ring cannot be created, and the fix."""
    reason = getattr(error, "strerror", None) or str(error)
    return RingError(f"cannot create the ring {path}: {reason}; {_CURE}")


def make_root(root: Path) -> None:
    """Create the node's ring directory, for all users if it is the default one.

    Raises:
        RingError: it cannot be created, or is a link.
    """
    try:
        if root == places.DEFAULT_RING_DIR:
            _share(root)
        if not is_shared(root):
            root.mkdir(parents=True, exist_ok=True, mode=PRIVATE_MODE)
    except OSError as error:
        raise cannot_create(root, error) from error


def own_directory(root: Path) -> Path:
    """Return the directory below `root` for this user's rings; create it if needed.

    Raises:
        RingError: it cannot be created, or another user made it.
    """
    make_root(root)
    try:
        if not is_shared(root):
            # The user named this directory: the superuser may have made it for all, by a mount.
            _refuse(root, {0, os.geteuid()}, root.stat(), 0)
            return root
        directory = root / f"{USER_PREFIX}{os.geteuid()}"
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=PRIVATE_MODE)
        _refuse(directory, {os.geteuid()}, directory.lstat(), 0o022)
    except OSError as error:
        raise cannot_create(root, error) from error
    return directory


def _refuse(path: Path, owners: set[int], status: os.stat_result, closed: int) -> None:
    is_owned = stat.S_ISDIR(status.st_mode) and status.st_uid in owners
    if not is_owned or status.st_mode & closed:
        raise RingError(f"{path} is not a directory of this user alone: remove it, or {_CURE}")


def is_shared(root: Path) -> bool:
    """Return whether `root` holds a directory for each user: it is sticky, and all may write."""
    with contextlib.suppress(OSError):
        mode = root.lstat().st_mode
        return stat.S_ISDIR(mode) and mode & _STICKY_FOR_ALL == _STICKY_FOR_ALL
    return False


def user_directories(root: Path) -> Iterator[Path]:
    """Yield the users' directories below `root`; `root` itself if it is not shared."""
    if not is_shared(root):
        yield root
        return
    try:
        directories = sorted(root.glob(f"{USER_PREFIX}*"))
    except OSError:  # removed meanwhile, or no descriptors are left
        return
    for path in directories:
        if path.is_dir() and not path.is_symlink():
            yield path


def closed_directories(root: Path) -> list[Path]:
    """Return the users' directories below `root` that this process may not read."""
    return [path for path in user_directories(root) if path.exists() and not os.access(path, 5)]


def _share(root: Path) -> None:
    """Create `root` for all users, at once with its mode; open our own to other users."""
    with contextlib.suppress(FileNotFoundError):
        status = root.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise RingError(f"{root} is a link: remove it, or {_CURE}")
        ours = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
        if ours and status.st_mode & SHARED_MODE != SHARED_MODE:
            root.chmod(SHARED_MODE)
        return
    fresh = root.with_name(f".{root.name}.{os.getpid()}")
    fresh.mkdir()
    fresh.chmod(SHARED_MODE)  # mkdir leaves out the umask's bits
    try:
        fresh.rename(root)
    except OSError:  # another process was first
        fresh.rmdir()

"""Folders and files that no other user of the machine can create or change.

Another user may create a guessable path first. So a private folder is checked up to the root: the
owner or writer of a folder above it can put another one in its place. The superuser is trusted, and
so are sticky folders such as `/tmp`, in which users can only rename their own files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

PRIVATE_MODE = 0o700
_PARENT_MODE = 0o755
_MOST_LINKS = 40
_WHOLE_MACHINE = 1 << 32
"""Number of users in the mapping of the initial user namespace, which maps every user."""


def own_folder(path: Path) -> Path:
    """Make `path` this user's private folder, mode 0700, if it is not one; return it.

    Raises:
        OSError: it cannot be created.
        PermissionError: another user owns it, or can replace it; the message says which path.
    """
    _make(_checked(path))
    resolved = _checked(path)
    handle = os.open(resolved, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise refusal(path, f"it belongs to user {status.st_uid}")
        if status.st_mode & 0o077:
            os.fchmod(handle, PRIVATE_MODE)
    finally:
        os.close(handle)
    return path


def _make(path: Path) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process of this user was first
            # Not for others to write, whatever the umask is.
            folder.mkdir(mode=PRIVATE_MODE if folder == path else _PARENT_MODE)


def require_writer(path: Path, users: frozenset[int]) -> None:
    """Check that only `users` and the superuser may have written a file or a folder.

    The group may write: the owner chose its members.

    Raises:
        OSError: it cannot be read.
        PermissionError: another user owns it, all users may write it, or it is a link.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise refusal(path, "it is a link")
    if status.st_uid not in users | {0}:
        raise refusal(path, f"it belongs to user {status.st_uid}")
    if status.st_mode & stat.S_IWOTH:
        raise refusal(path, "all users may write it")


def users_of_this_process(folder: Path) -> frozenset[int]:
    """Return this user's id, and the id under which `folder` stores this user's files.

    They differ on a network file system that maps the superuser to another user.

    Raises:
        OSError: the folder cannot be written.
    """
    probe = folder / f".owner.{os.getpid()}"
    handle = open_new(probe, 0o600)
    try:
        return frozenset((os.geteuid(), os.fstat(handle).st_uid))
    finally:
        os.close(handle)
        probe.unlink(missing_ok=True)


def open_new(path: Path, mode: int, folder: int | None = None) -> int:
    """Create a file and open it to read and write; an old one is replaced, no link is followed.

    `folder`, a descriptor, is the start of a relative `path`.

    Raises:
        OSError: the folder cannot be written, or another user keeps a file with that name there.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, mode, dir_fd=folder)


def refusal(path: Path, reason: str) -> PermissionError:
    """Return the error for a path that is not this user's; `strerror` names path and reason."""
    return PermissionError(errno.EPERM, f"{path} is not this user's alone: {reason}")


def _checked(path: Path) -> Path:
    """Return `path` without links, after checking that each folder and link on the way is trusted.

    Missing folders end the check: no user has made them.

    Raises:
        PermissionError: another user can replace the file at `path`.
    """
    trusted = {0, os.geteuid()} | _unmapped_users()
    place, links = Path("/"), 0
    remaining = list(reversed(path.absolute().parts[1:]))
    while remaining:
        name = remaining.pop()
        if name == "..":
            place = place.parent
            continue
        entry = place / name
        try:
            status = entry.lstat()
        except FileNotFoundError:
            return entry.joinpath(*reversed(remaining))
        if status.st_uid not in trusted:
            raise refusal(entry, f"it belongs to user {status.st_uid}")
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink(entry))
            place = Path("/") if target.is_absolute() else place
            remaining += reversed([part for part in target.parts if part != "/"])
            continue
        mode = status.st_mode
        if remaining and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise refusal(entry, "all users may write it")
        place = entry
    return place


def _unmapped_users() -> frozenset[int]:
    """Return ids that stand for users outside this user namespace, such as the machine's root."""
    try:
        mapped = Path("/proc/self/uid_map").read_text().split()
        if sum(int(count) for count in mapped[2::3]) >= _WHOLE_MACHINE - 1:
            return frozenset()
        return frozenset((int(Path("/proc/sys/kernel/overflowuid").read_text()),))
    except (OSError, ValueError):
        return frozenset()

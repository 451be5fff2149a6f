"""Removes a ring whose rank has ended, and the folders that it leaves empty.

Users write where rings lie, and an agent may be root: every folder on the way is opened from the
one above it and no link is followed, so nothing is removed but what lies there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from stepwatch.signals.places.directories import is_shared
from stepwatch.signals.places.turns import take_turn

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW_USER = 3
"""`<job>/<attempt>/<rank>`, below the folder of a user."""


def remove_ring(root: Path, path: Path, inode: int) -> bool:
    """Remove ring `path` below `root`, if it still is that inode, with the socket beside it.

    Returns whether it is gone. It is not where another process looks for a place just now, or where
    a ring lies elsewhere than hooks put it.

    Raises:
        OSError: this process may not, or cannot now.
    """
    parts = path.relative_to(root).parts
    if len(parts) != _BELOW_USER + is_shared(root):
        return False
    *users, job, attempt, name = parts
    with contextlib.ExitStack() as opened:
        try:
            top = _opened(opened, users, os.open(root, _FOLDER))
            # Hooks choose a place in the same turn: none is taken while its folder goes away.
            if not take_turn(top):
                return False
            folder = _opened(opened, (job, attempt), os.dup(top))
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino != inode:
                return True
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{name}.sock", dir_fd=folder)
        with contextlib.suppress(OSError):  # other ranks have rings there
            os.rmdir(f"{job}/{attempt}", dir_fd=top)
            os.rmdir(job, dir_fd=top)
    return True


def _opened(opened: contextlib.ExitStack, names: Sequence[str], handle: int) -> int:
    """The folder `names` below an open one, which is closed with all on the way."""
    opened.callback(os.close, handle)
    for name in names:
        handle = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        opened.callback(os.close, handle)
    return handle

"""Removes an ended rank's ring, and the folders that become empty.

Users write in the ring directory, and the agent may be root. So each folder is opened from its
parent without following links, and nothing outside is removed.
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
"""`<job>/<attempt>/<rank>`, below a user's folder."""


def remove_ring(root: Path, path: Path, inode: int) -> bool:
    """Remove ring `path` below `root`, if its inode matches, and its socket.

    Returns whether the ring is gone. It is not if another process is choosing a place, or if the
    ring is not where hooks put it.

    Raises:
        OSError: removal is not permitted, or not possible now.
    """
    parts = path.relative_to(root).parts
    if len(parts) != _BELOW_USER + is_shared(root):
        return False
    *users, job, attempt, name = parts
    with contextlib.ExitStack() as opened:
        try:
            top = _opened(opened, users, os.open(root, _FOLDER))
            # Hooks choose a place under the same lock: none is chosen while its folder is removed.
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
    """Open the folder `names` below an open one; the stack closes all of them."""
    opened.callback(os.close, handle)
    for name in names:
        handle = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        opened.callback(os.close, handle)
    return handle

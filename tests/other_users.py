"""Files of another user of this machine, for tests of untrusted files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

OTHER = 65_534
"""User id of `nobody`, as which no test runs."""

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only the superuser can give files to another user"
)


def give_away(path: Path) -> Path:
    """Make `path`, which exists, another user's; returns it."""
    os.chown(path, OTHER, OTHER, follow_symlinks=False)
    return path


def as_other_user(work: Callable[[], None]) -> None:
    """Run `work` in a child that belongs to `nobody`, and wait for it."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""Turns a freshly forked process into a rank with an output and an environment of its own."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def become_rank(log: Path, environ: Mapping[str, str]) -> None:
    """Leave nothing of the parent but the modules it has imported.

    The output goes to the end of `log`; `environ` is added to the environment. The process dies
    with its parent.
    """
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.environ.update(environ)


def environment_of(rank: int, world: int, port: int) -> dict[str, str]:
    """Return torchrun's variables for a rank on one node whose store listens on `port`."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }

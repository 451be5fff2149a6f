"""The process of one or several probes: it reads on request and ends with the agent.

A single-threaded process (`fork_server`) forks it and shares its imported modules.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from stepwatch.agent.probes.probe import Probe, RankProcesses, Unknown

from .answer import Answer, encode, read

_PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`: the signal for a process whose forking thread ends."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class Served(NamedTuple):
    """A probe and its connection.

    `ranks` is the probe's constructor argument: each question carries the newest process ids.
    """

    probe: Probe
    ranks: RankProcesses
    connection: Connection


def fork(served: Sequence[Served]) -> int:
    """Start a process that serves probes, each in a thread of its own, and return its id.

    A read that hangs so delays no other probe.

    Raises:
        OSError: no process can be started now.
    """
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _isolate(parent, {entry.connection.fileno() for entry in served})
        threads = [threading.Thread(target=_serve, args=entry) for entry in served[1:]]
        for thread in threads:
            thread.start()
        _serve(*served[0])
        for thread in threads:
            thread.join()
    finally:
        os._exit(0)


def _isolate(parent: int, descriptors: Collection[int]) -> None:
    """Release everything inherited from the parent except `descriptors`."""
    gc.disable()  # the parent's objects must not be finalised here
    gc.freeze()
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the line above
        os._exit(0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the agent ends this process
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in descriptors:
            with contextlib.suppress(OSError):  # the directory listing's own descriptor
                os.close(number)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    gc.enable()


def _serve(probe: Probe, ranks: RankProcesses, questions: Connection) -> None:
    """Answer questions until the agent closes its end."""
    with questions:
        try:
            while True:
                ranks.decode(questions.recv_bytes())
                questions.send_bytes(encode(read(probe)))
        except (EOFError, ConnectionError):
            probe.close()
            return
        finally:
            # An error ends only this probe; the agent receives its text.
            error = sys.exc_info()[1]
            if error is not None:
                answer = Answer(unknown=Unknown.FAILED, detail=f"{type(error).__name__}: {error}")
                with contextlib.suppress(OSError):
                    questions.send_bytes(encode(answer))

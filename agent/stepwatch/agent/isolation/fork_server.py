"""The process that starts the processes of probes: one thread, so that a fork in it is safe.

A fork of the agent would copy one of its threads and the locks of all others. This is a fresh
interpreter that does nothing else: what it has imported, all probes share. Its questions are JSON,
one a packet:

    {"load": [module, ...], "folders": [path, ...]}    of the probes to come, and where they lie
    {"start": 3, "probe": recipe}    with the socket of the new process
    {"kill": 3}

and so are its answers: {"loaded": true}, {"started": 3}, {"failed": 3, "why": text} and
{"ended": 3, "status": wait status}. It ends, with all its children, when the agent does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
from multiprocessing.connection import Connection
from typing import Any

from stepwatch.agent import probes
from stepwatch.agent.probes.probe import RankProcesses

from . import child
from .recipe import build_probe

MOST_BYTES = 1 << 16
"""Of a packet."""


class ForkServer:
    """Serves the agent at the other end of `control` until that is closed."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._numbers: dict[int, tuple[int, int]] = {}
        """By the pidfd of a living child: its number and its pid."""

    def serve(self) -> None:
        """Answer until the agent ends."""
        while True:
            for handle, _ in self._poll.poll():
                if handle in self._numbers:
                    self._reap(handle)
                elif not self._answer():
                    return

    def _answer(self) -> bool:
        try:
            data, handles, _, _ = socket.recv_fds(self._control, MOST_BYTES, 1)
        except ConnectionError:
            return False
        if not data:
            return False
        question = json.loads(data)
        if "load" in question:
            probes.__path__ = question["folders"]
            self._load(question["load"])
        elif "start" in question:
            self._start(question["start"], question["probe"], Connection(handles[0]))
        else:
            self._kill(question["kill"])
        return True

    def _load(self, modules: list[str]) -> None:
        for name in modules:
            with contextlib.suppress(ImportError):  # its probe says it when it is started
                importlib.import_module(name)
        self._say({"loaded": True})

    def _start(self, number: int, recipe: dict[str, Any], connection: Connection) -> None:
        ranks = RankProcesses()
        try:
            probe = build_probe(recipe, ranks)
            gc.freeze()  # a collection writes to the pages that it looks through
            pid = child.fork(probe, ranks, connection)
        except (OSError, ImportError, LookupError, TypeError, ValueError, AttributeError) as error:
            connection.close()
            self._say({"failed": number, "why": f"{type(error).__name__}: {error}"})
            return
        handle = os.pidfd_open(pid)
        self._numbers[handle] = number, pid
        self._poll.register(handle, select.POLLIN)
        self._say({"started": number})

    def _kill(self, number: int) -> None:
        for handle, (child_number, _) in self._numbers.items():
            if child_number == number:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)

    def _reap(self, handle: int) -> None:
        number, pid = self._numbers.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        self._say({"ended": number, "status": status})

    def _say(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the agent ended: so does this process, at once
            self._control.send(json.dumps(answer).encode())


def main(handle: int) -> None:
    """Serve the socket `handle`, then end; children end with this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group
    with socket.socket(fileno=handle) as control:
        ForkServer(control).serve()
    os._exit(0)

"""The process that forks the probe processes: single-threaded, so that forking is safe.

Forking the agent would copy one thread and the locks held by the others. This fresh interpreter
does nothing else, and all probes share its imported modules. Each packet holds one JSON question:

    {"load": [module, ...], "folders": [path, ...]}    probe modules and their folders
    {"start": 3, "probes": [recipe, ...]}    with a socket for each, for one new process
    {"kill": 3}

The answers are {"loaded": true}, {"started": 3}, {"failed": 3, "why": text} and
{"ended": 3, "status": wait status}. It ends with the agent, and so do its children.
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
"""Maximum packet size."""
MOST_PROBES = 32
"""Maximum number of probes in one process."""
_UNBUILT = (OSError, ImportError, LookupError, TypeError, ValueError, AttributeError)


class ForkServer:
    """Serve the agent at the other end of `control` until the agent closes it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._numbers: dict[int, tuple[int, int]] = {}
        """Number and pid by a live child's pidfd."""

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
            data, handles, _, _ = socket.recv_fds(self._control, MOST_BYTES, MOST_PROBES)
        except ConnectionError:
            return False
        if not data:
            return False
        question = json.loads(data)
        if "load" in question:
            probes.__path__ = question["folders"]
            self._load(question["load"])
        elif "start" in question:
            self._start(question["start"], question["probes"], [*map(Connection, handles)])
        else:
            self._kill(question["kill"])
        return True

    def _load(self, modules: list[str]) -> None:
        for name in modules:
            with contextlib.suppress(ImportError):  # reported when the probe starts
                importlib.import_module(name)
        self._say({"loaded": True})

    def _start(
        self, number: int, recipes: list[dict[str, Any]], connections: list[Connection]
    ) -> None:
        served, why = [], ""
        for recipe, connection in zip(recipes, connections, strict=True):
            try:
                served.append(_build(recipe, connection))
            except _UNBUILT as error:  # the probe reports it in a process of its own
                why = f"{type(error).__name__}: {error}"
        try:
            if not served:
                self._say({"failed": number, "why": why})
                return
            gc.freeze()  # a collection writes to the pages that it visits
            pid = child.fork(served)
        except OSError as error:
            self._say({"failed": number, "why": f"{type(error).__name__}: {error}"})
            return
        finally:
            for connection in connections:
                connection.close()
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
        with contextlib.suppress(OSError):  # the agent has ended, and this process ends next
            self._control.send(json.dumps(answer).encode())


def _build(recipe: dict[str, Any], connection: Connection) -> child.Served:
    ranks = RankProcesses()
    return child.Served(build_probe(recipe, ranks), ranks, connection)


def main(handle: int) -> None:
    """Serve the socket `handle`, then end; children end with this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group
    with socket.socket(fileno=handle) as control:
        ForkServer(control).serve()
    os._exit(0)

"""One process for several probes; a probe leaves it for its own process after a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from stepwatch.agent.probes.probe import Probe

from .recipe import recipe_of
from .starter import Starter


class SharedProcess:
    """Starts with its first member's question, and never again.

    A thread reads each member, so a read that hangs delays no other. After a hang, an error or the
    end of this process a member gets a process of its own, which can be killed.
    """

    def __init__(self, probes: Iterable[Probe], starter: Starter) -> None:
        self._members = [probe for probe in probes if _can_be_sent(probe)]
        self._starter = starter
        self._connections: dict[int, Connection] = {}
        """Connections that are not handed out, by the probe's id."""
        self._number = 0
        self._why = ""
        self.is_stuck = False
        """Whether a member's read hangs in this process."""

    def hand_out(self, probe: Probe) -> tuple[int, Connection] | None:
        """Return a member's process number and connection, once; else None.

        Raises:
            OSError: the process cannot be started now.
        """
        if not self._number and len(self._members) > 1:
            self._start()
        connection = self._connections.pop(id(probe), None)
        return None if connection is None else (self._number, connection)

    def why_ended(self) -> str:
        """Return the reason for the process's end; empty if it ended normally."""
        self._why = self._why or self._starter.why_ended(self._number)
        return self._why

    def close(self, seconds: float = 1.0) -> None:
        """End the process after its members closed their connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}
        if self._number:
            if not self.is_stuck:
                self._starter.await_end(self._number, seconds)
            self._starter.kill(self._number)

    def _start(self) -> None:
        pipes = [Pipe() for _ in self._members]
        try:
            ends = [end.fileno() for _, end in pipes]
            self._number = self._starter.start(self._members, ends)
        except OSError:
            for connection, _ in pipes:
                connection.close()
            raise
        finally:
            for _, end in pipes:
                end.close()
        members = zip(self._members, pipes, strict=True)
        self._connections = {id(probe): connection for probe, (connection, _) in members}


def _can_be_sent(probe: Probe) -> bool:
    with contextlib.suppress(TypeError):
        recipe_of(probe)
        return True
    return False

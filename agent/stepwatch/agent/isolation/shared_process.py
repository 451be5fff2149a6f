"""One process for several probes; a probe leaves it for its own process after a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from stepwatch.agent.probes.probe import Probe

from .helper_process import HelperProcess
from .recipe import recipe_of
from .starter import Starter

Place = tuple[HelperProcess, int]
"""A process, and a probe's number there."""


class SharedProcess:
    """Starts with its first member's question, and never again.

    A read that hangs delays no other member. After a hang, an error or the end of this process a
    member gets a process of its own, which can be killed.
    """

    def __init__(self, probes: Iterable[Probe], starter: Starter) -> None:
        self._members = [probe for probe in probes if _can_be_sent(probe)]
        self._starter = starter
        self._places: dict[int, Place] | None = None
        """Places that are not handed out, by the probe's id; None before the start."""
        self.process: HelperProcess | None = None
        self.is_stuck = False
        """Whether a member's read hangs in this process."""

    def hand_out(self, probe: Probe) -> Place | None:
        """Return a member's place, once; else None.

        Raises:
            OSError: the process cannot be started now.
        """
        if self._places is None and self._members:
            self.process = process = self._starter.start(self._members)
            self._places = {
                id(member): (process, number) for number, member in enumerate(self._members)
            }
        return (self._places or {}).pop(id(probe), None)

    def close(self, seconds: float = 1.0) -> None:
        """End the process: it closes its members' sources."""
        if self.process is not None:
            self._starter.end(self.process, 0.0 if self.is_stuck else seconds)


def _can_be_sent(probe: Probe) -> bool:
    with contextlib.suppress(TypeError):
        recipe_of(probe)
        return True
    return False

"""The services of a matrix with concurrent runs, which end together on Ctrl-C."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.services import ROOT, Services


class RunsInterrupted(Exception):
    """The user wants the runs to end."""


class Site(Services):
    """One collector and one agent for all runs; each run waits in a thread of its own."""

    def __init__(self, folder: Path, rings: Path) -> None:
        super().__init__(folder, rings, [str(ROOT), *filter(None, sys.path)])
        self._stop_requested = threading.Event()

    def stop(self) -> None:
        """End all runs: threads that sleep here wake up."""
        self._stop_requested.set()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`.

        Raises:
            RunsInterrupted: `stop` was called.
        """
        if self._stop_requested.wait(seconds):
            raise RunsInterrupted

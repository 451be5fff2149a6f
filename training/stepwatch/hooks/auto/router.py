"""Leads torch's events to the observer of this process, which may not exist yet."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Mapping

from stepwatch.hooks.collectives.calls import calls
from stepwatch.hooks.collectives.process_groups import has_distributed
from stepwatch.hooks.guard import Guard, guarded
from stepwatch.hooks.identity import under_launcher
from stepwatch.hooks.watch import Watch

from .observer import LoopObserver

logger = logging.getLogger("stepwatch")

OTHER_RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
)
"""Where other launchers write a rank. Without RANK, only their rank 0 is watched."""


class Router:
    """One per process. `observer` gets the events; None while nothing is recorded."""

    def __init__(self) -> None:
        self.guard = Guard()
        self.observer: LoopObserver | None = None
        self._watch: Watch | None = None
        self._owner = ""
        os.register_at_fork(after_in_child=self.stop)

    def training(self) -> LoopObserver | None:
        """The observer; the first sign of training makes it under `stepwatch run`."""
        if self.observer is None and self._owner:
            self._make()
        return self.observer

    def wait_for_training(self, owner: str) -> None:
        """Make a Watch at the first sign of training and name this process in variable `owner`."""
        self._owner = owner

    def stop(self) -> None:
        """Record nothing from now on; also what a forked child does first."""
        self.observer = self._watch = None
        self._owner = ""

    def lead_to(self, watch: Watch, *, boundaries: bool = True) -> LoopObserver:
        """Record what this thread does into `watch` from now on."""
        watch.attach()
        self._watch = watch
        self.observer = LoopObserver(watch.steps, boundaries=boundaries)
        self._follow_calls(watch)
        return self.observer

    @guarded()
    def _follow_calls(self, watch: Watch) -> None:
        if has_distributed():
            calls().follow(watch.instruments, every_wait=True)

    @guarded()
    def _make(self) -> None:
        owner, self._owner = self._owner, ""
        if not may_record(os.environ):
            return
        os.environ[owner] = str(os.getpid())
        watch = Watch.from_env()
        if watch.enabled:
            self.lead_to(watch)


def may_record(environ: Mapping[str, str]) -> bool:
    """Whether this process is a rank, or trains alone: no worker, no other tool's helper rank."""
    if multiprocessing.parent_process() is not None:
        return False
    numbers = [environ[name] for name in OTHER_RANKS if name in environ]
    return under_launcher(environ) or all(number in ("", "0") for number in numbers)

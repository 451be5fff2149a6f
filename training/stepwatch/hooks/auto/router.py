"""Routes torch's events to this process's observer, which may not exist yet."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Mapping
from typing import Any

from stepwatch.hooks.collectives.calls import calls
from stepwatch.hooks.collectives.process_groups import has_distributed
from stepwatch.hooks.guard import Guard, guarded
from stepwatch.hooks.identity import is_spawned
from stepwatch.hooks.opening.launchers import known_rank, rank_of_torch
from stepwatch.hooks.pauses.loads import MOST_LOADS
from stepwatch.hooks.pauses.save_paths import plain_path
from stepwatch.hooks.watch import Watch

from .logged_values import LoggedValues
from .observer import LoopObserver

logger = logging.getLogger("stepwatch")


RECORDS = "+"
"""Follows the recording process's number in the variable that names it."""


class Router:
    """One per process. `observer` gets the events; None while nothing is recorded."""

    def __init__(self) -> None:
        self.guard = Guard()
        self.observer: LoopObserver | None = None
        self._watch: Watch | None = None
        self._owner = ""
        self._is_unasked = False
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        self._loads: list[Any] = []
        """Files and folders loaded before there is a Watch."""
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def training(self) -> LoopObserver | None:
        """The observer; under `stepwatch run` the first sign of training creates it."""
        if self.observer is None and self._owner:
            self._make()
        return self.observer

    @property
    def unasked_observer(self) -> LoopObserver | None:
        """The observer that no line of code and no adapter asked for; None without it."""
        return self.observer if self._is_unasked else None

    @guarded()
    def wrapped(self, model: Any) -> None:
        """Note that DistributedDataParallel wrapped a `model`; it may never be called itself."""
        self._models.add(model)
        if self._watch is not None:
            self._watch.instruments.digests.follow(model)

    @guarded()
    def loads(self, place: Any) -> None:
        """Note that the trainer loads a file; before it trains it may be a checkpoint."""
        if self._owner and len(self._loads) < MOST_LOADS:
            self._loads.append(plain_path(place))

    def load_failed(self) -> None:
        """Create the Watch now: a trainer that cannot load its checkpoint trains no step."""
        if self._owner:
            self._make()

    def wait_for_training(self, owner: str) -> None:
        """Create a Watch at the first sign of training and name this process in `owner`."""
        self._owner = owner

    def stop(self) -> None:
        """Record nothing from now on."""
        self.observer = self._watch = None
        self._owner = ""

    def _leave_to_parent(self) -> None:
        # If the parent does not train, a forked child may be one of its ranks: it keeps waiting.
        if self.observer is not None:
            self.stop()

    def lead_to(self, watch: Watch, *, boundaries: bool = True) -> LoopObserver:
        """Record this thread's calls into `watch` from now on."""
        watch.instruments.phases.close()
        watch.attach()
        self._watch, self._is_unasked = watch, False
        self.observer = LoopObserver(watch.steps, boundaries=boundaries)
        self._follow_calls(watch)
        while self._loads:
            watch.instruments.pauses.loads.note(self._loads.pop(0))
        for model in self._models:
            watch.instruments.digests.follow(model)
        return self.observer

    @guarded()
    def _follow_calls(self, watch: Watch) -> None:
        if has_distributed():
            calls().follow(watch.instruments, every_wait=True)

    @guarded()
    def _make(self) -> None:
        owner, self._owner = self._owner, ""
        if not may_record(os.environ, owner):
            return
        os.environ[owner] = f"{os.getpid()}{RECORDS}"
        watch = Watch.from_env()
        if watch.enabled:
            self.lead_to(watch)
            self._is_unasked = True
            LoggedValues(watch.instruments).follow()


def may_record(environ: Mapping[str, str], owner: str = "") -> bool:
    """Return whether this process is a rank, or trains alone: no rank's child, no tool's helper.

    A recording process announces itself to its children in the variable `owner`. A site's own
    launcher may only number the ranks on this node (LOCAL_RANK): all but 0 train only as ranks.
    """
    first = environ.get(owner, "")
    if first not in ("", str(os.getpid())):
        # The launcher numbered a process that starts its ranks itself and trains in none.
        return is_spawned() and not first.endswith(RECORDS) and rank_of_torch() is not None
    is_numbered = known_rank(environ) is not None
    return is_numbered or environ.get("LOCAL_RANK", "0") in ("", "0")

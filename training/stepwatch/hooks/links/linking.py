"""Links a job with experiment trackers' runs, both ways, once, on rank 0."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.presence import Presence
from stepwatch.signals.records import LifecycleEvent, piece_texts

from .announcement import known_agent
from .trackers import FINDERS, Facts, TrackedRun


class Linking:
    """Writes a LINK record for each active run and writes the job's page into the run.

    It searches when the first step has ended: trackers have started their runs before that.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder

    @guarded()
    def link(self) -> None:
        """Find the runs in the caller's thread; write the page into them in another thread."""
        ring = self._recorder.ring
        if ring is None or ring.identity.rank or self._recorder.is_child():
            return
        runs = [run for finder in FINDERS for run in self._runs(finder)]
        for run in runs:
            self._record(run)
        if runs:
            facts = _facts(ring.identity.job, ring.identity.attempt, known_agent())
            name = "stepwatch-links"
            threading.Thread(target=self._show, args=(runs, facts), name=name, daemon=True).start()

    @guarded(fallback=())
    def _runs(self, finder: Callable[[], Iterator[TrackedRun]]) -> tuple[TrackedRun, ...]:
        return tuple(finder())

    def _record(self, run: TrackedRun) -> None:
        for index, text in enumerate(piece_texts((run.tracker, run.run, run.url))):
            self._recorder.write_lifecycle(LifecycleEvent.LINK, index, text)

    def _show(self, runs: list[TrackedRun], facts: Facts) -> None:
        for run in runs:
            self._show_one(run, facts)

    @guarded()
    def _show_one(self, run: TrackedRun, facts: Facts) -> None:
        run.show(facts)


def _facts(job: str, attempt: int, agent: Presence | None) -> Facts:
    facts = {"job": job, "attempt": str(attempt)}
    return facts if agent is None else {**facts, "page": agent.page_of(job)}

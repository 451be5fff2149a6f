"""An attempt's ranks: which are expected in a step, and whether and how they ended."""

from __future__ import annotations

import math

from stepwatch.collector.state.exit_codes import ASKED_TO_STOP, UNKNOWN_EXIT
from stepwatch.collector.state.tracker import TrackedAttempt
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.collector.state.trackers.steps.done_ranks import (
    done_from,
    expected_ranks,
    unwatched_ranks,
)
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import LifecycleEvent

STOPPING_SECONDS = 30.0
"""Time in seconds that torchrun gives ranks to end after Ctrl-C before it kills them."""


class Attendance:
    """The ranks that are expected in each step of an attempt."""

    def __init__(self, attempt: TrackedAttempt) -> None:
        self._attempt = attempt

    @property
    def done(self) -> dict[int, int]:
        """First step not expected from each rank that is done while other ranks continue."""
        return done_from(self._attempt, self._attempt.received_monotonic_s)

    def expected_ranks(self, steps: Integers) -> Integers:
        """Return the number of ranks that should report each of `steps`: watched and not done."""
        return expected_ranks(steps, self._attempt.world - len(self.unwatched), self.done)

    @property
    def unwatched(self) -> frozenset[int]:
        """Ranks that reported nothing while other ranks made steps."""
        return unwatched_ranks(self._attempt)

    @property
    def complete_until(self) -> int:
        """Newest step that all expected ranks reported, together with all earlier steps."""
        history = self._attempt.tracker(Steps).history
        return history.complete_until(self.expected_ranks(history.steps))


class Outcome:
    """Whether and how an attempt ended."""

    def __init__(self, attempt: TrackedAttempt) -> None:
        self._attempt = attempt
        self._lifecycle = attempt.tracker(LifecycleEvents)
        self._ranks = attempt.tracker(Ranks)

    @property
    def is_over(self) -> bool:
        """Whether all ranks have ended or vanished."""
        ended, vanished = self._lifecycle.ended, self._ranks.gone
        if not 0 < self._attempt.world <= len(ended) + len(vanished):
            return False
        return len(ended.keys() | vanished) >= self._attempt.world

    @property
    def finished(self) -> bool:
        """Whether every watched rank reported that it finished."""
        unwatched = unwatched_ranks(self._attempt)
        if not 0 < self._attempt.world <= len(self._lifecycle.ended) + len(unwatched):
            return False
        ranks = (rank for rank in range(self._attempt.world) if rank not in unwatched)
        return all(self._lifecycle.ended.get(rank) is LifecycleEvent.FINISH for rank in ranks)

    @property
    def failed(self) -> bool:
        """Whether a rank reported a failure, or vanished without a report.

        After Ctrl-C, only a rank that died before the interrupt has failed.
        """
        ends = self._lifecycle.ended.values()
        if LifecycleEvent.FAILURE in ends:
            return True
        if LifecycleEvent.INTERRUPT not in ends:
            return bool(self.gone) and not self._asked_to_stop
        stopped_at = self._lifecycle.interrupted_s
        return any(self._died_before(rank, stopped_at) for rank in self.gone)

    @property
    def interrupted(self) -> bool:
        """Whether the attempt was stopped by Ctrl-C or SIGTERM, and no rank failed."""
        stopped = LifecycleEvent.INTERRUPT in self._lifecycle.ended.values() or self._asked_to_stop
        return stopped and not self.failed

    @property
    def _asked_to_stop(self) -> bool:
        """Whether SIGTERM or SIGINT, and no other signal or error, ended the vanished ranks."""
        codes = set(self._ranks.rows["exit_code"][[*self.gone]].tolist())
        return bool(codes & {*ASKED_TO_STOP}) and codes <= {0, *ASKED_TO_STOP}

    def _died_before(self, rank: int, moment: float) -> bool:
        """Return whether the vanished `rank` died before the attempt was stopped.

        `moment` (Unix seconds) is when a rank reported the stop. A rank reports it after unwinding,
        so another rank may have been stopped, and ended, earlier.
        """
        code = int(self._ranks.rows["exit_code"][rank])
        if code in (0, *ASKED_TO_STOP):
            return False
        earlier = STOPPING_SECONDS if code == UNKNOWN_EXIT else 0.0
        return self.gone_at(rank) < moment - earlier

    def gone_at(self, rank: int) -> float:
        """Return the Unix time at which a rank's process ended; NaN while unknown."""
        view = self._ranks.views[rank]
        gone_ns, offset = int(view.row["gone_ns"]), self._attempt.offsets.get(view.node)
        return (gone_ns + offset) / NANOSECONDS if gone_ns and offset is not None else math.nan

    @property
    def over_s(self) -> float | None:
        """End of the last rank by the original clocks, Unix seconds; None if alive or unseen."""
        events, ranks = self._lifecycle, self._ranks
        if events.over_s is not None or not self.is_over:
            return events.over_s
        gone_ns = ranks.wall_ns(ranks.rows["gone_ns"], self._attempt.first_offsets)
        last_ns = max(events.last_end_ns, int(gone_ns.max(initial=0)))
        return last_ns / NANOSECONDS if last_ns else None

    @property
    def seen_s(self) -> float:
        """Newest agent reading, Unix seconds by the original clock settings; 0 if none."""
        moments = self._ranks.wall_ns(self._ranks.rows["time_ns"], self._attempt.first_offsets)
        return float(moments.max(initial=0)) / NANOSECONDS

    @property
    def gone(self) -> set[int]:
        """Ranks whose process vanished before they finished."""
        return self._ranks.gone - self._lifecycle.ended.keys()

    def is_gone(self, rank: int) -> bool:
        """Return whether the process of `rank` vanished before it finished."""
        return rank in self._ranks.gone and rank not in self._lifecycle.ended

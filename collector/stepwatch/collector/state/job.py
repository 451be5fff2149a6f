"""One job's attempts, built from segments in storage order.

Segments wait until the job is read, and are then folded in together: numpy processes a thousand
rows in the time of ten.
"""

from __future__ import annotations

import itertools
import logging
import math
import operator

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.claims.succession import follower
from stepwatch.collector.state.folding.batches import Batch, Batches, batch_of
from stepwatch.collector.state.holding.grouping import Grouping
from stepwatch.collector.state.holding.unread import Unread, with_part
from stepwatch.collector.state.restarts import Restart, redone_of, restarts_of
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

RunKey = tuple[int, int]
"""Attempt number, and the number of earlier runs with it.

A launcher that does not count its restarts starts the same attempt again.
"""
MAX_ATTEMPTS = 1000
MAX_CANDIDATES = 4
"""Maximum number of unconfirmed attempts; a launcher starts one at a time."""
PROVEN_SECONDS = 60.0
"""Reporting time in seconds that makes a job established."""
MAX_JOB_CELLS = 1 << 24
"""Limit for one job's window cells; above it the oldest attempts keep only their step history."""
SEGMENT_BYTES = 4096
"""Bytes that a decoded segment takes in addition to its rows."""


def segment_bytes(segment: Segment | Unread) -> int:
    """Return a decoded segment's approximate memory size while it waits."""
    return SEGMENT_BYTES + segment.nbytes


class LiveJob:
    """One job's attempts.

    Appended segments are not yet included: call `fold`, then read. `pending_bytes` is their
    approximate size.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.attempts: dict[int, Attempt] = {}
        self.candidates: dict[int, Attempt] = {}
        """Later attempts without enough confirmation, which no view shows."""
        self.first_s = math.inf
        """First receive time, Unix seconds; infinite before."""
        self.totals = Totals()
        self.unread: list[Unread] = []
        """Unreadable parts of its log, in order."""
        self.pending_bytes = 0
        self._pending: list[tuple[int, Batch]] = []

    def append(self, segment: Segment, received: Received) -> None:
        """Queue one new segment for the next `fold`."""
        self._pending.append((segment.key.attempt, batch_of(segment, received)))
        self.pending_bytes += segment_bytes(segment)

    def apply(self, segment: Segment, received: Received) -> None:
        """Queue one new segment and fold it in."""
        self.append(segment, received)
        self.fold()

    def miss(self, part: Unread) -> None:
        """Record an unreadable part of the log before the next segments."""
        self.fold()
        if self.attempts and self.newest_s:
            part = part._replace(from_s=min(part.from_s, self.newest_s))
        self.unread = with_part(self.unread, part)

    def fold(self) -> None:
        """Fold in the queued segments; the split into calls makes no difference."""
        if not self._pending:
            return
        pending, self._pending, self.pending_bytes = self._pending, [], 0
        self.first_s = min(self.first_s, min(batch.received.wall_s for _, batch in pending))
        for number, run in itertools.groupby(pending, key=operator.itemgetter(0)):
            self._fold_run(number, [batch for _, batch in run])

    def _fold_run(self, number: int, batches: list[Batch]) -> None:
        """Fold in batches for one attempt, in the largest possible groups.

        An earlier attempt's batches are folded one by one: any batch may release its
        cells. So are all batches while a candidate exists: any batch may confirm it.
        """
        run, index = Batches(batches), 0
        # A single batch is always its own group: a one-node job needs no decision.
        grouping = Grouping(run) if len(run) > 1 else None
        while index < len(run):
            attempt = self._attempt(number, run[index])
            if attempt.waits_with(run[index]):
                index += 1
                continue
            if attempt.waiting.batches:
                run, index = Batches([*attempt.waiting.drain(), *list(run)[index:]]), 0
                grouping = Grouping(run)
            single = grouping is None or self.candidates or number < max(self.attempts)
            size = 1 if grouping is None or single else grouping.size(index, attempt)
            attempt.fold(run.part(index, index + size))
            index += size
            self._confirm()
            if number < max(self.attempts):
                attempt.give_up()  # a later attempt runs: no missing row will come
            if self.cells > MAX_JOB_CELLS:
                self._release_oldest()

    def _attempt(self, number: int, batch: Batch) -> Attempt:
        """Return the batch's attempt; a new one for a first batch or a restart.

        An attempt later than the newest is a candidate until it is confirmed.
        """
        place = self.attempts if number in self.attempts else self.candidates
        attempt = place.get(number)
        if attempt is not None:
            if attempt.begins_again(batch):
                attempt = place[number] = attempt.restarted()
            return attempt
        if self.attempts and number > max(self.attempts):
            return self._candidate(number)
        attempt = self.attempts[number] = Attempt(number, totals=self.totals)
        self._forget_oldest()
        return attempt

    def _candidate(self, number: int) -> Attempt:
        """Create a candidate; if there are too many, the one with the fewest seen ranks goes."""
        if not self.candidates:
            logger.warning("%s: attempt %d waits until its ranks, or the end of attempt %d, "
                           "speak for it", self.name, number, max(self.attempts))  # fmt: skip
        if len(self.candidates) >= MAX_CANDIDATES:
            least = min(self.candidates, key=lambda n: (len(self.candidates[n].claims.ranks), -n))
            del self.candidates[least]
        attempt = self.candidates[number] = Attempt(number)
        return attempt

    def _confirm(self) -> None:
        """Confirm the candidate that follows the newest attempt, and all candidates before it."""
        while self.candidates and (number := follower(self.candidates, self.current)) is not None:
            for candidate in [n for n in sorted(self.candidates) if n <= number]:
                self._take(candidate, self.candidates.pop(candidate))

    def _take(self, number: int, attempt: Attempt) -> None:
        for running in self.attempts.values():
            running.give_up()
        self.totals.add(attempt.totals)
        for run in (attempt, *attempt.runs):
            run.totals = self.totals
        self.attempts[number] = attempt
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self.attempts) > MAX_ATTEMPTS:
            del self.attempts[min(self.attempts)]

    def _release_oldest(self) -> None:
        for number in sorted(self.attempts)[:-1]:
            self.attempts[number].release()
            if self.cells <= MAX_JOB_CELLS:
                return

    @property
    def cells(self) -> int:
        """Number of window cells and collective rows."""
        return sum(
            attempt.cells for attempt in (*self.attempts.values(), *self.candidates.values())
        )

    @property
    def waits(self) -> bool:
        """Whether any batch waits for more ranks: a snapshot would not include it."""
        attempts = (*self.attempts.values(), *self.candidates.values())
        return any(attempt.waiting.batches for attempt in attempts)

    @property
    def is_proven(self) -> bool:
        """Whether the job made steps and has reported for a while; other jobs are evicted first."""
        is_old = self.received_s - self.first_s >= PROVEN_SECONDS if self.attempts else False
        return is_old and any(len(attempt.steps.history) > 1 for attempt in self.attempts.values())

    def runs_on(self, node: str) -> bool:
        """Return whether a node owns a rank in any attempt."""
        return any(attempt.claims.speaks(node) for attempt in self.attempts.values())

    @property
    def received_s(self) -> float:
        """Newest receive time over all attempts, Unix seconds."""
        return max(attempt.received_s for attempt in self.attempts.values())

    @property
    def newest_s(self) -> float:
        """Wall time of the newest step in any attempt, Unix seconds; 0 before the first."""
        return max(attempt.steps.newest_s for attempt in self.attempts.values())

    @property
    def current(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[max(self.attempts)]

    @property
    def preceding_run(self) -> Attempt | None:
        """The run before the newest attempt, while the newest one makes no progress, else None.

        A run with the same number counts only until the newest one fails, too.
        """
        newest = self.current
        if len(newest.steps.history):
            return None
        if newest.earlier is not None:
            return None if newest.outcome.failed else newest.earlier
        numbers = sorted(self.attempts)[-2:-1]
        return self.attempts[numbers[0]] if numbers else None

    def ordered(self) -> list[tuple[Attempt, int | None]]:
        """Return the attempts in order, each with a later one's resume step, or None."""
        runs = self.runs()
        return [runs[number, len(self.attempts[number].runs)] for number in sorted(self.attempts)]

    def runs(self) -> dict[RunKey, tuple[Attempt, int | None]]:
        """Return all runs in order, each with the first step that a later run did again, or None.

        Where that step is not known, it is the greatest one that is possible.
        """
        runs = self._runs()
        redone = redone_of(restarts_of([run for _, run in runs]))
        return {key: (run, step) for (key, run), step in zip(runs, redone, strict=True)}

    def restarts(self) -> list[tuple[RunKey, Attempt, Restart]]:
        """Return all runs in order, each with where it continues."""
        runs = self._runs()
        restarts = restarts_of([run for _, run in runs])
        return [(key, run, restart) for (key, run), restart in zip(runs, restarts, strict=True)]

    def checkpoints(self) -> list[tuple[Attempt, Checkpoint]]:
        """Return all runs' checkpoints in order of their steps, each with the run that knows it.

        Of two reports on one step the newer run's counts. The steps of a run that counts from zero
        again come after those of the runs before it.
        """
        known: dict[tuple[int, int], tuple[Attempt, Checkpoint]] = {}
        for _, run, restart in self.restarts():
            for step, item in run.checkpoints.by_step.items():
                place = restart.series, step
                if item.saved_s is None:  # an agent read the save of an earlier run
                    series = range(restart.series, -1, -1)
                    place = next(((n, step) for n in series if (n, step) in known), place)
                    _, saved = known.get(place, (run, item))
                    item = item._replace(saved_s=saved.saved_s, stall_seconds=saved.stall_seconds)
                    is_worse = item.is_damaged or item.is_removed
                    if saved.is_damaged and not is_worse:  # another file of the same save
                        item = saved
                known[place] = run, item
        return [known[place] for place in sorted(known)]

    @property
    def redone_unknown(self) -> set[RunKey]:
        """The runs before a run that counts from zero again, whose checkpoint is not known."""
        restarts = self.restarts()
        uncertain = [place for place, entry in enumerate(restarts) if not entry[2].is_certain]
        return {key for key, _, _ in restarts[: max(uncertain, default=0)]}

    def _runs(self) -> list[tuple[RunKey, Attempt]]:
        return [
            ((number, place), run)
            for number in sorted(self.attempts)
            for place, run in enumerate([*self.attempts[number].runs, self.attempts[number]])
        ]

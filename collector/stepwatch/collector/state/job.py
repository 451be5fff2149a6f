"""All attempts of one job, built from segments in the order they were stored.

Segments wait until somebody reads the job, and are then folded in together: numpy takes a thousand
rows in the time of ten.
"""

from __future__ import annotations

import itertools
import operator

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.folding.batches import Batch, Batches, batch_of
from stepwatch.collector.state.folding.grouping import Grouping
from stepwatch.collector.state.holding.unread import Unread, with_part
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.wire import Segment

RunKey = tuple[int, int]
"""Number of an attempt, and how many runs of that number were before: a launcher that does not
count its restarts starts the same attempt again."""
MAX_ATTEMPTS = 1000
MAX_JOB_CELLS = 1 << 24
"""Window cells of one job; beyond it its oldest attempts keep their step history only."""
SEGMENT_BYTES = 4096
"""What a decoded segment takes beside its rows."""


def segment_bytes(segment: Segment | Unread) -> int:
    """About the memory that a decoded segment takes while it waits."""
    return SEGMENT_BYTES + segment.nbytes


class LiveJob:
    """All attempts of one job.

    What was appended is not yet in them: `fold` first, then read. `pending_bytes` is about what
    waits for it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.attempts: dict[int, Attempt] = {}
        self.totals = Totals()
        self.unread: list[Unread] = []
        """Parts of its log that could not be read, in their order."""
        self.pending_bytes = 0
        self._pending: list[tuple[int, Batch]] = []

    def append(self, segment: Segment, received: Received) -> None:
        """Take one segment that was not seen before, to be folded in later."""
        self._pending.append((segment.key.attempt, batch_of(segment, received)))
        self.pending_bytes += segment_bytes(segment)

    def apply(self, segment: Segment, received: Received) -> None:
        """Take one segment that was not seen before and fold it in."""
        self.append(segment, received)
        self.fold()

    def miss(self, part: Unread) -> None:
        """Note a part of the log that could not be read; what comes next lies behind it."""
        self.fold()
        if self.attempts and self.newest_s:
            part = part._replace(from_s=min(part.from_s, self.newest_s))
        self.unread = with_part(self.unread, part)

    def fold(self) -> None:
        """Fold in what was appended; in whatever parts, the outcome is the same."""
        if not self._pending:
            return
        pending, self._pending, self.pending_bytes = self._pending, [], 0
        for number, run in itertools.groupby(pending, key=operator.itemgetter(0)):
            self._fold_run(number, Batches([batch for _, batch in run]))

    def _fold_run(self, number: int, run: Batches) -> None:
        """Fold in batches of one attempt, as many at a time as go together.

        Those of an earlier attempt go one by one: any of them may be the one that makes it give its
        cells back.
        """
        # One batch alone is a group whatever it holds: a job of one node has nothing to decide.
        grouping, at = Grouping(run) if len(run) > 1 else None, 0
        while at < len(run):
            attempt = self._attempt(number, run[at])
            older = number < max(self.attempts)
            size = 1 if grouping is None or older else grouping.size(at, attempt)
            attempt.fold(run.part(at, at + size))
            if number < max(self.attempts):
                attempt.give_up()  # a later attempt runs: nothing that is missing will come
            at += size
            if self.cells > MAX_JOB_CELLS:
                self._release_oldest()

    def _attempt(self, number: int, batch: Batch) -> Attempt:
        """The attempt that a batch belongs to; a new one if it is the first, or begins again."""
        attempt = self.attempts.get(number)
        if attempt is None:
            for each in self.attempts.values():
                each.give_up()
            attempt = self.attempts[number] = Attempt(number, totals=self.totals)
            while len(self.attempts) > MAX_ATTEMPTS:
                del self.attempts[min(self.attempts)]
        elif attempt.begins_again(batch):
            attempt = self.attempts[number] = attempt.anew()
        return attempt

    def _release_oldest(self) -> None:
        for number in sorted(self.attempts)[:-1]:
            self.attempts[number].release()
            if self.cells <= MAX_JOB_CELLS:
                return

    @property
    def cells(self) -> int:
        """Window cells and collective rows held."""
        return sum(each.cells for each in self.attempts.values())

    @property
    def received_s(self) -> float:
        """When any of its attempts was received last, Unix seconds."""
        return max(attempt.received_s for attempt in self.attempts.values())

    @property
    def newest_s(self) -> float:
        """Wall time of the newest step of any attempt, Unix seconds; 0 before the first."""
        return max(attempt.newest_s for attempt in self.attempts.values())

    @property
    def current(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[max(self.attempts)]

    @property
    def before(self) -> Attempt | None:
        """What ran before the newest attempt while that one makes no progress, else None.

        A run of the same number counts only until that one fails, too.
        """
        newest = self.current
        if len(newest.step_history):
            return None
        if newest.earlier is not None:
            return None if newest.failed else newest.earlier
        numbers = sorted(self.attempts)[-2:-1]
        return self.attempts[numbers[0]] if numbers else None

    def ordered(self) -> list[tuple[Attempt, int | None]]:
        """Attempts in order, each with the step a later one resumed at (None: nothing lost)."""
        runs = self.runs()
        return [runs[number, len(self.attempts[number].runs)] for number in sorted(self.attempts)]

    def runs(self) -> dict[RunKey, tuple[Attempt, int | None]]:
        """The same of every run of the attempts, those of a number one after the other."""
        found: list[tuple[RunKey, tuple[Attempt, int | None]]] = []
        earliest: int | None = None
        for number in sorted(self.attempts, reverse=True):
            attempt = self.attempts[number]
            for place, run in reversed([*enumerate([*attempt.runs, attempt])]):
                found.append(((number, place), (run, earliest)))
                known = [step for step in (_restart_step(run), earliest) if step is not None]
                earliest = min(known, default=None)
        return dict(found[::-1])


def _restart_step(attempt: Attempt) -> int | None:
    if attempt.resumed_from is not None:
        return attempt.resumed_from
    return attempt.step_history.first if len(attempt.step_history) else None

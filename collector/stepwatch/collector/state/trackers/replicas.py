"""The history of each group of replicas: agreements, disputes, planned averaging, skipped updates.

Replicas hold equal bits after equally many updates from exchanged gradients. So digests are
compared only between replicas with equal counts of such updates, and a difference after updates
that the trainer kept local is planned: local SGD averages the parameters later.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Integers
from stepwatch.signals.records import UNKNOWN_EXCHANGES
from stepwatch.signals.wire import Rows

MAX_PARTS = 1 << 16
"""Maximum remembered parts of groups; further ones are not compared."""


class Comparison(NamedTuple):
    """A disagreement between a group's replicas on one part of the parameters.

    `ranks` and `digests` (replicas,) are the reports in `step`. `first_step` is the first
    comparison that differed, `agreed_step` the last earlier one with agreement, -1 if unknown.
    `members` is the group's ranks as text, `previous` this part's previous comparison, if it
    differed too.
    """

    members: str
    part: int
    step: int
    first_step: int
    agreed_step: int
    ranks: np.ndarray[tuple[int], np.dtype[np.int32]]
    digests: np.ndarray[tuple[int], np.dtype[np.uint64]]
    previous: Comparison | None = None


class Apart(NamedTuple):
    """Replicas that have differed since their first comparison, on `part` of the parameters.

    `exchanges` is the number of updates from exchanged gradients until `step`, `comparisons` the
    number of steps that were compared.
    """

    members: str
    part: int
    first_step: int
    step: int
    exchanges: int
    comparisons: int


class Skip(NamedTuple):
    """A rank with fewer updates than its replicas.

    `first_step` is the first comparison that shows it, `agreed_step` the newest one before with
    equal digests, -1 without one; `updates` is the number of missing updates in `step`.
    """

    group: int
    members: str
    rank: int
    updates: int
    first_step: int
    agreed_step: int
    step: int


class Averaging(NamedTuple):
    """Replicas that update locally and agree now and then.

    `period` is the greatest common divisor of the steps between two of `agreements`, 0 with one.
    """

    members: str
    step: int
    period: int
    agreements: int

    @property
    def known_period(self) -> int | None:
        """Return the period in steps; None before three agreements, whose steps may be multiples.

        Digests are sampled, so it may still be a multiple of the trainer's period.
        """
        return self.period if self.agreements > 2 else None


class _Agreement(NamedTuple):
    """A group's newest agreement: its step, and the replicas' update counts (replicas,).

    `has_local`: a replica reported local updates since the previous digest.
    """

    step: int
    exchanges: Integers
    has_local: bool


class Replicas:
    """What comparisons of digests have shown, by group number."""

    def __init__(self) -> None:
        self.disputes: dict[tuple[int, int], Comparison] = {}
        """Newest comparison for each (group, part) whose replicas disagree."""
        self.apart: dict[int, Apart] = {}
        self.skips: dict[tuple[int, int], Skip] = {}
        """By group and rank."""
        self.averaging: dict[int, Averaging] = {}
        self._agreed: dict[tuple[int, int], int] = {}
        self._agreements: dict[int, _Agreement] = {}
        self._groups_agreed: dict[int, int] = {}
        self._groups_differed: dict[int, int] = {}
        self._agreed_anyway: dict[int, int] = {}
        """Groups that still agreed one step after an agreement despite local updates.

        Their exchanges are not seen, or the gradients are accumulated over steps.
        """

    def compare(self, rows: Rows, members: str, *, agree: bool) -> None:
        """Note one part's digests from all replicas in one step, in the order of their ranks."""
        group, part = int(rows["digest_group"][0]), int(rows["digest_part"][0])
        if agree:
            self._agree(group, part, rows, members)
            return
        behind = self._updates_behind(group, rows)
        if behind.any():
            self._note_skips(group, members, rows, behind)
        elif rows["local_updates"].any() and group not in self._agreed_anyway:
            return  # planned
        else:
            self._differ(group, part, rows, members)

    def _agree(self, group: int, part: int, rows: Rows, members: str) -> None:
        key, step = (group, part), int(rows["step"][0])
        newest, has_local = self._agreements.get(group), bool(rows["local_updates"].any())
        # Right after an averaging replicas differ again.
        if newest is not None and newest.step == step - 1 and newest.has_local:
            self._agreed_anyway[group] = step
        if has_local:
            self._note_averaging(group, step, members)
        if key in self._agreed or len(self._agreed) < MAX_PARTS:
            self._agreed[key] = max(step, self._agreed.get(key, -1))
        self._groups_agreed[group] = min(step, self._groups_agreed.get(group, step))
        if newest is None or newest.step <= step:
            counts = rows["exchanges"].astype(np.int64)
            self._agreements[group] = _Agreement(step, counts, has_local)
            for place in [place for place in self.skips if place[0] == group]:
                del self.skips[place]
        if group in self.apart and self.apart[group].part == part:
            del self.apart[group]
        dispute = self.disputes.get(key)
        if dispute is not None and dispute.step < step:
            del self.disputes[key]

    def _updates_behind(self, group: int, rows: Rows) -> Integers:
        """Return how many updates each replica made less than the others since they agreed.

        Counts 15, 14, 15 now and 8, 8, 8 at the newest agreement: 0, 1, 0. All are 0 if a count is
        unknown.
        """
        counts = rows["exchanges"].astype(np.int64)
        agreement = self._agreements.get(group)
        if (counts == UNKNOWN_EXCHANGES).any():
            return np.zeros_like(counts)
        if agreement is not None and agreement.step < int(rows["step"][0]):
            counts = counts - agreement.exchanges
        return np.asarray(counts.max() - counts)

    def _note_skips(self, group: int, members: str, rows: Rows, behind: Integers) -> None:
        step, agreement = int(rows["step"][0]), self._agreements.get(group)
        agreed_step = -1 if agreement is None else agreement.step
        for rank, updates in zip(rows["rank"].tolist(), behind.tolist(), strict=True):
            known = self.skips.get((group, rank))
            if not updates or (known is None and len(self.skips) >= MAX_PARTS):
                continue
            first = step if known is None else min(step, known.first_step)
            newest = known if known is not None and known.step > step else None
            updates = updates if newest is None else newest.updates
            newest_step = step if newest is None else newest.step
            self.skips[group, rank] = Skip(
                group, members, rank, updates, first, agreed_step, newest_step
            )

    def _differ(self, group: int, part: int, rows: Rows, members: str) -> None:
        step = int(rows["step"][0])
        self._groups_differed[group] = min(step, self._groups_differed.get(group, step))
        agreed = self._groups_agreed.get(group)
        if agreed is None or group in self.apart:
            self._note_apart(group, part, rows, members)
        # Ranks that average parameters now and then by a way that is not counted never agreed or,
        # in a group of two, differed before they agreed.
        elif len(rows) > 2 or self._groups_differed[group] > agreed:
            last = self._agreed.get((group, part), -1)
            ranks, digests = rows["rank"].copy(), rows["digest"].copy()
            fresh = Comparison(members, part, step, step, last, ranks, digests)
            self._dispute((group, part), fresh)

    def _note_apart(self, group: int, part: int, rows: Rows, members: str) -> None:
        exchanges, step = int(rows["exchanges"].max()), int(rows["step"][0])
        if exchanges == UNKNOWN_EXCHANGES:  # too little is known about a difference by design
            return
        known = self.apart.get(group)
        if known is None:
            self.apart[group] = Apart(members, part, step, step, exchanges, 1)
            return
        self.apart[group] = known._replace(
            first_step=min(step, known.first_step),
            step=max(step, known.step),
            exchanges=max(exchanges, known.exchanges),
            comparisons=known.comparisons + (step != known.step),
        )

    def _note_averaging(self, group: int, step: int, members: str) -> None:
        known = self.averaging.get(group)
        if known is None:
            self.averaging[group] = Averaging(members, step, 0, 1)
        elif step > known.step:
            period = math.gcd(known.period, step - known.step)
            self.averaging[group] = Averaging(members, step, period, known.agreements + 1)

    def _dispute(self, key: tuple[int, int], fresh: Comparison) -> None:
        dispute = self.disputes.get(key)
        if dispute is not None and dispute.step < fresh.step:
            previous = dispute._replace(previous=None)
            first = dispute.first_step
            self.disputes[key] = fresh._replace(first_step=first, previous=previous)
        elif dispute is not None:
            self.disputes[key] = dispute._replace(first_step=min(dispute.first_step, fresh.step))
        elif len(self.disputes) < MAX_PARTS:
            self.disputes[key] = fresh

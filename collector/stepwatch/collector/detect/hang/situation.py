"""What is known of ranks that make no progress: where each is, and which collective it missed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stepwatch.collector.state.trackers.diagnoses import Diagnosis
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.records import ProcessState


class RankSituation(NamedTuple):
    """One rank as its agent last saw it; ages in seconds before the agent's poll.

    `moved_age` is the time since its live or collective line changed, `heartbeat_age` since its
    hooks' side thread ran. Where `host` is set, its device is busy, and step, phase, collective and
    `moved_age` are the device's; those of the host are in `host`. With `idle_device` it is seen to
    have no work. `work` is what its process did in the newest seconds since the rank moved, None
    where unknown; `worked_age` the time since it was last seen at work, and `carried_age` that
    since its bytes moved after it did; `cpu_ratio` the CPU time that it used or was ready for, per
    second, NaN where unknown.
    `silent_seconds` beyond 0 is how long ago it was last seen, when it stood already.
    """

    rank: int
    step: int
    phase: int
    microbatch: int
    waiting: bool
    in_collective: bool
    op: int
    moved_age: float
    heartbeat_age: float
    process: ProcessState
    group: int = 0
    host: RankSituation | None = None
    work: Work | None = None
    worked_age: float = math.inf
    carried_age: float = math.inf
    cpu_ratio: float = math.nan
    node: str = ""
    silent_seconds: float = 0.0
    idle_device: bool = False

    @property
    def is_held(self) -> bool:
        """Whether it waits for others: in a collective, or for a neighbour of the pipeline."""
        return self.waiting or self.in_collective


class Unseen(NamedTuple):
    """A rank of which nothing is known since `silent_seconds` (NaN: ever), and its node.

    `paused` says whether it was in an evaluation or a save, marked, when it was last seen; its
    agent sent every `flush_seconds`.
    """

    rank: int
    node: str
    silent_seconds: float
    paused: bool = False
    flush_seconds: float = 1.0


class Missed(NamedTuple):
    """A collective that `rank` did not enter while others wait in it, by their flight recorders."""

    rank: int
    op: str
    number: int
    group: str
    waiters: int


class RankDiagnostics(NamedTuple):
    """What the ranks were found doing since they stalled, by rank, and the groups' members.

    `groups` maps the low 16 bits of a group's number, as the collective line holds them, to its
    ranks as text.
    """

    diagnoses: Mapping[int, Diagnosis] = MappingProxyType({})
    groups: Mapping[int, str] = MappingProxyType({})


class OtherRanks(NamedTuple):
    """Ranks that are not in a stalled job's situations: nobody observes them, or they have ended.

    `ended` did so while others went on, in an orderly way; `entered` are ranks, observed or not,
    that have entered the step in which the others stand; `finished` is whether one of `ended` has
    finished its training.
    """

    unseen: tuple[Unseen, ...] = ()
    ended: tuple[int, ...] = ()
    entered: frozenset[int] = frozenset()
    finished: bool = False


NO_OTHER_RANKS = OtherRanks()
NO_DIAGNOSTICS = RankDiagnostics()


def missed_collectives(diagnoses: Mapping[int, Diagnosis]) -> list[Missed]:
    """Ranks whose recorder lacks the newest collective of a group that others have entered.

    A rank counts only if it knows the group and its recorder answered.
    """
    missed: list[Missed] = []
    newest = {rank: item.newest() for rank, item in diagnoses.items() if item.answered}
    for group in sorted({group for entries in newest.values() for group in entries}):
        numbers = {rank: entries[group] for rank, entries in newest.items() if group in entries}
        last = max(numbers.values(), key=lambda entry: entry.number)
        waiters = sum(entry.number == last.number for entry in numbers.values())
        missed += [
            Missed(rank, last.op, entry.number + 1, group, waiters)
            for rank, entry in numbers.items()
            if entry.number == last.number - 1
        ]
    return missed

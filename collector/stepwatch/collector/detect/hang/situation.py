"""The state of ranks without progress: each rank's position, and its missed collective."""

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

    `moved_age` is the time since its live or collective line changed, `heartbeat_age` the time
    since its hooks' side thread ran. If `host` is set, the device is busy: step, phase, collective
    and `moved_age` are the device's, and `host` holds the host's. `idle_device` means that the
    device has no work.

    `work` is the process's activity in the newest seconds since the rank moved, None if unknown.
    `worked_age` is the time since the rank was last seen at work, and `carried_age` the time since
    its bytes last moved after the rank moved. `cpu_ratio` is the CPU time used or ready to be used,
    per second, NaN if unknown. `silent_seconds` above 0 is the time since a rank that was already
    stalled was last seen.
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
        """Return whether it waits for others: in a collective, or for a pipeline neighbour."""
        return self.waiting or self.in_collective


class Unseen(NamedTuple):
    """An unobserved rank, last seen `silent_seconds` ago (NaN if never), and its node.

    `paused` says whether it was in a marked evaluation or save when last seen; its agent sent every
    `flush_seconds`.
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
    """The ranks' diagnoses since the stall began, by rank, and the groups' members.

    `groups` maps the low 16 bits of a group's number, as in the collective line, to its ranks as
    text.
    """

    diagnoses: Mapping[int, Diagnosis] = MappingProxyType({})
    groups: Mapping[int, str] = MappingProxyType({})


class OtherRanks(NamedTuple):
    """Ranks outside a stalled job's situations: they are unobserved or have ended.

    `ended` ranks did so cleanly while others continued. `entered` ranks, observed or not, have
    entered the others' current step. `finished` is whether an `ended` rank has finished its
    training.
    """

    unseen: tuple[Unseen, ...] = ()
    ended: tuple[int, ...] = ()
    entered: frozenset[int] = frozenset()
    finished: bool = False


NO_OTHER_RANKS = OtherRanks()
NO_DIAGNOSTICS = RankDiagnostics()


def missed_collectives(diagnoses: Mapping[int, Diagnosis]) -> list[Missed]:
    """Return ranks whose recorder lacks the newest collective that others entered in a group.

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

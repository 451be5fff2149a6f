"""The ranks that hold up a stalled job: who waits for whom, and how long a wait may be legal.

A rank that waits in the second collective of a group has left the first one, so all members had
entered that: none of them is between two steps, where a job evaluates or saves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from stepwatch.collector.detect.wait_graph import Answer, Place, members_of, who_holds_up
from stepwatch.signals.arrays import Rows
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import OP_NAMES, Op, Phase, ProcessState

from .situation import (
    DEAD,
    HELD_STATES,
    Activity,
    OtherRanks,
    RankSituation,
    Thresholds,
    Unseen,
    activity_of,
)

MARKED = (Phase.CHECKPOINT, Phase.EVAL)
"""Phases that may legitimately take long."""
Longest = Mapping[Phase, float]
"""Longest seconds that a rank has spent in each phase in one step; unknown phases are absent."""
NONE_KNOWN: Longest = MappingProxyType({})
_PHASES = frozenset(Phase)
_EXCHANGE = (Op.SEND, Op.RECV)
"""One rank sends while the other receives: both are in the same exchange."""
_WITHIN_A_STEP = (Phase.FORWARD, Phase.BACKWARD)
"""Outside these phases a loop may evaluate on one rank before all meet: to log a loss, to save."""


def holding_up(
    ranks: Iterable[RankSituation], groups: Mapping[int, str], other_ranks: OtherRanks
) -> Answer:
    """Return the ranks that block the waiting ranks; ended ranks never arrive."""
    places = _Places(groups)
    inside, outside, waiting = {}, list(other_ranks.ended), []
    for item in ranks:
        if item.in_collective:
            inside[item.rank] = places.place_of(item)
        elif item.waiting:
            waiting.append(item.rank)
        else:
            outside.append(item.rank)
    return who_holds_up(inside, outside, [rank.rank for rank in other_ranks.unseen], waiting)


class _Places:
    """The places of ranks: one object per place, as thousands of ranks share it."""

    def __init__(self, groups: Mapping[int, str]) -> None:
        self._groups = groups
        self._cache: dict[tuple[int, int], Place] = {}

    def place_of(self, item: RankSituation) -> Place:
        op = Op.SEND if item.op in _EXCHANGE else item.op
        if (item.group, op) not in self._cache:
            self._cache[item.group, op] = self._make(item.group, op)
        return self._cache[item.group, op]

    def _make(self, group: int, op: int) -> Place:
        text = self._groups.get(group, "")
        name = OP_NAMES[op] if op < len(OP_NAMES) else OP_NAMES[0]
        return Place(name, group, text, members_of(text) if text else None)


def waiter_for(
    missing: Collection[int], ranks: Iterable[RankSituation], groups: Mapping[int, str]
) -> RankSituation | None:
    """Return the first of `ranks` inside a collective whose group contains a `missing` rank.

    Otherwise it is the first rank inside a collective with unknown members. The result is None if
    all are in other groups, or in an exchange between pipeline stages. `groups` maps group numbers
    to their members as text.
    """
    unknown = None
    for item in ranks:
        if not item.in_collective or item.rank in missing:
            continue
        members = members_of(groups.get(item.group, ""))
        if members is None:
            unknown = unknown or item
        elif not members.isdisjoint(missing):
            return item
    return unknown


def entered_step(
    ranks: Iterable[RankSituation], calls: Rows, groups: Mapping[int, str], least_steps: int
) -> frozenset[int]:
    """Return members of groups in which one of `ranks` is in a later collective of its step.

    `calls` are rows from earlier steps, for each rank and step in the order in which operations
    first occurred. `groups` maps the low 16 bits of a group's number to its members as text. The
    order must be the same in all these steps, and there must be at least `least_steps` of them.

    Worked example: each step calls all_gather, then reduce_scatter in group 0-3. A rank in
    reduce_scatter shows that ranks 0 to 3 have entered the step; a rank in all_gather does not.
    """
    places = {
        (item.group, item.op): item
        for item in ranks
        if item.in_collective and item.phase in _WITHIN_A_STEP
    }
    orders = _orders(calls, [item.rank for item in places.values()])
    members: set[int] = set()
    for (group, op), item in places.items():
        steps = orders.get((item.rank, group), [])
        later = all(op in ops[1:] for ops in steps)
        if len(steps) >= least_steps and later:
            members.update(members_of(groups.get(group, "")) or ())
    return frozenset(members)


def _orders(calls: Rows, ranks: Sequence[int]) -> dict[tuple[int, int], list[list[int]]]:
    """Return the operations of each step in order, by rank and group."""
    rows = calls[np.isin(calls["rank"], ranks)]
    group = rows["group"] & np.uint32(0xFFFF)
    order = np.lexsort((rows["step"], group, rows["rank"]))
    keys = zip(rows["rank"][order].tolist(), group[order].tolist(), strict=True)
    steps, ops = rows["step"][order].tolist(), rows["op"][order].tolist()
    orders: dict[tuple[int, int], list[list[int]]] = {}
    previous = None
    for key, step, op in zip(keys, steps, ops, strict=True):
        if (key, step) != previous:
            orders.setdefault(key, []).append([])
            previous = key, step
        orders[key][-1].append(op)
    return orders


def with_waiting_hosts(ranks: list[RankSituation]) -> list[RankSituation]:
    """Return the ranks, with the host in place of a device that does not show its collective.

    In a step whose collectives are not timed, a device reads as working while it waits in one. If
    another device shows a collective, they are timed, so a working device is the one that blocks.
    The same is true if hosts reduce by themselves, as Gloo's do: they wait for their copies.
    """
    if any(item.host is not None and item.in_collective for item in ranks):
        return ranks
    hosts = [item.host if item.host is not None and _waits(item) else item for item in ranks]
    return ranks if _is_of_hosts(ranks, hosts) else hosts


def _is_of_hosts(ranks: list[RankSituation], hosts: list[RankSituation]) -> bool:
    """Return whether all hosts wait in one collective in which no device takes part.

    In that case most devices have finished their work. A host that is blocked while it enqueues
    also has an idle device, while the others' devices wait for it. So more devices are idle than
    work, or the working ones are in another phase, before the collective.
    """
    calls = {(item.step, item.op, item.group) for item in hosts}
    if len(calls) > 1 or not all(item.in_collective for item in hosts):
        return False
    idle = sum(item.idle_device for item in hosts)
    work = [item for item in ranks if item.host is not None]
    lags = all(item.host is not None and item.phase != item.host.phase for item in work)
    return idle > len(work) or (idle > 0 and lags)


def _waits(item: RankSituation) -> bool:
    """Return whether the host waits in a collective in its device's step."""
    host = item.host
    return host is not None and (host.in_collective or host.waiting) and item.step >= host.step


def paused_phases(ranks: Sequence[RankSituation]) -> set[Phase]:
    """Return the evaluation and save phases that hold a rank with a live process.

    A stopped or lost process neither evaluates nor saves, whatever it began.
    """
    going = {item.phase for item in ranks if item.process not in DEAD}
    return {phase for phase in MARKED if phase in going}


def usual_seconds(ranks: Iterable[RankSituation], longest: Longest, limits: Thresholds) -> float:
    """Return the usual limit for a wait of one of `ranks`, in seconds; 0 without history.

    The limit follows the longest pause from which the job recovered.
    """
    pauses = (longest.get(Phase(item.phase), 0.0) for item in ranks if item.phase in _PHASES)
    return limits.pause_multiple * max(pauses, default=0.0)


def legal_seconds(
    ranks: Sequence[RankSituation],
    outside: Iterable[RankSituation],
    longest: Longest,
    limits: Thresholds,
) -> float:
    """Return how long ranks that are `outside` may block the job without a sign of work."""
    least = limits.marked_seconds if paused_phases(ranks) else limits.legal_seconds
    return max(least, min(usual_seconds(outside, longest, limits), limits.held_seconds))


def may_go_on(ranks: Sequence[RankSituation]) -> bool:
    """Return whether one of `ranks` may end a marked pause by itself, however long it takes.

    A rank that works, or may work, evaluates or saves more than before, as a training's last
    evaluation does. A busy device may also take any time.
    """
    return any(
        item.host is not None or activity_of(item) is not Activity.IDLE
        for item in ranks
        if not item.is_held
    )


def fell_silent_then(
    unseen: Iterable[Unseen],
    seconds: float,
    median_step: float,
    limits: Thresholds,
    lost_seconds: float,
) -> bool:
    """Return whether these ranks fell silent about when the others halted, `seconds` ago.

    `lost_seconds` is the longest such distance in time of a lost node, as in `rank_failed`.

    A lost node's last report came at most a flush and a step before the halt; the others still end
    that step. If they completed steps with its ranks for longer, its agent ended earlier. Worked
    example: steps of 0.3 s, a flush a second, silent for 2.0 s longer -> not lost at that time.
    """
    step = lost_seconds if math.isnan(median_step) else median_step
    return all(
        -lost_seconds
        <= rank.silent_seconds - seconds
        <= min(lost_seconds, rank.flush_seconds + step + limits.late_seconds)
        for rank in unseen
    )


def sharing_state(culprit: RankSituation, ranks: Sequence[RankSituation]) -> list[RankSituation]:
    """Return all ranks in the blocking state of `culprit`.

    If its state blocks no rank, the result is `culprit` alone.
    """
    if culprit.process not in HELD_STATES or culprit.host is not None:
        return [culprit]
    alike = [item for item in ranks if item.process is culprit.process]
    if culprit.process is ProcessState.STOPPED:
        return alike
    # A rank that waits in a collective may be seen blocked in the kernel for a moment.
    return [item for item in alike if not item.is_held]


def node_of(ranks: Sequence[RankSituation]) -> str:
    """Return the node shared by all ranks; empty if there is none or it is unknown."""
    nodes = {item.node for item in ranks}
    return nodes.pop() if len(nodes) == 1 else ""


def who_words(few: Sequence[RankSituation], ranks: Sequence[RankSituation]) -> str:
    """Return for example `all 4 ranks of node a (ranks 0-3)` or `ranks 2-3 of node b`.

    Without a common node: `ranks 1, 5` or `all 8 ranks`.
    """
    node, named = node_of(few), ranks_text([item.rank for item in few])
    if not node:
        return f"all {len(few)} ranks" if len(few) == len(ranks) else named
    if sum(item.node == node for item in ranks) > len(few):
        return f"{named} of node {node}"
    return f"all {len(few)} ranks of node {node} ({named})"

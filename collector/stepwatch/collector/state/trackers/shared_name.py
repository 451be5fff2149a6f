"""Whether two runs report under one name: their agents place one rank on two nodes.

A rank that moves to another node leaves the first. With two runs the reports alternate, and each is
newer than the other run's last one.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.readings import Subjects
from stepwatch.collector.state.tracker import MAX_NODES, Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.arrays import Integers, Rows
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, ProcessState

STAYS_SECONDS = 10.0
"""Grace period for a report from a rank's old node, after the new node's first report.

Node clocks differ, and an agent sends spooled rows. Later reports count.
"""
RETURNS = 2
"""Moves to the previous node beyond which no operator moves a rank back and forth."""
REMEMBERED_SECONDS = 300.0
"""How long after the last move two runs are still reported to share the name."""
_NOWHERE = -1


class SharedName(JoinedTracker):
    """Ranks that run on two nodes at once: `nodes_of` maps each to these nodes, newest last.

    Arrays (world,): the rank's reporting node (index in `_nodes`) and the previous one; its arrival
    there (wall nanoseconds); the number of returns.
    """

    kinds = frozenset({Kind.RANK_STATE})
    order = 10
    of_all_nodes = True

    def __init__(self) -> None:
        self.nodes_of: dict[int, tuple[str, str]] = {}
        self.seen_s = 0.0
        self._nodes = Subjects(MAX_NODES)
        self._at = np.zeros(0, dtype=np.int64)
        self._before = np.zeros(0, dtype=np.int64)
        self._since_ns = np.zeros(0, dtype=np.int64)
        self._returns = np.zeros(0, dtype=np.int64)

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; existing values stay."""
        more = world - len(self._at)
        self._at = np.append(self._at, np.full(more, _NOWHERE))
        self._before = np.append(self._before, np.full(more, _NOWHERE))
        self._since_ns = np.append(self._since_ns, np.zeros(more, dtype=np.int64))
        self._returns = np.append(self._returns, np.zeros(more, dtype=np.int64))

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in RANK_STATE rows; ranks that stay on their node cost nothing extra."""
        rows = batches.rows(Kind.RANK_STATE)
        if rows is None:
            return
        running = rows["process_state"] != ProcessState.GONE
        in_world = running & (rows["rank"] >= 0) & (rows["rank"] < len(self._at))
        if not in_world.any():
            return
        origin = batches.table(Kind.RANK_STATE).origin[in_world]
        places = batches.numbered(self._nodes, origin)
        self._take(chosen(rows, in_world), places, batches.to_wall_ns[origin])

    def sharing(self, now_s: float) -> dict[int, tuple[str, str]]:
        """Return the ranks that two nodes report, with the nodes; nothing after a long time."""
        return self.nodes_of if now_s - self.seen_s < REMEMBERED_SECONDS else {}

    def _take(self, rows: Rows, places: Integers, to_wall_ns: Integers) -> None:
        """Follow ranks whose node changes, row by row; process the others at once.

        Ranks [4, 5, 4] from nodes [0, 0, 1], both on node 0 so far: rank 4 changes, and its two
        rows are followed in order.
        """
        ranks = rows["rank"].astype(np.int64)
        new = self._at[ranks] == _NOWHERE
        first, indices = np.unique(ranks[new], return_index=True)
        wall_ns = rows["time_ns"].astype(np.int64) + to_wall_ns
        self._at[first] = places[new][indices]
        self._since_ns[first] = wall_ns[new][indices]
        moving = np.unique(ranks[self._at[ranks] != places])
        if not len(moving):
            return
        names = list(self._nodes)
        for index in np.flatnonzero(np.isin(ranks, moving)).tolist():
            self._follow(int(ranks[index]), int(places[index]), int(wall_ns[index]), names)

    def _follow(self, rank: int, place: int, wall_ns: int, names: list[str]) -> None:
        if place in (self._at[rank], _NOWHERE):
            return
        if place == self._before[rank]:
            if wall_ns < self._since_ns[rank] + STAYS_SECONDS * NANOSECONDS:
                return
            self._returns[rank] += 1
        self._before[rank], self._at[rank] = self._at[rank], place
        self._since_ns[rank] = wall_ns
        if self._returns[rank] >= RETURNS:
            self.nodes_of[rank] = names[self._before[rank]], names[place]
            self.seen_s = max(self.seen_s, wall_ns / NANOSECONDS)

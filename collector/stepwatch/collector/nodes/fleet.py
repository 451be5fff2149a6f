"""All nodes as they are now, from what the store holds."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.incidents.model import INFO
from stepwatch.collector.store import Store
from stepwatch.collector.store.nodes import (
    NodeRow,
    Sighted,
    newest_sightings,
    node_rows,
    sightings_of,
)
from stepwatch.collector.store.schema import DAY_NS
from stepwatch.signals.clock import NANOSECONDS, Clock

from .episodes import Episode, episodes, faults
from .health import Health, State, state_of
from .limits import LIMITS, Limits
from .together import Together, held_back, together

logger = logging.getLogger(__name__)

MOST_READ = 100_000
"""Newest facts of a month that are read at once: fifty of each of 2,000 nodes."""
_INCIDENTS_READ = 1000
_FRESH_SECONDS = 2.0
"""Whoever asks within it is given the same answer: a page asks every two seconds, and so may
many."""
_DAY_S = DAY_NS / NANOSECONDS


class Node(NamedTuple):
    """One node: how it is, when it was received from last (Unix seconds, None never), how often it
    was at fault, and in how many jobs an incident named it within a month."""

    name: str
    state: State
    received_at: float | None
    version: str
    faults_week: int
    faults_month: int
    jobs_month: int
    episodes: tuple[Episode, ...]

    def is_offender(self, limits: Limits = LIMITS) -> bool:
        """Whether it is at fault again and again."""
        week, month = limits.offender_week, limits.offender_month
        return self.faults_week >= week or self.faults_month >= month


class Fleet(NamedTuple):
    """All nodes by name, what many have at once, and when that was read (Unix seconds).

    `is_cut` says that there are more facts within the month than are read: counts are lower bounds.
    """

    nodes: Mapping[str, Node]
    shared: Sequence[Together]
    read_at: float
    is_cut: bool

    def counts(self) -> dict[Health, int]:
        """How many nodes are in each state."""
        node_counts = Counter(node.state.health for node in self.nodes.values())
        return {health: node_counts[health] for health in Health}


class FleetReader:
    """Reads the nodes of a store, at most every two seconds."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._reading = threading.Lock()
        self._newest: tuple[float, Fleet | sa.exc.SQLAlchemyError] | None = None

    def fleet(self) -> Fleet:
        """All nodes now.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        with self._reading:
            if self._newest is None or self._seconds() - self._newest[0] >= _FRESH_SECONDS:
                self._newest = self._read_now()
            newest = self._newest[1]
        if isinstance(newest, Fleet):
            return newest
        raise newest.with_traceback(None)

    def if_known(self) -> Fleet | None:
        """All nodes now; None while the store does not answer."""
        try:
            return self.fleet()
        except sa.exc.SQLAlchemyError as error:
            logger.debug("the state of nodes is unknown: %s", error)
            return None

    def history(self, name: str) -> list[Episode]:
        """All episodes of a node that are kept, the newest first.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        return episodes(sightings_of(self._store.engine, name))

    def _seconds(self) -> float:
        return self._clock.monotonic_ns() / NANOSECONDS

    def _read_now(self) -> tuple[float, Fleet | sa.exc.SQLAlchemyError]:
        """All nodes, and from when on they grow old; that the store does not answer is an answer,
        too: whoever waits for the lock must not each wait for the store as well."""
        began = self._seconds()
        try:
            return began, self._read()
        except sa.exc.SQLAlchemyError as error:
            return self._seconds(), error

    def _read(self) -> Fleet:
        now_ns, engine = self._clock.wall_ns(), self._store.engine
        since_ns = max(now_ns - LIMITS.month_days * DAY_NS, 0)
        sighted = newest_sightings(engine, since_ns, MOST_READ)
        incidents = self._store.incidents(limit=_INCIDENTS_READ)
        return fleet_of(node_rows(engine), sighted, incidents, now_ns / NANOSECONDS)


def fleet_of(
    rows: Iterable[NodeRow],
    sighted: Sequence[Sighted],
    incidents: Iterable[Mapping[str, Any]],
    now_s: float,
    limits: Limits = LIMITS,
) -> Fleet:
    """All nodes at `now_s` (Unix seconds). Pure.

    The clock of a node need not agree with the collectors': windows begin so long before the
    newest moment that the node itself reported.
    """
    of_node: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes(sighted, limits):
        of_node[episode.node].append(episode)
    jobs = _jobs_naming(incidents, now_s - limits.month_days * _DAY_S)
    rows_by_node = {row.node: row for row in rows}
    states = {
        name: state_of(of_node[name], row.received_ns / NANOSECONDS, now_s, limits)
        for name, row in rows_by_node.items()
    }
    shared = together(states)
    nodes = {
        name: _node(row, held_back(name, states[name], shared), of_node[name], jobs, limits, now_s)
        for name, row in rows_by_node.items()
    }
    return Fleet(nodes, shared, now_s, len(sighted) >= MOST_READ)


def _node(
    row: NodeRow,
    state: State,
    history: Sequence[Episode],
    jobs: Mapping[str, set[str]],
    limits: Limits,
    now_s: float,
) -> Node:
    here_s = row.reported_ns / NANOSECONDS + now_s - row.received_ns / NANOSECONDS
    week, month = (
        faults(history, here_s - days * _DAY_S, limits)
        for days in (limits.week_days, limits.month_days)
    )
    received = row.received_ns / NANOSECONDS if row.received_ns else None
    named = len(jobs.get(row.node, ()))
    return Node(row.node, state, received, row.version, week, month, named, tuple(history))


def _jobs_naming(incidents: Iterable[Mapping[str, Any]], since_s: float) -> dict[str, set[str]]:
    """The jobs of which an incident since then names a node, by node; not what only informs."""
    jobs: dict[str, set[str]] = defaultdict(set)
    for incident in incidents:
        if incident.get("opened_at", 0.0) < since_s or incident.get("merged_into"):
            continue
        if incident.get("severity") != INFO and incident.get("node"):
            jobs[str(incident["node"])].add(str(incident.get("job")))
    return jobs

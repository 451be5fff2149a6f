"""All nodes in their current state, from the store."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.incidents.states import INFO
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
"""Maximum number of facts per month read at once: fifty for each of 2,000 nodes."""
_INCIDENTS_READ = 1000
_FRESH_SECONDS = 2.0
"""Cache time for the fleet: pages poll every two seconds, and there may be many."""
_DAY_S = DAY_NS / NANOSECONDS


class Node(NamedTuple):
    """One node.

    `received_at` is the last report in Unix seconds, None without any. `faults_week` and
    `faults_month` count faults, `jobs_month` the jobs with an incident that named the node.
    """

    name: str
    state: State
    received_at: float | None
    version: str
    faults_week: int
    faults_month: int
    jobs_month: int
    episodes: tuple[Episode, ...]

    def is_offender(self, limits: Limits = LIMITS) -> bool:
        """Return whether the node has repeated faults."""
        week, month = limits.offender_week, limits.offender_month
        return self.faults_week >= week or self.faults_month >= month


class Fleet(NamedTuple):
    """All nodes by name, their shared faults, and the read time (Unix seconds).

    `is_cut` is set if the month has more facts than are read: counts are lower bounds.
    """

    nodes: Mapping[str, Node]
    shared: Sequence[Together]
    read_at: float
    is_cut: bool

    def counts(self) -> dict[Health, int]:
        """Return the number of nodes per health state."""
        node_counts = Counter(node.state.health for node in self.nodes.values())
        return {health: node_counts[health] for health in Health}


class FleetReader:
    """Reads a store's nodes, at most every two seconds."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._reading = threading.Lock()
        self._newest: tuple[float, Fleet | sa.exc.SQLAlchemyError] | None = None

    def fleet(self) -> Fleet:
        """Return all nodes in their current state.

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
        """Return all nodes; None while the store does not answer."""
        try:
            return self.fleet()
        except sa.exc.SQLAlchemyError as error:
            logger.debug("the state of nodes is unknown: %s", error)
            return None

    def history(self, name: str) -> list[Episode]:
        """Return all stored episodes for a node, newest first.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        return episodes(sightings_of(self._store.engine, name))

    def _seconds(self) -> float:
        return self._clock.monotonic_ns() / NANOSECONDS

    def _read_now(self) -> tuple[float, Fleet | sa.exc.SQLAlchemyError]:
        """Return all nodes, or the store's error, with the time from which the result ages.

        The error is cached, too: callers that wait for the lock must not each wait for the store.
        """
        began = self._seconds()
        try:
            return began, self._read()
        except sa.exc.SQLAlchemyError as error:
            return self._seconds(), error

    def _read(self) -> Fleet:
        now_ns, engine = self._clock.wall_ns(), self._store.engine
        since_ns = max(now_ns - LIMITS.month_days * DAY_NS, 0)
        sighted = newest_sightings(engine, since_ns, MOST_READ)
        incidents = self._store.incidents.newest(limit=_INCIDENTS_READ)
        return fleet_of(node_rows(engine), sighted, incidents, now_ns / NANOSECONDS)


def fleet_of(
    rows: Iterable[NodeRow],
    sighted: Sequence[Sighted],
    incidents: Iterable[Mapping[str, Any]],
    now_s: float,
    limits: Limits = LIMITS,
) -> Fleet:
    """Return all nodes at `now_s` (Unix seconds). Pure.

    A node's clock may differ from the collectors' clock, so time windows count back from the node's
    own reported time.
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
    """Return the jobs by node that a recent incident names.

    Informational incidents do not count.
    """
    jobs: dict[str, set[str]] = defaultdict(set)
    for incident in incidents:
        if incident.get("opened_at", 0.0) < since_s or incident.get("merged_into"):
            continue
        if incident.get("severity") != INFO and incident.get("node"):
            jobs[str(incident["node"])].add(str(incident.get("job")))
    return jobs

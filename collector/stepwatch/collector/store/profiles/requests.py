"""Profile requests: at most one open per job, each with the traces of two ranks."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import writing
from stepwatch.collector.store.leases import Now, database_ns
from stepwatch.collector.store.schema import DAY_NS
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import StoreError
from stepwatch.signals.profiles import MAX_REASON

from .tables import profile_request, profile_trace

EXPIRY_SECONDS = 600.0
"""Time from a request to its end: a rank may be stalled, or its agent away."""
MOST_A_DAY = 24
"""Most requests per job in a day: profiled steps are slower."""
MOST_KEPT = 50
"""Most requests kept per job, newest first."""
TRACES_KEPT_DAYS = 14
MAX_SENTENCE = 1000
_EXPIRY_NS = int(EXPIRY_SECONDS * NANOSECONDS)
_AT_ONCE = 500
OUTCOMES = ("asked", "compared", "no-trace", "not-compared", "expired")
_EXPIRED = "no answer came in time: an agent may be away, or forbids profiles"
_NOT_OPEN = "the request is closed: it takes no more traces"


class ProfileState(StrEnum):
    """The state of a requested profile."""

    ASKED = "asked"
    COMPARED = "compared"
    FAILED = "failed"
    EXPIRED = "expired"


class Wanted(NamedTuple):
    """A profile to request: a slow rank and its peer, each with its node, and their steps.

    `incidents` are the ids of the open incidents about the rank.
    """

    job: str
    attempt: int
    rank: int
    node: str
    peer: int
    peer_node: str
    first_step: int
    steps: int
    incidents: list[str]
    by: str


class Trace(NamedTuple):
    """One rank's answer: its trace's size in bytes, 0 with a `reason` or after its retention.

    `received_at` is in Unix seconds.
    """

    rank: int
    node: str
    bytes: int
    reason: str
    received_at: float


class Request(NamedTuple):
    """A requested profile; times in Unix seconds, `seconds_left` until it expires.

    `sentence` says what the comparison shows, or why there is none.
    """

    id: str
    wanted: Wanted
    requested_at: float
    seconds_left: float
    state: ProfileState
    sentence: str
    comparison: dict[str, Any] | None
    traces: tuple[Trace, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it waits for traces or their comparison."""
        return self.state is ProfileState.ASKED

    def node_of(self, rank: int) -> str | None:
        """Return the node that runs one of the two ranks; None for another rank."""
        wanted = self.wanted
        return {wanted.rank: wanted.node, wanted.peer: wanted.peer_node}.get(rank)


class DayOfProfiles(NamedTuple):
    """The requests of a day by outcome, and the job seconds in the compared ones."""

    outcomes: dict[str, int]
    seconds: float


class Profiles:
    """The requested profiles in a store; they expire by the database's clock."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now
        self._seconds: dict[str, float] = {}
        """Job seconds of the compared profiles that were counted, by id."""

    def add(self, wanted: Wanted, most_steps: int | None = None) -> Request:
        """Write a request; drop the job's oldest ones, and traces after their retention.

        With `most_steps`, refuse more profiled steps of the job in a day, and a second request
        about an incident.

        Raises:
            StoreError: the job has an open request, or too many in a day, or `most_steps` refuses.
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        with writing(self._engine) as connection:
            # Another collector may request a profile of the job at the same time.
            of_job = sa.select(schema.job.c.name).where(schema.job.c.name == wanted.job)
            connection.execute(of_job.with_for_update())
            now = self._now(connection)
            _check_limits(connection, wanted.job, now)
            if most_steps is not None:
                _check_unasked(connection, wanted, now, most_steps)
            row = wanted._asdict() | {"id": uuid.uuid4().hex[:12]}
            row["requested_by"] = row.pop("by")
            row |= {"requested_ns": now, "state": ProfileState.ASKED.value, "sentence": ""}
            connection.execute(sa.insert(profile_request), row)
            _drop_old(connection, wanted.job, now)
        return _request({**row, "comparison": None}, now)

    def get(self, identity: str) -> Request | None:
        """Return a request with its traces; None if it does not exist."""
        requests = self._read(profile_request.c.id == identity)
        return requests[0] if requests else None

    def of_job(self, job: str) -> list[Request]:
        """Return a job's requests with their traces, newest first."""
        return self._read(profile_request.c.job == job)

    def open_requests(self) -> list[Request]:
        """Return the open requests of all jobs, without their traces, oldest first."""
        table = profile_request
        with self._engine.connect() as connection:
            now = self._now(connection)
            is_asked = table.c.state == ProfileState.ASKED.value
            query = sa.select(table).where(is_asked, table.c.requested_ns > now - _EXPIRY_NS)
            rows = connection.execute(query.order_by(table.c.requested_ns, table.c.id)).mappings()
            return [_request(row, now) for row in rows]

    def newest(self, jobs: Collection[str]) -> list[Request]:
        """Return the jobs' requests, without traces and comparison, newest first."""
        table, names = profile_request, sorted(jobs)
        columns = [column for column in table.c if column is not table.c.comparison]
        requests: list[Request] = []
        with self._engine.connect() as connection:
            now = self._now(connection)
            for start in range(0, len(names), _AT_ONCE):
                in_chunk = table.c.job.in_(names[start : start + _AT_ONCE])
                rows = connection.execute(sa.select(*columns).where(in_chunk)).mappings()
                requests += [_request({**row, "comparison": None}, now) for row in rows]
        return sorted(requests, key=lambda request: (-request.requested_at, request.id))

    def of_day(self) -> DayOfProfiles:
        """Return the requests of the last day; a failed one is `no-trace` or `not-compared`.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        table, traces = profile_request, profile_trace
        gave_reason = sa.exists().where(traces.c.request == table.c.id, traces.c.reason != "")
        with self._engine.connect() as connection:
            now = self._now(connection)
            is_over = table.c.requested_ns <= now - _EXPIRY_NS
            outcome = sa.case(
                (sa.and_(table.c.state == ProfileState.ASKED.value, is_over), "expired"),
                (sa.and_(table.c.state == ProfileState.FAILED.value, gave_reason), "no-trace"),
                (table.c.state == ProfileState.FAILED.value, "not-compared"),
                else_=table.c.state,
            )
            query = sa.select(outcome, sa.func.count()).group_by(outcome)
            rows = connection.execute(query.where(table.c.requested_ns > now - DAY_NS))
            counts = {name: int(count) for name, count in rows}
            seconds = self._profiled_seconds(connection, now)
        return DayOfProfiles({**dict.fromkeys(OUTCOMES, 0), **counts}, seconds)

    def _profiled_seconds(self, connection: sa.Connection, now: int) -> float:
        """Return the job seconds in a day's compared profiles; each comparison is read once."""
        table = profile_request
        is_compared = table.c.state == ProfileState.COMPARED.value
        of_day = sa.select(table.c.id).where(is_compared, table.c.requested_ns > now - DAY_NS)
        identities = set(connection.scalars(of_day))
        seconds = {name: self._seconds[name] for name in identities & self._seconds.keys()}
        # A database that looks into the JSON itself fails on a NUL in the name of an operator.
        columns = sa.select(table.c.steps, table.c.comparison)
        for identity in identities - seconds.keys():
            row = connection.execute(columns.where(table.c.id == identity)).first()
            if row is not None:  # another collector may have dropped it since
                seconds[identity] = row.steps * _step_seconds(row.comparison)
        self._seconds = seconds
        return sum(seconds.values())

    def add_trace(self, identity: str, rank: int, trace: bytes, reason: str = "") -> bool:
        """Store a rank's gzip trace, or the reason why it has none, which fails the request.

        Returns whether the request now has both traces.

        Raises:
            StoreError: the request is closed or unknown, the rank is none of its two, or the rank
                has answered before.
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        table = profile_trace
        with writing(self._engine) as connection:
            now = self._now(connection)
            request = _locked(connection, identity, now)
            node = request.node_of(rank)
            if node is None:
                raise StoreError(f"the request is not about rank {rank}")
            of_request = table.c.request == identity
            ranks = set(connection.scalars(sa.select(table.c.rank).where(of_request)))
            if rank in ranks:
                raise StoreError(f"rank {rank} has answered the request before")
            row = {"request": identity, "rank": rank, "job": request.wanted.job, "node": node}
            row |= {"reason": reason[:MAX_REASON], "received_ns": now}
            connection.execute(sa.insert(table), {**row, "payload": None if reason else trace})
            if reason:
                sentence = f"rank {rank}: {reason[:MAX_REASON]}"
                _close(connection, identity, ProfileState.FAILED, sentence, None)
            return not reason and len(ranks) == 1

    def close(
        self, identity: str, sentence: str, comparison: Mapping[str, Any] | None = None
    ) -> None:
        """Store the comparison of an open request; without one it has failed for `sentence`.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        state = ProfileState.FAILED if comparison is None else ProfileState.COMPARED
        with writing(self._engine) as connection:
            _close(connection, identity, state, sentence, comparison)

    def trace(self, identity: str, rank: int) -> bytes | None:
        """Return a rank's gzip trace; None without one."""
        table = profile_trace
        query = sa.select(table.c.payload).where(table.c.request == identity, table.c.rank == rank)
        with self._engine.connect() as connection:
            payload = connection.execute(query).scalar_one_or_none()
        return None if payload is None else bytes(payload)

    def _read(self, condition: sa.ColumnElement[bool]) -> list[Request]:
        table = profile_request
        query = sa.select(table).where(condition)
        query = query.order_by(table.c.requested_ns.desc(), table.c.id).limit(MOST_KEPT)
        with self._engine.connect() as connection:
            now = self._now(connection)
            requests = [_request(row, now) for row in connection.execute(query).mappings()]
            traces = _traces(connection, [request.id for request in requests])
        return [request._replace(traces=tuple(traces.get(request.id, ()))) for request in requests]


def _step_seconds(comparison: object) -> float:
    seconds = comparison.get("step_seconds") if isinstance(comparison, dict) else None
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _check_limits(connection: sa.Connection, job: str, now: int) -> None:
    table = profile_request
    count = sa.select(sa.func.count()).where(table.c.job == job)
    is_open = sa.and_(
        table.c.state == ProfileState.ASKED.value, table.c.requested_ns > now - _EXPIRY_NS
    )
    if connection.execute(count.where(is_open)).scalar_one():
        raise StoreError(f"a profile of {job} is in progress: ask again when it has ended")
    of_day = count.where(table.c.requested_ns > now - DAY_NS)
    if connection.execute(of_day).scalar_one() >= MOST_A_DAY:
        raise StoreError(f"{job} had {MOST_A_DAY} profiles in a day: profiled steps are slower")


def _check_unasked(connection: sa.Connection, wanted: Wanted, now: int, most_steps: int) -> None:
    table = profile_request
    of_job = sa.select(table.c.incidents, table.c.steps, table.c.requested_ns)
    rows = connection.execute(of_job.where(table.c.job == wanted.job)).all()
    if any(not set(wanted.incidents).isdisjoint(row.incidents) for row in rows):
        raise StoreError("the incident has a profile")
    steps = sum(row.steps for row in rows if row.requested_ns > now - DAY_NS)
    if steps + wanted.steps > most_steps:
        raise StoreError(f"{wanted.job} had {steps} profiled steps in a day: profiles cost time")


def _drop_old(connection: sa.Connection, job: str, now: int) -> None:
    """Delete the job's requests beyond `MOST_KEPT`, and every old trace."""
    requests, traces = profile_request, profile_trace
    newest = sa.select(requests.c.id).where(requests.c.job == job)
    newest = newest.order_by(requests.c.requested_ns.desc(), requests.c.id).limit(MOST_KEPT)
    kept = connection.scalars(newest).all()
    connection.execute(sa.delete(traces).where(traces.c.job == job, traces.c.request.not_in(kept)))
    connection.execute(sa.delete(requests).where(requests.c.job == job, requests.c.id.not_in(kept)))
    is_old = traces.c.received_ns < now - TRACES_KEPT_DAYS * DAY_NS
    change = sa.update(traces).where(is_old, traces.c.payload.is_not(None))
    connection.execute(change.values(payload=None))


def _locked(connection: sa.Connection, identity: str, now: int) -> Request:
    """Return an open request, locked until the transaction ends.

    Of two traces at the same time one then finds the other.

    Raises:
        StoreError: it is unknown or closed.
    """
    query = sa.select(profile_request).where(profile_request.c.id == identity).with_for_update()
    row = connection.execute(query).mappings().first()
    if row is None or not _request(row, now).is_open:
        raise StoreError(_NOT_OPEN)
    return _request(row, now)


def _close(
    connection: sa.Connection,
    identity: str,
    state: ProfileState,
    sentence: str,
    comparison: Mapping[str, Any] | None,
) -> None:
    table = profile_request
    is_asked = sa.and_(table.c.id == identity, table.c.state == ProfileState.ASKED.value)
    values = {"state": state.value, "sentence": sentence[:MAX_SENTENCE], "comparison": comparison}
    connection.execute(sa.update(table).where(is_asked).values(**values))


def _traces(connection: sa.Connection, identities: Sequence[str]) -> dict[str, list[Trace]]:
    table = profile_trace
    size = sa.func.coalesce(sa.func.length(table.c.payload), 0).label("bytes")
    names = ("request", "rank", "node", "reason", "received_ns")
    query = sa.select(*(table.c[name] for name in names), size)
    query = query.where(table.c.request.in_(identities)).order_by(table.c.rank)
    traces: dict[str, list[Trace]] = {}
    for row in connection.execute(query):
        received_at = row.received_ns / NANOSECONDS
        trace = Trace(row.rank, row.node, row.bytes, row.reason, received_at)
        traces.setdefault(row.request, []).append(trace)
    return traces


def _request(row: Mapping[Any, Any], now: int) -> Request:
    fields = {**row, "by": row["requested_by"]}
    wanted = Wanted(**{name: fields[name] for name in Wanted._fields})
    left_s = max(row["requested_ns"] + _EXPIRY_NS - now, 0) / NANOSECONDS
    state, sentence = ProfileState(row["state"]), row["sentence"]
    if state is ProfileState.ASKED and not left_s:
        state, sentence = ProfileState.EXPIRED, _EXPIRED
    return Request(
        row["id"],
        wanted,
        row["requested_ns"] / NANOSECONDS,
        left_s,
        state,
        sentence,
        row["comparison"],
    )

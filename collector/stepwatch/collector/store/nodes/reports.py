"""From a segment to what it says of its node. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.signals.clock import ClockPair
from stepwatch.signals.node_facts import kind_of
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment

MOST_ROWS = 1024
"""Facts taken from one segment: an agent sends no more."""
_LATEST_NS = (1 << 63) - 1


class Sighted(NamedTuple):
    """One fact as one agent found it; moments are wall time of the node in nanoseconds.

    `ended_ns` is 0 unless its end was reported. `monotonic_ns` is its beginning on the node's own
    clock: with the agent's `spool` it tells this time from the others. `received_ns` is a
    collector's wall time. `job` is empty where none ran.
    """

    node: str
    spool: int
    fact: int
    subject: str
    code: int
    monotonic_ns: int
    began_ns: int
    seen_ns: int
    ended_ns: int
    received_ns: int
    times: int
    text: str
    job: str
    attempt: int


class Report(NamedTuple):
    """What one segment says of its node: facts, and of a job-less one that the agent runs.

    `reported_ns` is wall time of the node, 0 where the segment is a job's.
    """

    node: str
    reported_ns: int
    received_ns: int
    version: str
    sighted: list[Sighted]


def report_of(segment: Segment, received_ns: int) -> Report | None:
    """What a segment says of its node; None for one of a job that says nothing.

    Facts of a later version are left out, and rows that cannot be true.
    """
    of_node = segment.key.of_node
    if not of_node and Kind.NODE_FACT not in segment.tables:
        return None
    rows = segment.tables.get(Kind.NODE_FACT)
    facts = (
        [] if rows is None else [_sighted(row, segment, received_ns) for row in rows[:MOST_ROWS]]
    )
    sighted = [fact for fact in facts if fact is not None]
    reported_ns = _bounded(segment.clock.wall_ns) if of_node else 0
    came_ns = received_ns if of_node else 0
    return Report(segment.key.node, reported_ns, came_ns, _version(segment), sighted)


def _sighted(row: np.void, segment: Segment, received_ns: int) -> Sighted | None:
    fact, present = int(row["fact"]), int(row["present"])
    if kind_of(fact) is None or present not in (0, 1):
        return None
    key, clock = segment.key, segment.clock
    began, moment = int(row["began_ns"]), int(row["time_ns"])
    began_at, moment_ns = _wall(clock, min(began, moment)), _wall(clock, moment)
    has_job = key.job != NODE_STREAM
    return Sighted(
        node=key.node,
        spool=key.spool,
        fact=fact,
        subject=_text(row["subject"]),
        code=int(row["code"]),
        monotonic_ns=_bounded(began),
        began_ns=began_at,
        seen_ns=moment_ns if present else began_at,
        ended_ns=0 if present else max(moment_ns, 1),
        received_ns=received_ns,
        times=max(int(row["count"]), 1),
        text=_text(row["text"]),
        job=key.job if has_job else "",
        attempt=key.attempt if has_job else -1,
    )


def _wall(clock: ClockPair, monotonic_ns: int) -> int:
    return _bounded(clock.to_wall_ns(monotonic_ns))


def _bounded(ns: int) -> int:
    """What a column holds."""
    return min(max(ns, 0), _LATEST_NS)


def _version(segment: Segment) -> str:
    rows = segment.tables.get(Kind.AGENT)
    return _text(rows[-1]["version"]) if rows is not None and len(rows) else ""


def _text(value: bytes) -> str:
    # PostgreSQL has no NUL in a text.
    return bytes(value).decode("utf-8", "replace").replace("\0", "\ufffd")

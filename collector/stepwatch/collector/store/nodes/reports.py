"""Extracts a segment's node report. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.signals.clock import ClockPair
from stepwatch.signals.node_facts.catalogue import kind_of
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment

MOST_ROWS = 1024
"""Maximum number of facts per segment: an agent sends no more."""
_LATEST_NS = (1 << 63) - 1


class Sighted(NamedTuple):
    """One fact as one agent reported it; times are the node's wall time in nanoseconds.

    `ended_ns` is 0 unless the end was reported. `monotonic_ns` is the beginning on the node's own
    clock: with the agent's `spool` it distinguishes occurrences. `received_ns` is a collector's
    wall time. `job` is empty if no job ran.
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
    """A segment's node report: facts, and for a segment without a job also that the agent runs.

    `reported_ns` is the node's wall time, 0 if the segment belongs to a job.
    """

    node: str
    reported_ns: int
    received_ns: int
    version: str
    sighted: list[Sighted]


def report_of(segment: Segment, received_ns: int) -> Report | None:
    """Return a segment's node report, or None for a job's segment without node facts.

    Facts from a later version are skipped, and so are invalid rows.
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
    """Clamp to the column's range."""
    return min(max(ns, 0), _LATEST_NS)


def _version(segment: Segment) -> str:
    rows = segment.tables.get(Kind.AGENT)
    return _text(rows[-1]["version"]) if rows is not None and len(rows) else ""


def _text(value: bytes) -> str:
    # PostgreSQL text cannot contain NUL.
    return bytes(value).decode("utf-8", "replace").replace("\0", "\ufffd")

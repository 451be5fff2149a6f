"""Merges agents' fact reports into episodes, and counts faults. Pure.

After an agent restart, a fact that still holds is reported again: both reports form one episode. A
reported end separates two episodes, and so does a long time without any report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from stepwatch.collector.detect.node_fault.detector import action_of, severity_of, title
from stepwatch.collector.store.nodes import Sighted
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.node_facts.actions import Action
from stepwatch.signals.node_facts.catalogue import Severity
from stepwatch.signals.records import NodeFact

from .limits import LIMITS, Limits

_KNOWN = frozenset(NodeFact)
"""A later version may have written other facts."""


class Episode(NamedTuple):
    """A node's fact from its beginning to its end, in Unix seconds by the node's clock.

    `ended_at` is None without a reported end: the fact still holds, or its agent exited before.
    `received_at` is the time a collector last received it. `times` is a lower bound for the number
    of reports. `job` is a job that ran at that time, empty without one.
    """

    node: str
    fact: NodeFact
    subject: str
    code: int
    began_at: float
    seen_at: float
    ended_at: float | None
    received_at: float
    times: int
    text: str
    job: str
    attempt: int

    @property
    def severity(self) -> Severity:
        """The fact's own severity."""
        return severity_of(self)

    @property
    def action(self) -> Action:
        """The recommended action."""
        return action_of(self)

    @property
    def title(self) -> str:
        """A short title."""
        return title(self)

    @property
    def over_at(self) -> float:
        """The known end, or the time last seen."""
        return self.seen_at if self.ended_at is None else self.ended_at


def episodes(sighted: Iterable[Sighted], limits: Limits = LIMITS) -> list[Episode]:
    """Return the episodes for any nodes, newest first; the order of `sighted` does not matter.

    Example: one agent saw XID 79 from 100 s to 130 s and was killed, the next saw it from 150 s to
    its end at 190 s, a third from 5000 s on. The episodes are 5000 s on, and 100 s to 190 s.
    """
    joined: list[Episode] = []
    sightings = {sighting for sighting in sighted if sighting.fact in _KNOWN}
    for _, group in groupby(sorted(sightings, key=_order), key=_fact_key):
        joined += _joined(list(group), limits.rejoin_seconds * NANOSECONDS)
    return sorted(joined, key=lambda episode: (-episode.began_at, *episode))


def faults(of_one_node: Iterable[Episode], since_s: float, limits: Limits = LIMITS) -> int:
    """Return the number of separate faults in one node that lasted beyond a Unix time.

    Facts at the same time, or soon after each other, are one fault: a lost device reports several
    XID errors. Evidence does not count.
    """
    count, until = 0, float("-inf")
    bad = (episode for episode in of_one_node if episode.severity is not Severity.EVIDENCE)
    for episode in sorted(bad, key=lambda episode: episode.began_at):
        if episode.over_at < since_s:
            continue
        count += episode.began_at > until
        until = max(until, episode.over_at + limits.rejoin_seconds)
    return count


def _fact_key(sighting: Sighted) -> tuple[str, int, str, int]:
    return sighting.node, sighting.fact, sighting.subject, sighting.code


def _order(sighting: Sighted) -> tuple[object, ...]:
    return (*_fact_key(sighting), sighting.began_ns, *sighting)


def _joined(sightings: Sequence[Sighted], rejoin_ns: float) -> list[Episode]:
    """Return episodes from one fact's sightings, ordered by their beginning."""
    groups: list[list[Sighted]] = []
    reach = float("-inf")
    for sighting in sightings:
        if sighting.began_ns > reach:
            groups.append([])
            reach = float("-inf")
        groups[-1].append(sighting)
        ended = sighting.ended_ns >= sighting.seen_ns
        reach = max(reach, sighting.ended_ns if ended else sighting.seen_ns + rejoin_ns)
    return [_episode(group) for group in groups]


def _episode(group: Sequence[Sighted]) -> Episode:
    newest = max(group, key=lambda sighting: (sighting.seen_ns, sighting.text))
    seen_ns, ended = newest.seen_ns, max(sighting.ended_ns for sighting in group)
    with_job = max(
        group,
        key=lambda sighting: (bool(sighting.job), sighting.seen_ns, sighting.job, sighting.attempt),
    )
    return Episode(
        newest.node,
        NodeFact(newest.fact),
        newest.subject,
        newest.code,
        began_at=min(sighting.began_ns for sighting in group) / NANOSECONDS,
        seen_at=seen_ns / NANOSECONDS,
        ended_at=ended / NANOSECONDS if ended >= seen_ns else None,
        received_at=max(sighting.received_ns for sighting in group) / NANOSECONDS,
        times=max(sighting.times for sighting in group),
        text=newest.text,
        job=with_job.job,
        attempt=with_job.attempt,
    )

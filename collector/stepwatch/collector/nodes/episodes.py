"""From what agents found to when a node had which fact, and how often it was at fault. Pure.

An agent that is started anew finds again what is still there: both findings are one episode. An
end that was reported lies between two episodes, and so does a long time without any report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from stepwatch.collector.detect.node_fault.detector import action_of, severity_of, title
from stepwatch.collector.store.nodes import Sighted
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.node_facts import Action, Severity
from stepwatch.signals.records import NodeFact

from .limits import LIMITS, Limits

_KNOWN = frozenset(NodeFact)
"""A later version may have written others."""


class Episode(NamedTuple):
    """A fact of a node from its beginning to its end, in Unix seconds by the node's clock.

    `ended_at` is None where no end was reported: it lasts, or its agent ended before. `received_at`
    is when a collector learned of it last. `times` is how often it was found, at least. `job` is
    one that ran there then, empty where none did.
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
        """How bad it is by itself."""
        return severity_of(self)

    @property
    def action(self) -> Action:
        """What to do about it."""
        return action_of(self)

    @property
    def title(self) -> str:
        """It in few words."""
        return title(self)

    @property
    def over_at(self) -> float:
        """When it was over, as far as that is known: when it was seen last if nothing else is."""
        return self.seen_at if self.ended_at is None else self.ended_at


def episodes(sighted: Iterable[Sighted], limits: Limits = LIMITS) -> list[Episode]:
    """Episodes of any nodes, the newest first; the order of `sighted` does not matter.

    An agent saw XID 79 from 100 s to 130 s and was killed, the next one from 150 s to its end at
    190 s, a third one from 5000 s on: episodes from 5000 s on, and from 100 s to 190 s.
    """
    joined: list[Episode] = []
    sightings = {sighting for sighting in sighted if sighting.fact in _KNOWN}
    for _, group in groupby(sorted(sightings, key=_order), key=_fact_key):
        joined += _joined(list(group), limits.rejoin_seconds * NANOSECONDS)
    return sorted(joined, key=lambda episode: (-episode.began_at, *episode))


def faults(of_one_node: Iterable[Episode], since_s: float, limits: Limits = LIMITS) -> int:
    """How many separate faults a node had that lasted beyond a Unix time.

    What it had at once, or one soon after the other, is one fault: a device that is lost reports
    several XID errors. Evidence is none.
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
    """Episodes of what was found of one fact, in the order in which it began."""
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

"""Node health from current faults and the last report. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from stepwatch.collector.quantities import seconds
from stepwatch.signals.node_facts.actions import Action
from stepwatch.signals.node_facts.catalogue import Severity
from stepwatch.signals.records import NodeFact

from .episodes import Episode
from .limits import LIMITS, Limits


class Health(StrEnum):
    """Health of a node or a part; a node without reports is unknown."""

    FAILED = "failed"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"
    HEALTHY = "healthy"


_BY_SEVERITY = {Severity.FATAL: Health.FAILED, Severity.DEGRADED: Health.DEGRADED}
_WORST_FIRST = (Severity.FATAL, Severity.DEGRADED, Severity.EVIDENCE)


class State(NamedTuple):
    """A node's health, reason, action, and start (Unix seconds, None if unknown).

    `facts` are the present ones, worst first; for a stale node, the last known ones.
    """

    health: Health
    reason: str
    action: Action
    since_at: float | None
    facts: tuple[Episode, ...] = ()


def present(
    of_node: Collection[Episode], received_at: float, limits: Limits = LIMITS
) -> list[Episode]:
    """Return the facts that held at the node's last report, worst and newest first.

    Agents repeat a lasting fact in every report. A fact that was not repeated after its agent's
    restart is over, even without a reported end.
    """
    lasting = [
        episode
        for episode in of_node
        if episode.ended_at is None and received_at - episode.received_at <= limits.silent_seconds
    ]
    return sorted(
        lasting,
        key=lambda episode: (_WORST_FIRST.index(episode.severity), -episode.began_at, episode),
    )


def state_of(
    of_node: Collection[Episode], received_at: float, now_s: float, limits: Limits = LIMITS
) -> State:
    """Return a node's state; `received_at` is its last report (Unix seconds, 0 without any)."""
    if not received_at:
        why = "its agent sends no report of the node; upgrade the agent"
        return State(Health.UNKNOWN, why, Action.NONE, None)
    facts = tuple(present(of_node, received_at, limits))
    silent = now_s - received_at
    if silent > limits.silent_seconds:
        return _stale(facts, received_at, silent)
    return _reporting(facts, received_at)


def part_state(of_part: Sequence[Episode], node: State) -> tuple[Health, Action]:
    """Return a part's health from its own facts; unknown if the node or the part is unknown."""
    if node.health is Health.UNKNOWN:
        return Health.UNKNOWN, Action.NONE
    now = [episode for episode in node.facts if episode in of_part]
    worst = next((episode for episode in now if episode.severity in _BY_SEVERITY), None)
    if worst is not None:
        return _BY_SEVERITY[worst.severity], worst.action
    unread = any(episode.fact is NodeFact.SOURCE_UNREAD for episode in now)
    return Health.UNKNOWN if unread else Health.HEALTHY, Action.NONE


def _reporting(facts: tuple[Episode, ...], received_at: float) -> State:
    bad = [episode for episode in facts if episode.severity in _BY_SEVERITY]
    if bad:
        health = _BY_SEVERITY[bad[0].severity]
        return State(health, _words(bad), bad[0].action, _since(bad, health), facts)
    unread = [episode for episode in facts if episode.fact is NodeFact.SOURCE_UNREAD]
    if unread:
        why = ", ".join(f"{episode.subject} cannot be read: {episode.text}" for episode in unread)
        since = min(episode.began_at for episode in unread)
        return State(Health.UNKNOWN, why, Action.NONE, since, facts)
    return State(Health.HEALTHY, "no fault", Action.NONE, None, facts)


def _stale(facts: tuple[Episode, ...], received_at: float, silent: float) -> State:
    why = f"no report for {seconds(silent)}: is the node up, and its agent?"
    bad = [episode for episode in facts if episode.severity in _BY_SEVERITY]
    if bad:
        why = f"{why} It was {_BY_SEVERITY[bad[0].severity]} then: {_words(bad)}"
    action = bad[0].action if bad else Action.NONE
    return State(Health.UNKNOWN, why, action, received_at, facts)


def _words(bad: Sequence[Episode]) -> str:
    first, more = bad[0], len(bad) - 1
    words = named(first)
    return f"{words} and {more} more" if more else words


def named(episode: Episode) -> str:
    """Return a fact's title with its affected part."""
    return f"{episode.title} ({episode.subject})" if episode.subject else episode.title


def _since(bad: Sequence[Episode], health: Health) -> float:
    return min(episode.began_at for episode in bad if _BY_SEVERITY[episode.severity] is health)

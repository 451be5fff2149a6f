"""Node documents for the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepwatch.collector.nodes.episodes import Episode, faults
from stepwatch.collector.nodes.fleet import Fleet, Node
from stepwatch.collector.nodes.health import Health, part_state
from stepwatch.collector.web.schema.nodes import (
    NodeAnswer,
    NodeFact,
    NodeLine,
    NodePart,
    NodesAnswer,
)
from stepwatch.signals.node_facts.catalogue import CATALOGUE

MOST_NODES = 500
"""Maximum number of nodes per answer; `next` leads to the others."""
MOST_EPISODES = 200
"""Maximum number of episodes shown per node, newest first."""


_WORST_FIRST = (Health.FAILED, Health.DEGRADED, Health.UNKNOWN, Health.HEALTHY)


class Selection(NamedTuple):
    """Selects nodes in one of `states`, with names after `after_name`, at most `limit`.

    They are ordered by name, or by health with the worst first.
    """

    states: frozenset[Health] = frozenset(Health)
    after_name: str = ""
    limit: int = MOST_NODES
    is_worst_first: bool = False


def selection_of(query: Mapping[str, str]) -> Selection:
    """Return the selection in a request's parameters.

    Raises:
        ValueError: a parameter is invalid.
    """
    states = frozenset(Health)
    if query.get("unhealthy", "0") != "0":
        states -= {Health.HEALTHY}
    if "health" in query:
        if query["health"] not in set(Health):
            raise ValueError(f"health must be one of {', '.join(Health)}")
        states &= {Health(query["health"])}
    limit = query.get("limit", str(MOST_NODES))
    if not (limit.isascii() and limit.isdigit()) or not 0 < int(limit) <= MOST_NODES:
        raise ValueError(f"limit must be a number from 1 to {MOST_NODES}")
    is_worst_first = query.get("worst_first", "0") != "0"
    if is_worst_first and "after" in query:
        raise ValueError("after continues a list by name: it goes without worst_first")
    return Selection(states, query.get("after", ""), int(limit), is_worst_first)


def nodes_document(fleet: Fleet, selection: Selection) -> NodesAnswer:
    """Return the selected nodes; the counts cover all nodes."""
    nodes = [
        node
        for name, node in sorted(fleet.nodes.items())
        if name > selection.after_name and node.state.health in selection.states
    ]
    if selection.is_worst_first:
        nodes.sort(key=lambda node: _WORST_FIRST.index(node.state.health))
    page, counts = nodes[: selection.limit], fleet.counts()
    is_cut = len(nodes) > len(page) > 0
    return {
        "nodes": [line(node) for node in page],
        "counts": {
            "failed": counts[Health.FAILED],
            "degraded": counts[Health.DEGRADED],
            "unknown": counts[Health.UNKNOWN],
            "healthy": counts[Health.HEALTHY],
        },
        "together": [
            {
                "fact": CATALOGUE[shared.fact].name,
                "code": shared.code if shared.code >= 0 else None,
                "nodes": list(shared.nodes),
                "reporting": shared.reporting,
                "summary": shared.summary,
            }
            for shared in fleet.shared
        ],
        "next": page[-1].name if is_cut and not selection.is_worst_first else None,
        "history_cut": fleet.is_cut,
    }


def line(node: Node) -> NodeLine:
    """Return one node: its state, reason, action, and fault counts."""
    state = node.state
    return {
        "node": node.name,
        "health": str(state.health),
        "reason": state.reason,
        "action": str(state.action),
        "since": state.since_at,
        "last_report": node.received_at,
        "agent_version": node.version or None,
        "facts": [fact(episode) for episode in state.facts],
        "faults_7d": node.faults_week,
        "faults_30d": node.faults_month,
        "jobs_30d": node.jobs_month,
        "repeat_offender": node.is_offender(),
    }


def fact(episode: Episode) -> NodeFact:
    """Return one fact episode; times are Unix seconds by the node's clock."""
    return {
        "fact": CATALOGUE[episode.fact].name,
        "title": episode.title,
        "subject": episode.subject,
        "code": episode.code if episode.code >= 0 else None,
        "severity": str(episode.severity),
        "action": str(episode.action),
        "began": episode.began_at,
        "ended": episode.ended_at,
        "last_seen": episode.seen_at,
        "times": episode.times,
        "text": episode.text,
        "job": episode.job or None,
        "attempt": episode.attempt if episode.attempt >= 0 else None,
    }


def node_document(node: Node, history: Sequence[Episode]) -> NodeAnswer:
    """Return one node with its history, and each part that ever had a fault."""
    shown = history[:MOST_EPISODES]
    return {
        **line(node),
        "parts": [_part(subject, history, node) for subject in _subjects(history)],
        "history": [{**fact(episode), "present": episode in node.state.facts} for episode in shown],
        "history_left_out": len(history) - len(shown),
    }


def _subjects(history: Sequence[Episode]) -> list[str]:
    return sorted({episode.subject for episode in history if episode.subject})


def _part(subject: str, history: Sequence[Episode], node: Node) -> NodePart:
    episodes = [episode for episode in history if episode.subject == subject]
    health, action = part_state(episodes, node.state)
    return {
        "part": subject,
        "health": str(health),
        "action": str(action),
        "faults": faults(episodes, 0.0),
        "last_seen": max(episode.seen_at for episode in episodes),
    }

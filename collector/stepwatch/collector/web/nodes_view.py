"""Documents about nodes, as the API answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stepwatch.collector.nodes.episodes import Episode, faults
from stepwatch.collector.nodes.fleet import Fleet, Node
from stepwatch.collector.nodes.health import Health, part_state
from stepwatch.signals.node_facts import CATALOGUE

MOST_NODES = 500
"""Nodes of one answer, unless fewer are asked for; `next` leads to the others."""
MOST_EPISODES = 200
"""Episodes of a node that are shown, the newest."""
Document = dict[str, Any]


class Asked(NamedTuple):
    """Which nodes: those in one of `states`, by name behind `after`, at most `limit`."""

    states: frozenset[Health] = frozenset(Health)
    after: str = ""
    limit: int = MOST_NODES


def asked(query: Mapping[str, str]) -> Asked:
    """What the parameters of a request ask for.

    Raises:
        ValueError: one of them cannot be.
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
    return Asked(states, query.get("after", ""), int(limit))


def nodes_document(fleet: Fleet, asked: Asked) -> Document:
    """Nodes by name; counts are of all nodes, whichever are shown."""
    found = [
        node
        for name, node in sorted(fleet.nodes.items())
        if name > asked.after and node.state.health in asked.states
    ]
    page = found[: asked.limit]
    return {
        "nodes": [line(node) for node in page],
        "counts": {str(health): count for health, count in fleet.counts().items()},
        "together": [
            {
                "fact": CATALOGUE[each.fact].name,
                "code": each.code if each.code >= 0 else None,
                "nodes": list(each.nodes),
                "reporting": each.reporting,
                "summary": each.summary,
            }
            for each in fleet.shared
        ],
        "next": page[-1].name if len(found) > len(page) and page else None,
        "history_cut": fleet.is_cut,
    }


def line(node: Node) -> Document:
    """One node: its state, why, what to do, and how often it was at fault."""
    state = node.state
    return {
        "node": node.name,
        "health": str(state.health),
        "reason": state.reason,
        "action": str(state.action),
        "since": state.since_at,
        "last_report": node.received_at,
        "agent_version": node.version or None,
        "facts": [fact(each) for each in state.facts],
        "faults_7d": node.faults_week,
        "faults_30d": node.faults_month,
        "jobs_30d": node.jobs_month,
        "repeat_offender": node.is_offender(),
    }


def fact(each: Episode) -> Document:
    """One episode of a fact; moments are Unix seconds by the node's clock."""
    return {
        "fact": CATALOGUE[each.fact].name,
        "title": each.title,
        "subject": each.subject,
        "code": each.code if each.code >= 0 else None,
        "severity": str(each.severity),
        "action": str(each.action),
        "began": each.began_at,
        "ended": each.ended_at,
        "last_seen": each.seen_at,
        "times": each.times,
        "text": each.text,
        "job": each.job or None,
        "attempt": each.attempt if each.attempt >= 0 else None,
    }


def node_document(node: Node, history: Sequence[Episode]) -> Document:
    """One node with its history, and each part of it that ever was at fault."""
    shown = history[:MOST_EPISODES]
    return {
        **line(node),
        "parts": [_part(subject, history, node) for subject in _subjects(history)],
        "history": [{**fact(each), "present": each in node.state.facts} for each in shown],
        "history_left_out": len(history) - len(shown),
    }


def _subjects(history: Sequence[Episode]) -> list[str]:
    return sorted({each.subject for each in history if each.subject})


def _part(subject: str, history: Sequence[Episode], node: Node) -> Document:
    mine = [each for each in history if each.subject == subject]
    health, action = part_state(mine, node.state)
    return {
        "part": subject,
        "health": str(health),
        "action": str(action),
        "faults": faults(mine, 0.0),
        "last_seen": max(each.seen_at for each in mine),
    }

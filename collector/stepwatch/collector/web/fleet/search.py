"""Search over live jobs, nodes and recent incidents: by prefix first, then by any part. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stepwatch.collector.nodes.fleet import Node
from stepwatch.collector.web.schema.job import JobLineAnswer
from stepwatch.collector.web.schema.live import FoundIncident, FoundJob, FoundNode, SearchAnswer

MOST_FOUND = 20
"""Results of a kind."""
MOST_CHARACTERS = 100
"""Longest text to search for; names are shorter."""
_NOWHERE = 3


class Searched(NamedTuple):
    """The jobs, nodes and incidents to search, in the order of the results."""

    jobs: Iterable[JobLineAnswer]
    nodes: Iterable[Node]
    incidents: Iterable[Mapping[str, Any]]


def search(text: str, searched: Searched) -> SearchAnswer:
    """Return the jobs, nodes and incidents with a text: equal names first, then prefixes."""
    wanted = text.strip().casefold()
    jobs = [(_place(wanted, line["job"], line["project"]), line) for line in searched.jobs]
    nodes = [(_place(wanted, node.name), node) for node in searched.nodes]
    incidents = [
        (_place(wanted, *(incident.get(name) for name in _FIELDS)), incident)
        for incident in searched.incidents
    ]
    return {
        "jobs": [_job(line) for line in _best(jobs)],
        "nodes": [_node(node) for node in _best(nodes)],
        "incidents": [_incident(incident) for incident in _best(incidents)],
    }


_FIELDS = ("id", "summary", "job", "node", "kind")


def _place(wanted: str, *texts: str | None) -> int:
    """Return 0 for an equal text, 1 for a prefix, 2 for another part, and 3 without a match."""
    places = [_NOWHERE]
    for text in texts:
        folded = (text or "").casefold()
        if wanted in folded:
            places.append(0 if folded == wanted else 1 if folded.startswith(wanted) else 2)
    return min(places)


def _best(placed: list[tuple[int, Any]]) -> list[Any]:
    matches = [entry for entry in placed if entry[0] < _NOWHERE]
    return [item for _, item in sorted(matches, key=lambda entry: entry[0])[:MOST_FOUND]]


def _job(line: JobLineAnswer) -> FoundJob:
    worst, step = line["worst"], line["step"]
    words = worst["summary"] if worst else line["reason"] or ""
    words = words or ("no step yet" if step is None else f"step {step}")
    return {"name": line["job"], "words": words, "state": line["state"]}


def _node(node: Node) -> FoundNode:
    return {"name": node.name, "words": node.state.reason, "state": str(node.state.health)}


def _incident(incident: Mapping[str, Any]) -> FoundIncident:
    return {
        "id": str(incident["id"]),
        "words": f"{incident.get('job', '')}: {incident.get('summary', '')}",
        "state": str(incident.get("state", "")),
    }

"""What a collector's answers say about an item: a state, and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

PASS, WARN, FAIL, UNKNOWN, ASK = "PASS", "WARN", "FAIL", "UNKNOWN", "ASK"
_OF_SLO = {"ok": PASS, "burning": WARN, "exhausted": FAIL}
_OF_NODE = {"healthy": PASS, "degraded": WARN, "failed": FAIL}
_WORST_FIRST = (FAIL, UNKNOWN, WARN, PASS)

Asking = Callable[[str], Any]
"""Takes a path of the API and returns its JSON."""


class Outcome(NamedTuple):
    """State of an item and its evidence, in one line."""

    state: str
    evidence: str


def jobs(ask: Asking, job: str) -> Outcome:
    """Pass where every job runs; unknown where there is none."""
    found = _jobs(ask, job)
    states = [(each["job"], PASS if each["state"] == "running" else UNKNOWN) for each in found]
    return _worst(states, [f"{each['job']} is {each['state']}" for each in found], "no such job")


def incidents(ask: Asking, job: str) -> Outcome:
    """Fail where an incident is open; unknown where no job could have one."""
    if not _jobs(ask, job):
        return Outcome(UNKNOWN, "no such job, so nothing could be found")
    found = [
        each
        for each in ask("/v1/incidents")["incidents"]
        if each["state"] == "open" and job in ("", each["job"])
    ]
    said = ", ".join(f"{each['id']} ({each['kind']}, {each['job']})" for each in found)
    return Outcome(FAIL, said) if found else Outcome(PASS, "none is open")


def slos(ask: Asking, job: str) -> Outcome:
    """Fail where a budget is spent; a state that is neither good nor bad is unknown."""
    found = [(each["job"], slo) for each in _jobs(ask, job) for slo in each.get("slos") or []]
    states = [(name, _OF_SLO.get(slo["state"], UNKNOWN)) for name, slo in found]
    said = [f"{name} {slo['name']} is {slo['state']}" for name, slo in found]
    return _worst(states, said, "no SLO is evaluated")


def nodes(ask: Asking, job: str) -> Outcome:
    """Fail where a node failed, of all nodes: the collector keeps their health apart from jobs."""
    counts = {name: n for name, n in ask("/v1/nodes")["counts"].items() if n}
    states = [(name, _OF_NODE.get(name, UNKNOWN)) for name in counts]
    return _worst(states, [f"{n} {name}" for name, n in counts.items()], "no node is known")


CHECKS: dict[str, Callable[[Asking, str], Outcome]] = {
    "jobs": jobs,
    "incidents": incidents,
    "slos": slos,
    "nodes": nodes,
}
"""Checks by the name that an item gives."""


def _jobs(ask: Asking, job: str) -> list[dict[str, Any]]:
    return [each for each in ask("/v1/jobs")["jobs"] if job in ("", each["job"])]


def _worst(states: list[tuple[str, str]], said: list[str], none: str) -> Outcome:
    """The worst state with what was said of those in it; unknown with `none` where all is empty."""
    for worst in _WORST_FIRST:
        shown = [text for (_, state), text in zip(states, said, strict=True) if state == worst]
        if shown:
            return Outcome(worst, ", ".join(shown))
    return Outcome(UNKNOWN, none)

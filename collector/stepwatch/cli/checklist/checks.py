"""Evaluate a checklist item from the collector's answers: its state and the evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.cli.fleet import all_nodes
from stepwatch.cli.response.words import in_short
from stepwatch.collector.job_states import GOING_ON

PASS, WARN, FAIL, UNKNOWN, ASK = "PASS", "WARN", "FAIL", "UNKNOWN", "ASK"
_OF_SLO = {"ok": PASS, "burning": WARN, "exhausted": FAIL}
_OF_NODE = {"healthy": PASS, "degraded": WARN, "failed": FAIL}
_MOST_JOBS, _MOST_NAMED = 50, 5
"""Most jobs that are requested one by one, and most names in one line."""
_WORST_FIRST = (FAIL, UNKNOWN, WARN, PASS)

Asking = Callable[..., Any]
"""Takes an API path, and its query as keywords; returns the JSON."""


class Outcome(NamedTuple):
    """An item's state and its evidence, in one line."""

    state: str
    evidence: str


def jobs(ask: Asking, job: str) -> Outcome:
    """Pass if every job runs; unknown without a job."""
    rows = _jobs(ask, job)
    states = [(row["job"], PASS if row["state"] in GOING_ON else UNKNOWN) for row in rows]
    return _worst(states, [f"{row['job']} is {row['state']}" for row in rows], "no such job")


def incidents(ask: Asking, job: str) -> Outcome:
    """Fail if an incident is open; unknown without a job that could have one."""
    if not _jobs(ask, job):
        return Outcome(UNKNOWN, "no such job, so nothing could be found")
    opened = _open(ask, job)
    evidence = [f"{incident['id']} ({incident['kind']}, {incident['job']})" for incident in opened]
    return Outcome(FAIL, _in_short(evidence)) if opened else Outcome(PASS, "none is open")


def slos(ask: Asking, job: str) -> Outcome:
    """Fail if a budget is spent; unknown for a state that is neither good nor bad."""
    job_slos = [(row["job"], slo) for row in _jobs(ask, job) for slo in row.get("slos") or []]
    states = [(name, _OF_SLO.get(slo["state"], UNKNOWN)) for name, slo in job_slos]
    evidence = [f"{name} {slo['name']} is {slo['state']}" for name, slo in job_slos]
    return _worst(states, evidence, "no SLO is evaluated")


def nodes(ask: Asking, job: str) -> Outcome:
    """Fail if any node has failed; the collector stores node health independent of jobs."""
    counts = {name: n for name, n in ask("/v1/nodes")["counts"].items() if n}
    states = [(name, _OF_NODE.get(name, UNKNOWN)) for name in counts]
    return _worst(states, [f"{n} {name}" for name, n in counts.items()], "no node is known")


def checkpoints(ask: Asking, job: str) -> Outcome:
    """Pass if the newest checkpoint verified in every running job; fail if one did not."""
    running = [row["job"] for row in _jobs(ask, job) if row["state"] in GOING_ON]
    documents = [(name, ask(f"/v1/jobs/{name}")) for name in running[:_MOST_JOBS]]
    states: list[tuple[str, str]] = []
    evidence: list[str] = []
    for name, document in documents:
        checkpoint_rows = document.get("checkpoints") or []
        newest = max(checkpoint_rows, key=lambda checkpoint: int(checkpoint["step"]), default=None)
        verified = None if newest is None else newest["verified"]
        states.append((name, {True: PASS, False: FAIL, None: UNKNOWN}[verified]))
        word = {True: "verified", False: "did not verify", None: "is not verified"}[verified]
        text = "has no checkpoint" if newest is None else f"that of step {newest['step']} {word}"
        evidence.append(f"{name}: {text}, now at step {document.get('step')}")
    _note_unasked(len(running), states, evidence)
    return _worst(states, evidence, "no job runs")


def detectors(ask: Asking, job: str) -> Outcome:
    """Fail if a detector is not active in a job; unknown if a job's answer is stale."""
    rows = _jobs(ask, job)
    documents = [ask(f"/v1/jobs/{row['job']}") for row in rows[:_MOST_JOBS]]
    states: list[tuple[str, str]] = []
    evidence: list[str] = []
    for document in documents:
        unlooked = sorted(document.get("not_looked_for") or {})
        state = FAIL if unlooked else UNKNOWN if document.get("stale") else PASS
        states.append((document["job"], state))
        text = f"{', '.join(unlooked)} is not looked for" if unlooked else "all is looked for"
        evidence.append(
            f"{document['job']}: {'its answer is old' if document.get('stale') else text}"
        )
    _note_unasked(len(rows), states, evidence)
    return _worst(states, evidence, "no such job")


def responders(ask: Asking, job: str) -> Outcome:
    """Fail if an open incident that pages has no acknowledgement or no owner."""
    if not _jobs(ask, job):
        return Outcome(UNKNOWN, "no such job, so nothing could be found")
    opened = [incident for incident in _open(ask, job) if incident.get("severity") != "info"]
    unowned = [
        incident["id"]
        for incident in opened
        if not (
            (incident.get("response") or {}).get("acknowledged") and incident["response"]["owner"]
        )
    ]
    if unowned:
        return Outcome(FAIL, f"without an owner: {_in_short(unowned)}")
    return Outcome(PASS, f"{len(opened)} open, each with an owner" if opened else "none is open")


def owners(ask: Asking, job: str) -> Outcome:
    """Warn if a closed incident never had an owner, so that no follow-up is assigned."""
    closed = [
        incident
        for incident in ask("/v1/incidents")["incidents"]
        if incident["state"] in ("resolved", "ended")
        and job in ("", incident["job"])
        and incident.get("severity") != "info"
    ]
    unowned = [
        incident["id"] for incident in closed if not (incident.get("response") or {}).get("owner")
    ]
    if unowned:
        return Outcome(WARN, f"{len(unowned)} of {len(closed)} have none: {_in_short(unowned)}")
    return Outcome(PASS, f"{len(closed)} incidents" if closed else "no incident is over")


def silences(ask: Asking, job: str) -> Outcome:
    """Warn about each active silence, with its name: it may have been forgotten."""
    active = [silence for silence in ask("/v1/silences")["silences"] if job in ("", silence["job"])]
    evidence = [
        f"{silence['id']} of "
        f"{next(filter(None, (silence['job'], silence['node'], silence['kind'])))} "
        f"by {silence['by']}, {in_short(max(silence['until'] - time.time(), 0.0))} left"
        for silence in active
    ]
    return Outcome(WARN, _in_short(evidence)) if active else Outcome(PASS, "none is in force")


def offenders(ask: Asking, job: str) -> Outcome:
    """Warn about nodes that were at fault repeatedly."""
    answer = all_nodes(ask)
    repeat_offenders = [node["node"] for node in answer["nodes"] if node["repeat_offender"]]
    if repeat_offenders:
        return Outcome(WARN, _in_short(repeat_offenders))
    if not answer["nodes"]:
        return Outcome(UNKNOWN, "no node is known")
    if answer["history_cut"]:
        return Outcome(UNKNOWN, "there are more faults than are read at once")
    return Outcome(PASS, "none is")


CHECKS: dict[str, Callable[[Asking, str], Outcome]] = {
    "jobs": jobs,
    "incidents": incidents,
    "slos": slos,
    "nodes": nodes,
    "checkpoints": checkpoints,
    "detectors": detectors,
    "responders": responders,
    "owners": owners,
    "silences": silences,
    "offenders": offenders,
}
"""Checks by the name in an item's `check`."""


def _open(ask: Asking, job: str) -> list[dict[str, Any]]:
    # Without `state` the answer holds the newest incidents in any state and may omit an old one
    # that is open.
    rows = ask("/v1/incidents", state="open")["incidents"]
    return [row for row in rows if row["state"] == "open" and job in ("", row["job"])]


def _jobs(ask: Asking, job: str) -> list[dict[str, Any]]:
    return [row for row in ask("/v1/jobs")["jobs"] if job in ("", row["job"])]


def _worst(states: list[tuple[str, str]], evidence: list[str], empty_text: str) -> Outcome:
    """Return the worst state and its evidence; unknown with `empty_text` if there is no state."""
    for worst in _WORST_FIRST:
        shown = [text for (_, state), text in zip(states, evidence, strict=True) if state == worst]
        if shown:
            return Outcome(worst, _in_short(shown))
    return Outcome(UNKNOWN, empty_text)


def _in_short(evidence: list[str]) -> str:
    """Return the first few entries, and the number of the others."""
    more = len(evidence) - _MOST_NAMED
    return ", ".join(evidence[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _note_unasked(count: int, states: list[tuple[str, str]], evidence: list[str]) -> None:
    """Add an unknown state if there are more jobs than are requested, so the item cannot pass."""
    if count > _MOST_JOBS:
        states.append(("", UNKNOWN))
        evidence.append(
            f"{count - _MOST_JOBS} further jobs were not asked for; name one with --job"
        )

"""What a collector's answers say about an item: a state, and the evidence for it."""

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
"""Jobs that are asked for one by one, and things that a line names."""
_WORST_FIRST = (FAIL, UNKNOWN, WARN, PASS)

Asking = Callable[..., Any]
"""Takes a path of the API, and its query as keywords; returns its JSON."""


class Outcome(NamedTuple):
    """State of an item and its evidence, in one line."""

    state: str
    evidence: str


def jobs(ask: Asking, job: str) -> Outcome:
    """Pass where every job runs; unknown where there is none."""
    found = _jobs(ask, job)
    states = [(each["job"], PASS if each["state"] in GOING_ON else UNKNOWN) for each in found]
    return _worst(states, [f"{each['job']} is {each['state']}" for each in found], "no such job")


def incidents(ask: Asking, job: str) -> Outcome:
    """Fail where an incident is open; unknown where no job could have one."""
    if not _jobs(ask, job):
        return Outcome(UNKNOWN, "no such job, so nothing could be found")
    found = _open(ask, job)
    said = [f"{each['id']} ({each['kind']}, {each['job']})" for each in found]
    return Outcome(FAIL, _in_short(said)) if found else Outcome(PASS, "none is open")


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


def checkpoints(ask: Asking, job: str) -> Outcome:
    """Pass where the newest checkpoint of every job that runs verified; fail where it did not."""
    running = [each["job"] for each in _jobs(ask, job) if each["state"] in GOING_ON]
    found = [(name, ask(f"/v1/jobs/{name}")) for name in running[:_MOST_JOBS]]
    states: list[tuple[str, str]] = []
    said: list[str] = []
    for name, document in found:
        known = document.get("checkpoints") or []
        newest = max(known, key=lambda each: int(each["step"]), default=None)
        verified = None if newest is None else newest["verified"]
        states.append((name, {True: PASS, False: FAIL, None: UNKNOWN}[verified]))
        word = {True: "verified", False: "did not verify", None: "is not verified"}[verified]
        what = "has no checkpoint" if newest is None else f"that of step {newest['step']} {word}"
        said.append(f"{name}: {what}, now at step {document.get('step')}")
    _note_unasked(len(running), states, said)
    return _worst(states, said, "no job runs")


def detectors(ask: Asking, job: str) -> Outcome:
    """Fail where something is not looked for in a job, unknown where a job's answer is old."""
    known = _jobs(ask, job)
    found = [ask(f"/v1/jobs/{each['job']}") for each in known[:_MOST_JOBS]]
    states: list[tuple[str, str]] = []
    said: list[str] = []
    for each in found:
        unlooked = sorted(each.get("not_looked_for") or {})
        state = FAIL if unlooked else UNKNOWN if each.get("stale") else PASS
        states.append((each["job"], state))
        what = f"{', '.join(unlooked)} is not looked for" if unlooked else "all is looked for"
        said.append(f"{each['job']}: {'its answer is old' if each.get('stale') else what}")
    _note_unasked(len(known), states, said)
    return _worst(states, said, "no such job")


def responders(ask: Asking, job: str) -> Outcome:
    """Fail where an open incident that pages is not acknowledged, or owned by nobody."""
    if not _jobs(ask, job):
        return Outcome(UNKNOWN, "no such job, so nothing could be found")
    found = [each for each in _open(ask, job) if each.get("severity") != "info"]
    alone = [
        each["id"]
        for each in found
        if not ((each.get("response") or {}).get("acknowledged") and each["response"]["owner"])
    ]
    if alone:
        return Outcome(FAIL, f"no one acknowledged and owns {_in_short(alone)}")
    return Outcome(PASS, f"{len(found)} open, each with an owner" if found else "none is open")


def owners(ask: Asking, job: str) -> Outcome:
    """Warn where an incident that is over never had an owner: nobody follows it up."""
    over = [
        each
        for each in ask("/v1/incidents")["incidents"]
        if each["state"] in ("resolved", "ended")
        and job in ("", each["job"])
        and each.get("severity") != "info"
    ]
    alone = [each["id"] for each in over if not (each.get("response") or {}).get("owner")]
    if alone:
        return Outcome(WARN, f"{len(alone)} of {len(over)} have none: {_in_short(alone)}")
    return Outcome(PASS, f"{len(over)} incidents" if over else "no incident is over")


def silences(ask: Asking, job: str) -> Outcome:
    """Warn where a silence keeps pages back now, and name it: it may have been forgotten."""
    found = [each for each in ask("/v1/silences")["silences"] if job in ("", each["job"])]
    said = [
        f"{each['id']} of {next(filter(None, (each['job'], each['node'], each['kind'])))} "
        f"by {each['by']}, {in_short(max(each['until'] - time.time(), 0.0))} left"
        for each in found
    ]
    return Outcome(WARN, _in_short(said)) if found else Outcome(PASS, "none is in force")


def offenders(ask: Asking, job: str) -> Outcome:
    """Warn where a node was at fault again and again."""
    answer = all_nodes(ask)
    again = [each["node"] for each in answer["nodes"] if each["repeat_offender"]]
    if again:
        return Outcome(WARN, _in_short(again))
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
"""Checks by the name that an item gives."""


def _open(ask: Asking, job: str) -> list[dict[str, Any]]:
    # Without the state the newest of any would come, and an old one that is open may be left out.
    found = ask("/v1/incidents", state="open")["incidents"]
    return [each for each in found if each["state"] == "open" and job in ("", each["job"])]


def _jobs(ask: Asking, job: str) -> list[dict[str, Any]]:
    return [each for each in ask("/v1/jobs")["jobs"] if job in ("", each["job"])]


def _worst(states: list[tuple[str, str]], said: list[str], none: str) -> Outcome:
    """The worst state with what was said of those in it; unknown with `none` where all is empty."""
    for worst in _WORST_FIRST:
        shown = [text for (_, state), text in zip(states, said, strict=True) if state == worst]
        if shown:
            return Outcome(worst, _in_short(shown))
    return Outcome(UNKNOWN, none)


def _in_short(said: list[str]) -> str:
    """The first few, and how many more there are."""
    more = len(said) - _MOST_NAMED
    return ", ".join(said[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _note_unasked(count: int, states: list[tuple[str, str]], said: list[str]) -> None:
    """Of jobs beyond the most that are asked for nothing is known, so all is not well."""
    if count > _MOST_JOBS:
        states.append(("", UNKNOWN))
        said.append(f"{count - _MOST_JOBS} further jobs were not asked for; name one with --job")

"""Incidents: findings with a life. Pure: the old incidents and the new findings give the new ones.

open ──▶ resolved      the finding has stayed away for `RESOLVE_AFTER_SECONDS`
     ──▶ ended         the job, or the attempt it is about, ended while the incident was open
resolved ──▶ open      the finding is back within `REOPEN_WITHIN_SECONDS`, or is the very same one
While telemetry is lost, incidents about the ranks neither open nor resolve.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stepwatch.collector.detect.finding import Finding
from stepwatch.signals.names import ALERT_OF, FindingKind

OPEN, RESOLVED, ENDED = "open", "resolved", "ended"
UNKNOWN_NODE = "unknown"
RESOLVE_AFTER_SECONDS = 15.0
REOPEN_WITHIN_SECONDS = 300.0
"""A finding that comes back this soon reopens its incident instead of opening another."""
MAX_TIMELINE = 200


@dataclass(frozen=True)
class Incident:
    """One cause and its story. Times are Unix seconds; `detected_after_seconds` runs from the
    beginning of the trouble to the finding; impact counts device-seconds lost while open.
    """

    id: str
    key: str
    kind: str
    job: str
    attempt: int
    state: str
    rank: int
    node: str
    phase: str
    cause: str
    summary: str
    since_step: int
    began_at: float
    opened_at: float
    last_seen_at: float
    resolved_at: float | None
    detected_after_seconds: float
    slowdown_ratio: float | None
    throughput_lost_ratio: float | None
    device_seconds_lost: float
    alert: str
    runbook: str
    evidence: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The incident as JSON holds it: a number that is not finite becomes null."""
        document: dict[str, Any] = _finite(asdict(self))
        return document


_RUNBOOK_KEYS = ("job", "attempt", "rank", "node", "phase", "cause", "since_step")


def runbook_values(document: dict[str, Any]) -> dict[str, str]:
    """What an incident fills into its runbook; what is not known is left out, to stay visible."""
    values = {key: str(document[key]) for key in _RUNBOOK_KEYS}
    if document["rank"] < 0:
        del values["rank"]
    if document["node"] == UNKNOWN_NODE:
        del values["node"]
    return {**values, "incident": str(document["id"])}


def incident_from(document: dict[str, Any]) -> Incident:
    """Read `document()` back."""
    return Incident(**document)


@dataclass(frozen=True)
class Moment:
    """When and about what findings were made: `now` in Unix seconds, `newest` the wall time of the
    newest record, `nodes` by rank, `devices` the job's size, `frozen` while telemetry is lost.
    """

    job: str
    attempt: int
    now: float
    newest: float
    nodes: dict[int, str]
    devices: int
    frozen: bool = False
    ended: bool = False


def advance(
    known: Iterable[Incident], findings: Iterable[Finding], moment: Moment
) -> list[Incident]:
    """The incidents that are new or changed."""
    by_key: dict[str, Incident] = {}
    by_id: dict[str, Incident] = {}
    for incident in sorted(known, key=lambda incident: incident.opened_at):
        by_key[incident.key] = by_id[incident.id] = incident
    changed: list[Incident] = []
    seen: set[str] = set()
    for finding in findings:
        key = _key(moment, finding)
        if key in seen or (moment.frozen and finding.kind is not FindingKind.TELEMETRY_LOST):
            continue
        seen.add(key)
        before = by_key.get(key)
        if before is None or not _continues(before, moment):
            fresh = _opened(key, finding, moment)
            before = by_id.get(fresh.id)
            if before is None:
                changed.append(fresh)
                continue
        changed.append(_seen_again(before, finding, moment))
    for incident in by_key.values():
        if incident.state == OPEN and incident.key not in seen:
            changed.extend(_without_finding(incident, moment))
    return changed


def _key(moment: Moment, finding: Finding) -> str:
    subject = f"/{finding.subject}" if finding.subject else ""
    return f"{moment.job}/{moment.attempt}/{finding.kind.value}/{finding.rank}{subject}"


def _continues(incident: Incident, moment: Moment) -> bool:
    if incident.state == OPEN:
        return True
    recent = moment.now - (incident.resolved_at or 0.0) < REOPEN_WITHIN_SECONDS
    return incident.state == RESOLVED and recent


def _opened(key: str, finding: Finding, moment: Moment) -> Incident:
    ago = 0.0 if math.isnan(finding.began_ago_seconds) else finding.began_ago_seconds
    newest = moment.newest if finding.kind is FindingKind.STRAGGLER else moment.now
    began = min(newest - ago, moment.now)
    identity = f"{key}/{finding.began_step}/{int(began)}"
    incident = Incident(
        id=hashlib.sha256(identity.encode()).hexdigest()[:12],
        key=key,
        kind=finding.kind.value,
        job=moment.job,
        attempt=moment.attempt,
        state=OPEN,
        rank=finding.rank,
        node=finding.node or moment.nodes.get(finding.rank, UNKNOWN_NODE),
        phase=finding.phase,
        cause=finding.cause.value,
        summary=finding.summary,
        since_step=finding.began_step,
        began_at=began,
        opened_at=moment.now,
        last_seen_at=moment.now,
        resolved_at=None,
        detected_after_seconds=moment.now - began,
        slowdown_ratio=finding.ratio,
        throughput_lost_ratio=finding.lost_ratio,
        device_seconds_lost=0.0,
        alert=ALERT_OF[finding.kind],
        runbook=ALERT_OF[finding.kind],
        evidence=[item._asdict() for item in finding.evidence],
        timeline=[
            {"at": began, "event": "began", "text": f"step {finding.began_step}"},
            {"at": moment.now, "event": "opened", "text": finding.summary},
        ],
    )
    return replace(incident, device_seconds_lost=_lost(finding, moment, moment.now - began))


def _seen_again(incident: Incident, finding: Finding, moment: Moment) -> Incident:
    timeline = incident.timeline
    elapsed = max(0.0, moment.now - incident.last_seen_at)
    if incident.state != OPEN:
        timeline = _noted(timeline, moment.now, "reopened", finding.summary)
        ago = finding.began_ago_seconds  # the time in which it was away cost nothing
        elapsed = 0.0 if math.isnan(ago) else min(elapsed, max(0.0, ago))
    if incident.cause != finding.cause or incident.phase != finding.phase:
        text = f"{finding.cause} in {finding.phase}"
        timeline = _noted(timeline, moment.now, "cause changed", text)
    return replace(
        incident,
        state=OPEN,
        resolved_at=None,
        node=finding.node or incident.node,
        phase=finding.phase,
        cause=finding.cause.value,
        summary=finding.summary,
        last_seen_at=moment.now,
        slowdown_ratio=finding.ratio,
        throughput_lost_ratio=finding.lost_ratio,
        device_seconds_lost=incident.device_seconds_lost + _lost(finding, moment, elapsed),
        evidence=[item._asdict() for item in finding.evidence],
        timeline=timeline,
    )


def _without_finding(incident: Incident, moment: Moment) -> list[Incident]:
    """Nothing, or the incident in its new state."""
    if moment.ended or incident.attempt != moment.attempt:
        timeline = _noted(incident.timeline, moment.now, ENDED, "the attempt ended")
        return [replace(incident, state=ENDED, resolved_at=moment.now, timeline=timeline)]
    about_ranks = incident.kind != FindingKind.TELEMETRY_LOST.value
    if moment.frozen and about_ranks:
        return []
    if about_ranks and moment.now - incident.last_seen_at < RESOLVE_AFTER_SECONDS:
        return []
    timeline = _noted(incident.timeline, moment.now, RESOLVED, "no longer seen")
    return [replace(incident, state=RESOLVED, resolved_at=moment.now, timeline=timeline)]


def _lost(finding: Finding, moment: Moment, seconds: float) -> float:
    ratio = 0.0 if math.isnan(finding.lost_ratio) else finding.lost_ratio
    return ratio * seconds * moment.devices


def _noted(
    timeline: list[dict[str, Any]], at: float, event: str, text: str
) -> list[dict[str, Any]]:
    return [*timeline[: MAX_TIMELINE - 1], {"at": at, "event": event, "text": text}]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

"""The transitions of one incident: opened, seen again, without its finding, with new symptoms."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stepwatch.collector.detect.finding import LOST_SHARE, Confidence, Finding
from stepwatch.collector.incidents.changes_of_cause import causes_seen, keeps_reason, replaces_cause
from stepwatch.collector.incidents.cost import FLOOR
from stepwatch.collector.incidents.grouping import Group
from stepwatch.collector.incidents.model import Incident, Moment, key_of
from stepwatch.collector.incidents.states import ALERT, ENDED, INFO, OPEN, RESOLVED, UNKNOWN_NODE
from stepwatch.signals.names import ALERT_OF, FindingKind

RESOLVE_AFTER_SECONDS = 15.0
REOPENED = "reopened"
MOST_DOUBLINGS = 3
"""Maximum number of doublings of an incident's resolve time, one per reopening.

A repeating anomaly is one story, not two notices each time.
"""
STANDSTILL_OVER_SECONDS = 3.0
"""A standstill is over as soon as steps resume: no noise looks like one; another may come soon."""
_STANDSTILLS = (FindingKind.HANG.value, FindingKind.PAUSE.value)
MAX_TIMELINE = 200
MAX_SYMPTOMS = 32
"""Maximum number of symptoms kept in an incident, the ones seen last."""


def opened(key: str, finding: Finding, moment: Moment) -> Incident:
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
        subject=finding.subject,
        confidence=finding.confidence.value,
        **_now(finding, finding.began_step),
        severity=_severity(finding, INFO),
    )
    return replace(incident, **_lost_more(incident, finding.lost_ratio, moment, moment.now - began))


def seen_again(incident: Incident, finding: Finding, moment: Moment) -> Incident:
    timeline = incident.timeline
    elapsed = max(0.0, moment.now - incident.last_seen_at)
    if incident.state != OPEN:
        timeline = noted(timeline, moment.now, REOPENED, finding.summary)
        ago = finding.began_ago_seconds  # its absence cost nothing
        elapsed = 0.0 if math.isnan(ago) else min(elapsed, max(0.0, ago))
    as_opened = finding.kind in FLOOR.kept_as_opened
    cause_seconds = causes_seen(incident, finding, elapsed) if as_opened else incident.cause_seconds
    is_other_cause = incident.cause != finding.cause.value or incident.phase != finding.phase
    keeps = keeps_reason(incident, finding)
    changes = is_other_cause and (not as_opened or replaces_cause(incident, finding, cause_seconds))
    changes = changes and not keeps
    if changes:
        text = f"{finding.cause} in {finding.phase}"
        timeline = noted(timeline, moment.now, "cause changed", text)
    updates: dict[str, Any] = {}
    newest = not as_opened and not keeps
    if changes or newest or (not is_other_cause and _says_more(incident, finding)):
        updates = _stated_fields(finding, incident.since_step)
    return replace(
        incident,
        state=OPEN,
        attempt=moment.attempt,
        resolved_at=None,
        node=finding.node or incident.node,
        phase=finding.phase if changes else incident.phase,
        cause=finding.cause.value if changes else incident.cause,
        cause_seconds=cause_seconds,
        last_seen_at=moment.now,
        timeline=timeline,
        merged_into="",
        confidence=finding.confidence.value,
        severity=_severity(finding, incident.severity),
        **_lost_more(incident, finding.lost_lately, moment, elapsed),
        **updates,
        **_now(finding, incident.since_step),
    )


def _says_more(incident: Incident, finding: Finding) -> bool:
    """Return whether a finding with the same cause replaces the opening's words.

    It does if its node, its cost, or the candidate among several became known. Otherwise only
    numbers changed. A finding that no longer shows adds nothing.
    """
    if not finding.shows_now:
        return False
    measured = LOST_SHARE in [row["name"] for row in incident.evidence]
    has_equal_evidence = measured or LOST_SHARE not in [row.name for row in finding.evidence]
    one_of = Confidence.ONE_OF
    has_equal_evidence &= incident.confidence != one_of.value or finding.confidence is one_of
    return not has_equal_evidence or finding.node not in incident.summary


def _stated_fields(finding: Finding, since: int) -> dict[str, Any]:
    """Return the incident fields from a finding that began in step `since`."""
    return {
        "summary": dated_back(finding, since).summary,
        "slowdown_ratio": finding.ratio,
        "throughput_lost_ratio": finding.lost_ratio,
        "evidence": [item._asdict() for item in finding.evidence],
    }


def _now(finding: Finding, since: int) -> dict[str, Any]:
    return {
        "summary_now": dated_back(finding, since).summary,
        "slowdown_ratio_now": finding.ratio,
        "throughput_lost_ratio_now": finding.lost_lately,
    }


def _severity(finding: Finding, previous: str) -> str:
    """Return the severity; an incident that was worth an alert once stays so, to avoid flapping."""
    informs = previous == INFO and FLOOR.informs(finding)
    return INFO if informs else ALERT


def dated_back(finding: Finding, step: int) -> Finding:
    """Return `finding` dated to `step`, also in its summary: a detector's history is limited."""
    words = "since step {}"  # as in all detectors' summaries
    began, original = words.format(step), words.format(finding.began_step)
    return finding._replace(
        began_step=step, summary=re.sub(rf"\b{original}\b", began, finding.summary)
    )


def without_finding(incident: Incident, moment: Moment) -> list[Incident]:
    """Return nothing, or the incident in its new state."""
    if moment.ended or incident.attempt != moment.attempt:
        timeline = noted(incident.timeline, moment.now, ENDED, "the attempt ended")
        return [replace(incident, state=ENDED, resolved_at=moment.now, timeline=timeline)]
    about_ranks = incident.kind != FindingKind.TELEMETRY_LOST.value
    if about_ranks and (moment.frozen or moment.retained.covers(incident.kind, incident.rank)):
        return []
    standstill = incident.kind in _STANDSTILLS
    stays = STANDSTILL_OVER_SECONDS if standstill else _resolve_after(incident)
    if about_ranks and moment.absent_seconds(incident) < stays:
        return []
    timeline = noted(incident.timeline, moment.now, RESOLVED, "no longer seen")
    return [replace(incident, state=RESOLVED, resolved_at=moment.now, timeline=timeline)]


def _resolve_after(incident: Incident) -> float:
    """Return the seconds without a finding after which an incident resolves."""
    reopenings = sum(event["event"] == REOPENED for event in incident.timeline)
    return RESOLVE_AFTER_SECONDS * float(2 ** min(reopenings, MOST_DOUBLINGS))


def _lost(ratio: float, moment: Moment, seconds: float) -> float:
    return 0.0 if math.isnan(ratio) else max(0.0, ratio) * seconds * moment.devices


def _lost_more(incident: Incident, ratio: float, moment: Moment, seconds: float) -> dict[str, Any]:
    """Return an incident's loss up to now, in device-seconds and in money.

    The newest seconds count with the share `ratio`.
    """
    more, price = _lost(ratio, moment, seconds), moment.price
    lost: dict[str, Any] = {"device_seconds_lost": incident.device_seconds_lost + more}
    is_new = not incident.device_seconds_lost and incident.cost is None
    if price is None or not (is_new or price.currency == incident.currency):
        # Part of it has no price, or another currency: the sum is unknown.
        return lost if not more else {**lost, "cost": None, "currency": ""}
    cost = (incident.cost or 0.0) + more * price.money
    return {**lost, "cost": cost, "currency": price.currency}


def noted(
    timeline: list[dict[str, Any]], moment_s: float, event: str, text: str
) -> list[dict[str, Any]]:
    return [*timeline[: MAX_TIMELINE - 1], {"at": moment_s, "event": event, "text": text}]


def with_symptoms(incident: Incident, group: Group, moment: Moment) -> Incident:
    symptoms_by_key = {item["key"]: item for item in incident.symptoms}
    for finding in group.symptoms:
        key = key_of(moment, finding)
        symptoms_by_key[key] = _symptom(key, finding, symptoms_by_key.pop(key, {}), moment.now)
    symptoms = list(symptoms_by_key.values())[-MAX_SYMPTOMS:]
    return replace(incident, symptoms=symptoms)


def _symptom(key: str, finding: Finding, previous: Mapping[str, Any], now: float) -> dict[str, Any]:
    return {
        "key": key,
        "kind": finding.kind.value,
        "rank": finding.rank,
        "phase": finding.phase,
        "cause": finding.cause.value,
        "summary": finding.summary,
        "since_step": finding.began_step,
        "first_seen_at": previous.get("first_seen_at", now),
        "seen_at": now,
    }

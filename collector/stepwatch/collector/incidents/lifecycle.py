"""The lifecycle of incidents. Pure: old incidents and new findings give new incidents.

open ──▶ resolved      the finding has stayed away for `RESOLVE_AFTER_SECONDS`
     ──▶ ended         its job or attempt ended while the incident was open
     ──▶ merged        its cause was found later; `merged_into` names the cause's incident
resolved ──▶ open      the finding returns within `REOPEN_WITHIN_SECONDS`, or is the very same one
merged ──▶ open        the same, once the finding stays and its cause does not

Slowness that costs next to nothing opens no incident (`cost.toml`). A finding that another explains
(`grouping.toml`) is a symptom: it is grouped under its cause's incident and opens none. An open
incident explains its symptoms until it resolves. At the end of its attempt it explains none, and
may still be a symptom of the cause of that end. A lost node's incident stays open as long as the
node sends nothing. While telemetry is lost, incidents about the ranks neither open nor resolve; if
part of it is lost, this applies to incidents that need the missing part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from stepwatch.collector.detect.finding import Finding, build_finding
from stepwatch.collector.incidents.cost import costs_enough
from stepwatch.collector.incidents.grouping import Group, grouped, identity
from stepwatch.collector.incidents.model import Incident, Moment, key_of
from stepwatch.collector.incidents.states import MERGED, OPEN, RESOLVED
from stepwatch.collector.incidents.transitions import (
    RESOLVE_AFTER_SECONDS,
    dated_back,
    noted,
    opened,
    seen_again,
    with_symptoms,
    without_finding,
)
from stepwatch.signals.names import Cause, FindingKind

REOPEN_WITHIN_SECONDS = 300.0
"""A finding that returns this soon reopens its incident instead of opening another."""


def advance(
    previous: Iterable[Incident], findings: Iterable[Finding], moment: Moment
) -> list[Incident]:
    """Return the incidents that are new or changed."""
    incidents = _Incidents(previous, moment)
    usable = [finding for finding in findings if not _is_retained(finding, moment)]
    once = {identity(finding): finding for finding in reversed(usable)}
    current = [incidents.since_opening(finding) for finding in once.values()]
    groups = grouped(
        current,
        incidents.remembered(current),
        moment.nodes,
        incidents.open_since(),
        over=moment.ended,
    )
    for group in groups:
        if group.is_current and not costs_enough(group, is_open=incidents.is_open(group)):
            continue
        cause = (
            incidents.open_or_update(group)
            if group.is_current
            else incidents.by_key[key_of(moment, group.cause)]
        )
        incidents.put(with_symptoms(cause, group, moment))
        for symptom in group.symptoms:
            incidents.fold(key_of(moment, symptom), cause)
    for incident in list(incidents.by_key.values()):
        if incident.state == OPEN and incident.key not in incidents.handled:
            for resolved in without_finding(incident, moment):
                incidents.put(resolved)
    return list(incidents.changed.values())


class _Incidents:
    """A job's incidents during one evaluation; the newest per key counts."""

    def __init__(self, incidents: Iterable[Incident], moment: Moment) -> None:
        self.moment = moment
        self.by_key: dict[str, Incident] = {}
        self.by_id: dict[str, Incident] = {}
        self.changed: dict[str, Incident] = {}
        self.handled: set[str] = set()
        for incident in sorted(incidents, key=lambda incident: incident.opened_at):
            self.by_key[incident.key] = self.by_id[incident.id] = incident

    def put(self, incident: Incident) -> None:
        """Store an incident's new state."""
        self.by_key[incident.key] = self.by_id[incident.id] = incident
        self.handled.add(incident.key)
        self.changed[incident.id] = incident

    def since_opening(self, finding: Finding) -> Finding:
        """Return the finding, dated no later than its open incident.

        Steps beyond the detectors' history are known only in buckets of ten seconds.
        """
        item = self.by_key.get(key_of(self.moment, finding))
        if item is None or item.state != OPEN or not 0 <= item.since_step < finding.began_step:
            return finding
        return dated_back(finding, item.since_step)

    def open_since(self) -> dict[tuple[FindingKind, int, str], float]:
        """Return when each open incident of this attempt opened."""
        return {identity(_finding_of(item)): item.opened_at for item in self._open()}

    def remembered(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the subjects of this attempt's open incidents without a current finding."""
        found_keys = {key_of(self.moment, finding) for finding in findings}
        quiet = (item for item in self._open() if item.key not in found_keys)
        retained = self.moment.retained
        return [
            _finding_of(item)
            for item in quiet
            if self.moment.absent_seconds(item) < RESOLVE_AFTER_SECONDS
            or retained.covers(item.kind, item.rank)
            # The ranks that waited for a lost node end at a restart; the node stays lost.
            or item.cause == Cause.NODE_LOST.value
        ]

    def is_open(self, group: Group) -> bool:
        """Return whether the cause or one of its symptoms has an open incident."""
        keys = (key_of(self.moment, finding) for finding in (group.cause, *group.symptoms))
        return any(key in self.by_key and self.by_key[key].state == OPEN for key in keys)

    def open_or_update(self, group: Group) -> Incident:
        """Return the incident for a current cause, updated, or opened if none continues."""
        key = key_of(self.moment, group.cause)
        finding = group.cause._replace(lost_ratio=_lost_ratio(group))
        previous = self.by_key.get(key)
        if previous is None or not _continues(previous, self.moment):
            fresh = opened(key, finding, self.moment)
            previous = self.by_id.get(fresh.id)
            if previous is None:
                return fresh
        return seen_again(previous, finding, self.moment)

    def fold(self, key: str, cause: Incident) -> None:
        """Merge a symptom's incident, if it is open, into its cause."""
        symptom = self.by_key.get(key)
        if symptom is None or symptom.state != OPEN or symptom.id == cause.id:
            return
        timeline = noted(symptom.timeline, self.moment.now, MERGED, f"explained by {cause.id}")
        self.put(
            replace(
                symptom,
                state=MERGED,
                resolved_at=self.moment.now,
                merged_into=cause.id,
                timeline=timeline,
            )
        )

    def _open(self) -> list[Incident]:
        return [
            item
            for item in self.by_key.values()
            if item.state == OPEN and item.attempt == self.moment.attempt and item.kind in _KINDS
        ]


def _is_retained(finding: Finding, moment: Moment) -> bool:
    """Return whether a finding has no effect: its records are out of date."""
    if finding.kind is FindingKind.TELEMETRY_LOST:
        return False
    return moment.frozen or finding.kind.value in moment.retained.kinds


def _finding_of(incident: Incident) -> Finding:
    """Return an incident's finding without evidence; another version's cause is unknown."""
    cause = Cause(incident.cause) if incident.cause in _CAUSES else Cause.UNKNOWN
    lost, ratio = incident.throughput_lost_ratio, incident.slowdown_ratio
    return build_finding(
        kind=FindingKind(incident.kind),
        rank=incident.rank,
        phase=incident.phase,
        cause=cause,
        summary=incident.summary,
        began_step=incident.since_step,
        severity=0.0,
        ratio=math.nan if ratio is None else ratio,
        lost_ratio=math.nan if lost is None else lost,
        node=incident.node,
        subject=incident.subject,
    )


_CAUSES = frozenset(cause.value for cause in Cause)
_KINDS = frozenset(kind.value for kind in FindingKind)


def _lost_ratio(group: Group) -> float:
    """Return a cause's cost: its own share, or the largest of its symptoms' if unknown."""
    if not math.isnan(group.cause.lost_ratio):
        return group.cause.lost_ratio
    ratios = [item.lost_ratio for item in group.symptoms if not math.isnan(item.lost_ratio)]
    return max(ratios, default=math.nan)


def _continues(incident: Incident, moment: Moment) -> bool:
    if incident.state == OPEN:
        return True
    recent = moment.now - (incident.resolved_at or 0.0) < REOPEN_WITHIN_SECONDS
    return incident.state in (RESOLVED, MERGED) and recent

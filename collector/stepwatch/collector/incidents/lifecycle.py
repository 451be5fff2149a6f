"""Incidents: findings with a life. Pure: the old incidents and the new findings give the new ones.

open ──▶ resolved      the finding has stayed away for `RESOLVE_AFTER_SECONDS`
     ──▶ ended         the job, or the attempt it is about, ended while the incident was open
     ──▶ merged        its cause was found later; `merged_into` names the cause's incident
resolved ──▶ open      the finding is back within `REOPEN_WITHIN_SECONDS`, or is the very same one
merged ──▶ open        the same, once the finding stays and its cause does not
A finding that another explains (`grouping.toml`) is a symptom: it stands in the incident of its
cause and opens none. An open incident goes on explaining its symptoms until it resolves.
While telemetry is lost, incidents about the ranks neither open nor resolve.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from stepwatch.collector.detect.finding import Finding, build_finding
from stepwatch.collector.incidents.grouping import Group, identity, join
from stepwatch.signals.names import ALERT_OF, Cause, FindingKind

OPEN, RESOLVED, ENDED, MERGED = "open", "resolved", "ended", "merged"
STATES = (OPEN, RESOLVED, ENDED, MERGED)
UNKNOWN_NODE = "unknown"
RESOLVE_AFTER_SECONDS = 15.0
REOPEN_WITHIN_SECONDS = 300.0
"""A finding that comes back this soon reopens its incident instead of opening another."""
MAX_TIMELINE = 200
MAX_SYMPTOMS = 32
"""Symptoms kept in an incident, those seen last."""


@dataclass(frozen=True)
class Incident:
    """One cause and its story. Times are Unix seconds; `detected_after_seconds` runs from the
    beginning of the trouble to the finding; impact counts device-seconds lost while open.

    `symptoms` are what the cause explains: kind, rank, phase, cause, summary, since_step, and when
    it was first and last seen (`first_seen_at`, `seen_at`). `merged_into` is the id of the incident
    under which this one was folded, empty otherwise.
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
    symptoms: list[dict[str, Any]] = field(default_factory=list)
    subject: str = ""
    merged_into: str = ""

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
    """Read `document()` back; of another version, fields it has more are dropped, others blank."""
    known = {name: document[name] for name in _FIELDS if name in document}
    return Incident(**{**_BLANK, **known})


_FIELDS = tuple(each.name for each in fields(Incident))
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("id", "key", "kind", "job", "phase", "cause", "summary"), ""),
    **dict.fromkeys(("alert", "runbook"), ""),
    **dict.fromkeys(("attempt", "since_step", "rank"), -1),
    **dict.fromkeys(("began_at", "opened_at", "last_seen_at"), 0.0),
    **dict.fromkeys(("detected_after_seconds", "device_seconds_lost"), 0.0),
    **dict.fromkeys(("resolved_at", "slowdown_ratio", "throughput_lost_ratio"), None),
    "state": ENDED,
    "node": UNKNOWN_NODE,
}
"""Of fields that are always there; a state that is not known is over."""


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
    book = _Book(known, moment)
    told = [finding for finding in findings if not moment.frozen or _is_blindness(finding)]
    heard = list({identity(finding): finding for finding in reversed(told)}.values())
    for group in join(heard, book.remembered(heard), moment.nodes, book.open_since()):
        cause = book.seen(group) if group.seen else book.by_key[_key(moment, group.cause)]
        book.put(_with_symptoms(cause, group, moment))
        for symptom in group.symptoms:
            book.fold(_key(moment, symptom), cause)
    for incident in list(book.by_key.values()):
        if incident.state == OPEN and incident.key not in book.handled:
            for resolved in _without_finding(incident, moment):
                book.put(resolved)
    return list(book.changed.values())


class _Book:
    """A job's incidents while one evaluation turns them over; the newest of each key counts."""

    def __init__(self, known: Iterable[Incident], moment: Moment) -> None:
        self.moment = moment
        self.by_key: dict[str, Incident] = {}
        self.by_id: dict[str, Incident] = {}
        self.changed: dict[str, Incident] = {}
        self.handled: set[str] = set()
        for incident in sorted(known, key=lambda incident: incident.opened_at):
            self.by_key[incident.key] = self.by_id[incident.id] = incident

    def put(self, incident: Incident) -> None:
        """Take in what became of an incident."""
        self.by_key[incident.key] = self.by_id[incident.id] = incident
        self.handled.add(incident.key)
        self.changed[incident.id] = incident

    def open_since(self) -> dict[tuple[FindingKind, int, str], float]:
        """When each open incident of this attempt opened."""
        return {identity(_finding_of(item)): item.opened_at for item in self._open()}

    def remembered(self, heard: Iterable[Finding]) -> list[Finding]:
        """What the open incidents of this attempt are about, where it is not heard of just now."""
        if self.moment.frozen or self.moment.ended:
            return []
        heard_of = {_key(self.moment, finding) for finding in heard}
        oldest = self.moment.now - RESOLVE_AFTER_SECONDS
        quiet = (item for item in self._open() if item.key not in heard_of)
        return [_finding_of(item) for item in quiet if item.last_seen_at > oldest]

    def seen(self, group: Group) -> Incident:
        """The incident of a cause that is seen now, opened if there is none that goes on."""
        key = _key(self.moment, group.cause)
        finding = group.cause._replace(lost_ratio=_lost_ratio(group))
        before = self.by_key.get(key)
        if before is None or not _continues(before, self.moment):
            fresh = _opened(key, finding, self.moment)
            before = self.by_id.get(fresh.id)
            if before is None:
                return fresh
        return _seen_again(before, finding, self.moment)

    def fold(self, key: str, cause: Incident) -> None:
        """The incident of a symptom, if it is open, ends under its cause."""
        symptom = self.by_key.get(key)
        if symptom is None or symptom.state != OPEN or symptom.id == cause.id:
            return
        timeline = _noted(symptom.timeline, self.moment.now, MERGED, f"explained by {cause.id}")
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


def _is_blindness(finding: Finding) -> bool:
    return finding.kind is FindingKind.TELEMETRY_LOST


def _finding_of(incident: Incident) -> Finding:
    """What an incident is about, without its evidence; a cause of another version is unknown."""
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
    """What a cause costs: its own share, or where it does not know, the largest of its symptoms."""
    if not math.isnan(group.cause.lost_ratio):
        return group.cause.lost_ratio
    known = [item.lost_ratio for item in group.symptoms if not math.isnan(item.lost_ratio)]
    return max(known, default=math.nan)


def _with_symptoms(incident: Incident, group: Group, moment: Moment) -> Incident:
    known = {item["key"]: item for item in incident.symptoms}
    for finding in group.symptoms:
        key = _key(moment, finding)
        known[key] = _symptom(key, finding, known.pop(key, {}), moment.now)
    symptoms = list(known.values())[-MAX_SYMPTOMS:]
    return replace(incident, symptoms=symptoms)


def _symptom(key: str, finding: Finding, before: Mapping[str, Any], now: float) -> dict[str, Any]:
    return {
        "key": key,
        "kind": finding.kind.value,
        "rank": finding.rank,
        "phase": finding.phase,
        "cause": finding.cause.value,
        "summary": finding.summary,
        "since_step": finding.began_step,
        "first_seen_at": before.get("first_seen_at", now),
        "seen_at": now,
    }


def _key(moment: Moment, finding: Finding) -> str:
    subject = f"/{finding.subject}" if finding.subject else ""
    return f"{moment.job}/{moment.attempt}/{finding.kind.value}/{finding.rank}{subject}"


def _continues(incident: Incident, moment: Moment) -> bool:
    if incident.state == OPEN:
        return True
    recent = moment.now - (incident.resolved_at or 0.0) < REOPEN_WITHIN_SECONDS
    return incident.state in (RESOLVED, MERGED) and recent


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
        subject=finding.subject,
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
        merged_into="",
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

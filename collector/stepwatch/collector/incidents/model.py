"""An incident, its JSON document for storage and display, and its evaluation moment."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from stepwatch.collector.detect.finding import RESUME, Finding
from stepwatch.collector.quantities import json_value
from stepwatch.collector.slo.asked.rates import Price

from .states import ALERT, ENDED, UNKNOWN_NODE


@dataclass(frozen=True)
class Incident:
    """One cause and its history. Times are Unix seconds.

    `detected_after_seconds` is the time from the beginning of the anomaly to the finding. Impact
    counts device-seconds lost while open. `symptoms` are the findings that the cause explains:
    kind, rank, phase, cause, summary, since_step, and the times first and last seen
    (`first_seen_at`, `seen_at`). `merged_into` is the id of the incident into which this one was
    merged, empty otherwise.

    For slowness, `summary`, `slowdown_ratio`, `throughput_lost_ratio` and `evidence` date from the
    opening, or from when its cause or node became known; the fields that end in `now` are the
    newest. `severity` is "info" if the cost is too small for an alert, else "alert". `confidence`
    is the finding's certainty, empty if unknown. `cost` is the price of the device-seconds lost, in
    `currency`, each at its moment's rate; None if any moment had no valid rate. `cause_seconds` is
    how long each cause in a phase was found lately (`causes_seen`).
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
    confidence: str = ""
    summary_now: str = ""
    slowdown_ratio_now: float | None = None
    throughput_lost_ratio_now: float | None = None
    severity: str = ALERT
    cost: float | None = None
    currency: str = ""
    cause_seconds: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the incident as JSON values: a number that is not finite becomes null."""
        document: dict[str, Any] = json_value(asdict(self))
        return document


def incident_from(document: dict[str, Any]) -> Incident:
    """Read `document()` back; extra fields from another version are dropped, missing ones blank."""
    present = {name: document[name] for name in _FIELDS if name in document}
    return Incident(**{**_BLANK, **present})


_FIELDS = tuple(member.name for member in fields(Incident))
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
"""Defaults for required fields; an unknown state counts as ended."""


class Retained(NamedTuple):
    """The incidents that stay unchanged while their ranks or nodes are unobserved.

    These are incidents of `kinds` and about `ranks`, and for `compared` kinds also those about
    observed ranks `without_peers`.
    """

    kinds: frozenset[str] = frozenset()
    ranks: frozenset[int] = frozenset()
    compared: frozenset[str] = frozenset()
    without_peers: frozenset[int] = frozenset()

    def covers(self, kind: str, rank: int) -> bool:
        """Return whether an incident of this kind about this rank stays unchanged."""
        lacks_peers = kind in self.compared and rank in self.without_peers
        return kind in self.kinds or rank in self.ranks or lacks_peers


NOTHING_RETAINED = Retained()


@dataclass(frozen=True)
class Moment:
    """The moment and the subject of an evaluation.

    `now` is in Unix seconds, `newest` the newest record's wall time, `nodes` the node by rank and
    `devices` the job's size. `frozen` is True while all telemetry is lost. `retained` are the
    unchanged incidents while part of it is lost. `price` is a device-second's current cost.
    `watched_seconds` is the time since this collector's first evaluation of the job: what was not
    seen before that was not looked for.
    """

    job: str
    attempt: int
    now: float
    newest: float
    nodes: dict[int, str]
    devices: int
    frozen: bool = False
    ended: bool = False
    retained: Retained = NOTHING_RETAINED
    price: Price | None = None
    watched_seconds: float = math.inf

    def absent_seconds(self, incident: Incident) -> float:
        """Return for how long an incident's finding was looked for and not found."""
        return min(self.now - incident.last_seen_at, self.watched_seconds)


def key_of(moment: Moment, finding: Finding) -> str:
    """Return an incident's key: two findings with one key are one incident."""
    if finding.subject == RESUME:  # one incident over all attempts, whichever rank fails first
        return f"{moment.job}/{finding.kind.value}/{RESUME}"
    subject = f"/{finding.subject}" if finding.subject else ""
    return f"{moment.job}/{moment.attempt}/{finding.kind.value}/{finding.rank}{subject}"

"""An incident, the JSON document it is stored and shown as, and the moment it is evaluated at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.quantities import json_value
from stepwatch.collector.slo.asked.rates import Price

OPEN, RESOLVED, ENDED, MERGED = "open", "resolved", "ended", "merged"
STATES = (OPEN, RESOLVED, ENDED, MERGED)
UNKNOWN_NODE = "unknown"
INFO, ALERT = "info", "alert"
"""Severities: an incident that only informs, and one of which an alert tells."""


@dataclass(frozen=True)
class Incident:
    """One cause and its story. Times are Unix seconds; `detected_after_seconds` runs from the
    beginning of the anomaly to the finding; impact counts device-seconds lost while open.

    `symptoms` are what the cause explains: kind, rank, phase, cause, summary, since_step, and when
    it was first and last seen (`first_seen_at`, `seen_at`). `merged_into` is the id of the incident
    under which this one was folded, empty otherwise. `summary`, `slowdown_ratio`,
    `throughput_lost_ratio` and `evidence` of what is slow are those of the opening, or of when
    its cause or node became known; those that end in `now` are the newest. `severity` is "info"
    where it costs so little that it raises no alert, else "alert". `confidence` is how sure it is
    of what it names, empty where that is not known. `cost` is money for the device-seconds lost, in
    `currency`, each at the rate of its moment; None where no rate was valid at one of them.
    `cause_seconds` is how long each cause in a phase was found lately (`causes_seen`).
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
        """The incident as JSON holds it: a number that is not finite becomes null."""
        document: dict[str, Any] = json_value(asdict(self))
        return document


def incident_from(document: dict[str, Any]) -> Incident:
    """Read `document()` back; of another version, fields it has more are dropped, others blank."""
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
"""Of fields that are always there; a state that is not known is over."""


class Held(NamedTuple):
    """What stays as it is while nobody observes it: incidents of `kinds`, and about `ranks`; of
    `compared` kinds also those about ranks `without_peers` that are observed."""

    kinds: frozenset[str] = frozenset()
    ranks: frozenset[int] = frozenset()
    compared: frozenset[str] = frozenset()
    without_peers: frozenset[int] = frozenset()

    def holds(self, kind: str, rank: int) -> bool:
        """Whether an incident of this kind about this rank stays as it is."""
        lacks_peers = kind in self.compared and rank in self.without_peers
        return kind in self.kinds or rank in self.ranks or lacks_peers


NOTHING_HELD = Held()


@dataclass(frozen=True)
class Moment:
    """When and about what findings were made: `now` in Unix seconds, `newest` the wall time of the
    newest record, `nodes` by rank, `devices` the job's size, `frozen` while all telemetry is lost,
    `held` what stays as it is while part of it is, `price` what a device-second costs then.
    """

    job: str
    attempt: int
    now: float
    newest: float
    nodes: dict[int, str]
    devices: int
    frozen: bool = False
    ended: bool = False
    held: Held = NOTHING_HELD
    price: Price | None = None


_RUNBOOK_KEYS = ("job", "attempt", "rank", "node", "phase", "cause", "since_step")


def runbook_values(document: dict[str, Any]) -> dict[str, str]:
    """What an incident fills into its runbook; what is not known is left out, to stay visible."""
    values = {key: str(document[key]) for key in _RUNBOOK_KEYS}
    if document["rank"] < 0:
        del values["rank"]
    if document["node"] == UNKNOWN_NODE:
        del values["node"]
    return {**values, "incident": str(document["id"])}


def key_of(moment: Moment, finding: Finding) -> str:
    """What an incident is about: two findings of one key are one incident."""
    subject = f"/{finding.subject}" if finding.subject else ""
    return f"{moment.job}/{moment.attempt}/{finding.kind.value}/{finding.rank}{subject}"

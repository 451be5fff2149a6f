"""A post-mortem from stored facts, which would otherwise be gathered by hand. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stepwatch.cli import text
from stepwatch.cli.report.markdown import markdown
from stepwatch.cli.report.sections import Section, Table
from stepwatch.cli.response import runbook_steps
from stepwatch.cli.response.incident_text import story
from stepwatch.runbooks.markdown import Markdown

_NOT_STORED = "unknown: the job has left the live state"
_ITEM, _TO_DO = "- ", "- [ ] "
_ABOUT = ("job", "node", "kind")


class Material(NamedTuple):
    """An incident, its job (None if it is no longer in live state), and silences in that time."""

    incident: dict[str, Any]
    job: dict[str, Any] | None
    silences: list[dict[str, Any]]


def document_of(material: Material) -> dict[str, Any]:
    """Return the post-mortem for programs; null is unknown."""
    incident, lost = material.incident, material.incident["device_seconds_lost"]
    is_measured = bool(lost) or incident["throughput_lost_ratio"] is not None
    return {
        "incident": incident,
        "timeline": story(incident),
        "last_good_checkpoint_step": _last_good(material),
        "steps_redone": _redone(material),
        "device_hours_lost": lost / 3600.0 if is_measured else None,
        "cost": incident.get("cost") if is_measured else None,
        "currency": incident.get("currency") or None,
        "silences": _covering(material),
    }


def postmortem(material: Material, collector: str) -> str:
    """Return the post-mortem as Markdown."""
    incident, document = material.incident, document_of(material)
    title = f"Post-mortem: {incident['kind']} in job {incident['job']}, incident {incident['id']}"
    evidence = [
        (row["name"], row.get("text") or text.quantity(row["value"], row["unit"]), row["against"])
        for row in incident["evidence"]
    ]
    timeline = [
        (text.clock(event["at"]), event["event"], event["text"]) for event in document["timeline"]
    ]
    return markdown(
        title,
        [
            Section("Summary", lines=tuple(_summary(incident)), mark=_ITEM),
            Section("Impact", lines=tuple(_impact(document, material)), mark=_ITEM),
            Section("Timeline", table=Table(("when", "what", "text"), tuple(timeline))),
            Section("Cause and evidence", lines=tuple(_cause(incident)), mark=_ITEM),
            Section("", table=Table(("evidence", "value", "compared with"), tuple(evidence))),
            Section("Silences in force", lines=tuple(_silences(document["silences"])), mark=_ITEM),
            Section(
                "Action items (draft)", lines=tuple(_actions(incident, collector)), mark=_TO_DO
            ),
        ],
    )


def _summary(incident: dict[str, Any]) -> Iterator[str]:
    yield str(incident["summary"])
    over = incident["resolved_at"]
    lasted = "is still open" if over is None else f"until {text.clock(over)}"
    yield f"{incident['state']}: from {text.clock(incident['began_at'])}, {lasted}"
    yield f"detected {text.seconds(incident['detected_after_seconds'])} after it began"
    owner = (incident.get("response") or {}).get("owner") or "none assigned"
    yield f"owner: {owner}"


def _impact(document: dict[str, Any], material: Material) -> Iterator[str]:
    share, lost = material.incident["throughput_lost_ratio"], document["device_hours_lost"]
    yield f"throughput lost: {text.percent(share)}"
    wasted = text.UNKNOWN if lost is None else text.device_time(lost * 3600.0)
    yield f"device-time wasted: {wasted}"
    cost = document["cost"]
    money = "unknown: no rate was valid" if cost is None else text.money(cost, document["currency"])
    yield f"cost: {money}"
    step, redone = document["last_good_checkpoint_step"], document["steps_redone"]
    if material.job is None:
        yield f"last good checkpoint, steps redone: {_NOT_STORED}"
        return
    yield f"last good checkpoint: {'none known' if step is None else f'step {step}'}"
    yield f"steps redone: {'none known' if redone is None else redone}"


def _cause(incident: dict[str, Any]) -> Iterator[str]:
    sure = f", {incident['confidence']}" if incident.get("confidence") else ""
    where = f"rank {incident['rank']} on {incident['node']}" if incident["rank"] >= 0 else "no rank"
    yield f"{incident['cause']}{sure}; {where}; since step {incident['since_step']}"
    for symptom in incident.get("symptoms", ()):
        yield f"symptom: {symptom['summary']}"


def _silences(silences: list[dict[str, Any]]) -> Iterator[str]:
    for silence in silences:
        about = ", ".join(f"{key} {silence[key]}" for key in _ABOUT if silence[key])
        ended = f", ended by {silence['expired_by']}" if silence["expired_by"] else ""
        span = f"{text.clock(silence['since'])} to {text.clock(silence['until'])}{ended}"
        yield f"{about}, by {silence['by']}, {span}: {silence['why']}"
    if not silences:
        yield "none"


def _actions(incident: dict[str, Any], collector: str) -> Iterator[str]:
    """Yield the runbook's mitigations and questions on follow-up, as draft action items."""
    for step in runbook_steps.steps(incident, runbook_steps.MITIGATION, collector):
        yield Markdown(step.text)
    yield f"Is the runbook {incident['runbook']} right? Correct its errors."
    if incident["detected_after_seconds"] > 60.0:
        yield "Detection took over a minute: which signal would have shown the fault sooner?"


def _covering(material: Material) -> list[dict[str, Any]]:
    return [
        silence
        for silence in material.silences
        if all(silence[key] in ("", material.incident[key]) for key in _ABOUT)
    ]


def _last_good(material: Material) -> int | None:
    """Return the newest verified checkpoint before the incident's first step."""
    checkpoints = (material.job or {}).get("checkpoints", ())
    since = material.incident["since_step"]
    good = [checkpoint["step"] for checkpoint in checkpoints if checkpoint["verified"] is True]
    return max((step for step in good if since < 0 or step <= since), default=None)


def _redone(material: Material) -> int | None:
    """Return the number of steps in the incident's attempt that the next one redid, if known."""
    number = material.incident["attempt"]
    for attempt in (material.job or {}).get("attempts", ()):
        if attempt["attempt"] == number and attempt["redone_from"] is not None:
            return max(int(attempt["first_step"] + attempt["steps"] - attempt["redone_from"]), 0)
    return None

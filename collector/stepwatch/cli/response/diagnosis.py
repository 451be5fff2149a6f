"""The diagnosis for one job: a verdict with its evidence, impact and first action. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.response import runbook_steps
from stepwatch.cli.response.incident_text import response_words, symptom_name
from stepwatch.cli.slos.words import slo_line
from stepwatch.collector.job_states import (
    DEGRADED,
    ENDED,
    FAILED,
    INTERRUPTED,
    STALE,
    STALLED,
    UNKNOWN,
)

HEALTHY, RECOVERED, ANOMALY = "healthy", "recovered", "anomaly"
"""Verdicts beside `INTERRUPTED` and `UNKNOWN`.

Healthy: nothing was wrong. Recovered: nothing is wrong any more. Anomaly: something is wrong, or
was wrong until the run ended.
"""
WELL = (HEALTHY, RECOVERED)
_EVIDENCE = 4
"""Evidence rows on the screen; `stepwatch incidents --id` has all."""
_TELEMETRY = "telemetry-lost"
_NOT_KNOWN = (STALE, UNKNOWN)
_BAD = (DEGRADED, STALLED, FAILED)
_PAST = 3
"""Most closed incidents named on the screen."""


def diagnosis(job: dict[str, Any], collector: str) -> dict[str, Any]:
    """Return a job's state as a document.

    `verdict` is healthy, recovered, interrupted, anomaly or unknown. An incident that ended only
    with the run counts as open, since it was never fixed. `unknown` lists reasons for missing
    facts; a job with such reasons alone is not healthy. `past` holds the incidents that are over.
    """
    incidents = sorted(job.get("incidents", ()), key=_weight, reverse=True)
    opened = [
        incident
        for incident in incidents
        if incident["state"] == "open" or _ended_with_run(incident, job)
    ]
    past = [
        incident
        for incident in incidents
        if incident not in opened and incident["state"] != "merged"
    ]
    unknown = _unknown(job, opened)
    worst = next((incident for incident in opened if incident["kind"] != _TELEMETRY), None)
    verdict = _verdict(job, worst, unknown, past)
    worst = worst or next(iter(opened), None)
    return {
        "job": job["job"],
        "state": job["state"],
        "step": job.get("step"),
        "verdict": verdict,
        "unknown": unknown,
        "incident": worst,
        "also": [incident["id"] for incident in opened if incident is not worst],
        "past": [{key: incident.get(key) for key in _PAST_KEYS} for incident in past],
        "impact": None if worst is None else _impact(worst),
        "first_action": None if worst is None else _action(worst, collector),
        "slos": [{name: slo.get(name) for name in _SLO_KEYS} for slo in job.get("slos", ())],
    }


_SLO_KEYS = ("name", "state", "ratio", "target", "limit", "budget", "clock", "reason")
_MISSED = ("burning", "exhausted")
_PAST_KEYS = ("id", "kind", "state", "summary", "began_at", "resolved_at")


def _ended_with_run(incident: dict[str, Any], job: dict[str, Any]) -> bool:
    """Return whether an incident ended because the job's newest run ended."""
    is_newest = incident.get("attempt") == job.get("attempt")
    return incident["state"] == "ended" and job["state"] in ENDED and is_newest


def _verdict(
    job: dict[str, Any],
    worst: dict[str, Any] | None,
    unknown: Sequence[str],
    past: Sequence[dict[str, Any]],
) -> str:
    slos = job.get("slos", ())
    burns = any(slo.get("burning") or slo["state"] in _MISSED for slo in slos)
    if worst is not None or burns or job["state"] in _BAD:
        return ANOMALY
    if job["state"] == INTERRUPTED:
        return INTERRUPTED
    if unknown:
        return UNKNOWN
    return RECOVERED if past else HEALTHY


def _weight(incident: dict[str, Any]) -> tuple[bool, float, float]:
    """Return the sort key: alerts before informational incidents, then by cost, then the oldest."""
    share = incident.get("throughput_lost_ratio")
    is_alert = incident.get("severity") != "info"
    return is_alert, -1.0 if share is None else float(share), -float(incident["began_at"])


def _unknown(job: dict[str, Any], opened: Sequence[dict[str, Any]]) -> list[str]:
    """Return the reasons why facts about a job are unknown."""
    reasons = [str(incident["summary"]) for incident in opened if incident["kind"] == _TELEMETRY]
    if job.get("reason"):
        reasons.append(f"it is {job['state']}: {job['reason']}")
    elif job["state"] in _NOT_KNOWN or job.get("stale"):
        reasons.append(f"it is {job['state']}: nothing newer is known")
    elif job.get("step") is None:
        reasons.append("no step is complete yet")
    for kind, why in (job.get("not_looked_for") or {}).items():
        reasons.append(f"{kind} is not looked for: {why}")
    reasons += [
        f"segments {part['first']} to {part['last']} of its log could not be read"
        for part in job.get("unread", ())
    ]
    # Facts without a measurement, such as checkpoints that no hook verifies, are unknown in a
    # healthy job, too.
    gaps = ("frozen", "unknown") if reasons else ("frozen",)
    frozen = [slo["name"] for slo in job.get("slos", ()) if slo["state"] in gaps]
    return [*reasons, f"SLO {', '.join(frozen)}: too little telemetry"] if frozen else reasons


def _impact(incident: dict[str, Any]) -> dict[str, Any]:
    share, lost = incident["throughput_lost_ratio"], incident["device_seconds_lost"]
    is_measured = share is not None or bool(lost)
    return {
        "throughput_lost_ratio": share,
        "device_hours_lost": lost / 3600.0 if is_measured else None,
        "cost": incident.get("cost") if is_measured else None,
        "currency": incident.get("currency") or None,
    }


def _action(incident: dict[str, Any], collector: str) -> dict[str, Any]:
    """Return the runbook's first step that does not repeat the diagnosis itself."""
    steps = runbook_steps.steps(incident, runbook_steps.FIRST, collector)
    look = f"stepwatch incidents --collector {collector} --id {incident['id']}"
    first = next(
        (step for step in steps if look not in step.commands),
        steps[0] if steps else runbook_steps.Step("", ()),
    )
    return {"text": first.text, "commands": list(first.commands), "runbook": incident["runbook"]}


def diagnosis_text(document: dict[str, Any], source: str | None, width: int) -> str:
    """Return the diagnosis on one screen with `width` columns."""
    step = "unknown" if document["step"] is None else document["step"]
    words = [document["verdict"].upper()]
    words += [document["state"]] if document["state"] != document["verdict"] else []
    state = ", ".join(map(text.painted, words))
    lines = [f"{document['job']}: {state}, step {step}"]
    incident = document["incident"]
    if incident is not None:
        lines += ["", *_incident_lines(document, incident, source, width)]
    elif document["verdict"] == HEALTHY:
        was = "" if document["state"] in ENDED else " is open"
        lines.append(f"  no incident{was}, and all that is looked for is observed")
    elif document["verdict"] == INTERRUPTED:
        lines.append("  it was stopped before its end")
    if document["past"]:
        lines += ["", "over"]
        lines += [text.wrapped(_past_words(past_incident), "  ", width, hang=2)
                  for past_incident in document["past"][:_PAST]]  # fmt: skip
    if document["unknown"]:
        lines += ["", "unknown"]
        lines += [text.wrapped(f"- {why}", "  ", width, hang=2) for why in document["unknown"][:5]]
    if document["slos"]:
        lines += ["", "SLO"]
        lines += [text.wrapped(slo_line(slo), "  ", width, hang=2) for slo in document["slos"]]
    action = document["first_action"]
    if action is not None:
        lines += ["", *_action_lines(action, incident, source, width)]
    return "\n".join(lines)


def _past_words(incident: dict[str, Any]) -> str:
    over = f"{incident['state']} {text.clock(incident['resolved_at'])}"
    return f"- {over}: {incident['kind']}: {incident['summary']}"


def _incident_lines(
    document: dict[str, Any], incident: dict[str, Any], source: str | None, width: int
) -> list[str]:
    sure = f" ({incident['confidence']})" if incident.get("confidence") else ""
    since = f"{text.clock(incident['began_at'])}, step {incident['since_step']}"
    lines = [
        text.wrapped(incident["summary"], "  ", width),
        *([] if incident["state"] == "open" else ["  it ended only with the run"]),
        text.entry("cause", f"{incident['cause']}{sure}", 10, width),
        text.entry("since", since, 10, width),
        text.entry("impact", _impact_words(document["impact"]), 10, width),
    ]
    shown = incident["evidence"][:_EVIDENCE]
    for row in shown:
        value = row.get("text") or text.quantity(row["value"], row["unit"])
        lines.append(
            text.entry("evidence", f"{row['name']}: {value} ({row['against']})", 10, width)
        )
    hidden_count = len(incident["evidence"]) - len(shown)
    if hidden_count > 0:
        look = f"{hidden_count} more: stepwatch incidents --id {incident['id']} {source or ''}"
        lines.append(text.command(look.rstrip(), " " * 12, width))
    symptoms = [symptom_name(symptom) for symptom in incident.get("symptoms", ())]
    if symptoms:
        lines.append(text.entry("symptoms", ", ".join(dict.fromkeys(symptoms)), 10, width))
    lines += [text.entry("response", words, 10, width) for words in response_words(incident)]
    if document["also"]:
        lines.append(text.entry("also open", ", ".join(document["also"][:8]), 10, width))
    return lines


def _impact_words(impact: dict[str, Any]) -> str:
    if impact["device_hours_lost"] is None:
        return text.UNKNOWN
    lost = text.device_time(impact["device_hours_lost"] * 3600.0)
    share = text.percent(impact["throughput_lost_ratio"])
    cost = impact["cost"]
    money = "cost unknown: no rate" if cost is None else text.money(cost, impact["currency"] or "")
    return f"{share} of throughput, {lost} so far, {money}"


def _action_lines(
    action: dict[str, Any], incident: dict[str, Any], source: str | None, width: int
) -> list[str]:
    lines = ["first action"]
    if action["text"]:
        lines.append(text.wrapped(action["text"], "  ", width))
    lines += [text.command(command, "    ", width) for command in action["commands"][:4]]
    more = f" --incident {incident['id']} {source}".rstrip() if source is not None else ""
    runbook = f"runbook: stepwatch runbook {action['runbook']}{more}"
    return [*lines, text.command(runbook, "  ", width)]

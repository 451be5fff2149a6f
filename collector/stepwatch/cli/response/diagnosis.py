"""The diagnosis of one job: a verdict with its evidence, impact and first action. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.response import runbook_steps
from stepwatch.cli.verbs.incidents import response_words, symptom_name

HEALTHY, ANOMALY, UNKNOWN = "healthy", "anomaly", "unknown"
_EVIDENCE = 4
"""Rows of evidence on the screen; `stepwatch incidents --id` has all."""
_TELEMETRY = "telemetry-lost"
_NOT_KNOWN = ("stale", "unknown")


def diagnosis(job: dict[str, Any], collector: str) -> dict[str, Any]:
    """What is known of a job as a document: `verdict` is one of healthy, anomaly and unknown.

    `unknown` lists why something is not known; a job of which that is all is not healthy.
    """
    opened = [each for each in job.get("incidents", ()) if each["state"] == "open"]
    opened.sort(key=_weight, reverse=True)
    unknown = _unknown(job, opened)
    real = [each for each in opened if each["kind"] != _TELEMETRY]
    burning = [slo for slo in job.get("slos", ()) if slo.get("burning")]
    is_bad = bool(real or burning or job["state"] == "failed")
    verdict = ANOMALY if is_bad else UNKNOWN if unknown else HEALTHY
    worst = (real or opened)[0] if opened else None
    return {
        "job": job["job"],
        "state": job["state"],
        "step": job.get("step"),
        "verdict": verdict,
        "unknown": unknown,
        "incident": worst,
        "also": [each["id"] for each in opened if each is not worst],
        "impact": None if worst is None else _impact(worst),
        "first_action": None if worst is None else _action(worst, collector),
        "slos": [
            {name: slo.get(name) for name in ("name", "state", "ratio", "target", "budget")}
            for slo in job.get("slos", ())
        ],
    }


def _weight(incident: dict[str, Any]) -> tuple[bool, float, float]:
    """An alert before what informs, then what costs most, then what began first."""
    share = incident.get("throughput_lost_ratio")
    is_alert = incident.get("severity") != "info"
    return is_alert, -1.0 if share is None else float(share), -float(incident["began_at"])


def _unknown(job: dict[str, Any], opened: Sequence[dict[str, Any]]) -> list[str]:
    """Why something is not known of a job."""
    found = [str(each["summary"]) for each in opened if each["kind"] == _TELEMETRY]
    if job.get("reason"):
        found.append(f"it is {job['state']}: {job['reason']}")
    elif job["state"] in _NOT_KNOWN or job.get("stale"):
        found.append(f"it is {job['state']}: nothing newer is known")
    elif job.get("step") is None:
        found.append("no step is complete yet")
    for kind, why in (job.get("not_looked_for") or {}).items():
        found.append(f"{kind} is not looked for: {why}")
    found += [
        f"segments {part['first']} to {part['last']} of its log could not be read"
        for part in job.get("unread", ())
    ]
    frozen = [slo["name"] for slo in job.get("slos", ()) if slo["state"] in ("frozen", "unknown")]
    return [*found, f"SLO {', '.join(frozen)}: too little telemetry"] if frozen and found else found


def _impact(incident: dict[str, Any]) -> dict[str, Any]:
    share, lost = incident["throughput_lost_ratio"], incident["device_seconds_lost"]
    known = share is not None or bool(lost)
    return {
        "throughput_lost_ratio": share,
        "device_hours_lost": lost / 3600.0 if known else None,
        "cost": incident.get("cost") if known else None,
        "currency": incident.get("currency") or None,
    }


def _action(incident: dict[str, Any], collector: str) -> dict[str, Any]:
    found = runbook_steps.steps(incident, runbook_steps.FIRST, collector)
    first = found[0] if found else runbook_steps.Step("", ())
    return {"text": first.text, "commands": list(first.commands), "runbook": incident["runbook"]}


def diagnosis_text(found: dict[str, Any], source: str | None, width: int) -> str:
    """The diagnosis on one screen of `width` columns."""
    step = "unknown" if found["step"] is None else found["step"]
    lines = [f"{found['job']}: {found['verdict'].upper()}, {found['state']}, step {step}"]
    incident = found["incident"]
    if incident is not None:
        lines += ["", *_incident_lines(found, incident, width)]
    elif found["verdict"] == HEALTHY:
        lines.append("  no incident is open, and all that is looked for is observed")
    if found["unknown"]:
        lines += ["", "unknown"]
        lines += [text.wrapped(f"- {why}", "  ", width, hang=2) for why in found["unknown"][:5]]
    if found["slos"]:
        lines += ["", "SLO"]
        lines += [text.wrapped(_slo_words(slo), "  ", width, hang=2) for slo in found["slos"]]
    action = found["first_action"]
    if action is not None:
        lines += ["", *_action_lines(action, incident, source, width)]
    return "\n".join(lines)


def _incident_lines(found: dict[str, Any], incident: dict[str, Any], width: int) -> list[str]:
    sure = f" ({incident['confidence']})" if incident.get("confidence") else ""
    since = f"{text.clock(incident['began_at'])}, step {incident['since_step']}"
    lines = [
        text.wrapped(incident["summary"], "  ", width),
        _entry("cause", f"{incident['cause']}{sure}", width),
        _entry("since", since, width),
        _entry("impact", _impact_words(found["impact"]), width),
    ]
    shown = incident["evidence"][:_EVIDENCE]
    for row in shown:
        value = row.get("text") or text.quantity(row["value"], row["unit"])
        lines.append(_entry("evidence", f"{row['name']}: {value} ({row['against']})", width))
    symptoms = [symptom_name(each) for each in incident.get("symptoms", ())]
    if symptoms:
        lines.append(_entry("symptoms", ", ".join(dict.fromkeys(symptoms)), width))
    lines += [_entry("response", words, width) for words in response_words(incident)]
    if found["also"]:
        lines.append(_entry("also open", ", ".join(found["also"][:8]), width))
    return lines


def _impact_words(impact: dict[str, Any]) -> str:
    if impact["device_hours_lost"] is None:
        return text.UNKNOWN
    lost = text.device_time(impact["device_hours_lost"] * 3600.0)
    share = text.percent(impact["throughput_lost_ratio"])
    cost = impact["cost"]
    money = "cost unknown: no rate" if cost is None else text.money(cost, impact["currency"] or "")
    return f"{share} of throughput, {lost} so far, {money}"


def _slo_words(slo: dict[str, Any]) -> str:
    good = text.share(slo["ratio"])
    target = "" if slo["target"] is None else f", target {text.share(slo['target'])}"
    return f"{slo['name']}: {slo['state']}, {good} good{target}; budget {slo['budget']}"


def _action_lines(
    action: dict[str, Any], incident: dict[str, Any], source: str | None, width: int
) -> list[str]:
    lines = ["first action"]
    if action["text"]:
        lines.append(text.wrapped(action["text"], "  ", width))
    lines += [f"    {command}" for command in action["commands"][:4]]
    more = f" --incident {incident['id']} {source}".rstrip() if source is not None else ""
    return [*lines, f"  runbook: stepwatch runbook {action['runbook']}{more}"]


def _entry(name: str, value: str, width: int) -> str:
    return f"  {name:<10}{text.wrapped(value, ' ' * 12, width).lstrip()}"

"""Incidents in words: headline, impact, evidence, response and timeline. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwatch.cli import text

ACKNOWLEDGED, MITIGATED = "acknowledged", "mitigated"
"""Response events that a headline shows."""


def response_words(incident: dict[str, Any]) -> list[str]:
    """Return acknowledgement, mitigation, owner and silence; empty from an earlier collector."""
    response = incident.get("response") or {}
    actions = [
        f"{event} by {response[event]['by']} {text.clock(response[event]['at'])}"
        for event in (ACKNOWLEDGED, MITIGATED)
        if response.get(event)
    ]
    if response.get("owner"):
        actions.append(f"owner {response['owner']}")
    silence = response.get("silenced")
    if silence:
        until = f"until {text.clock(silence['until'])}, {silence['id']}"
        actions.append(f"silenced by {silence['by']} {until}: {silence['why']}")
    return actions


def headline(incident: dict[str, Any], source: str | None, width: int = text.NARROW - 2) -> str:
    """Return an incident in a few lines with at most `width` characters, where words allow it.

    `source` holds the options that lead to the same collector or store; None if that has ended.
    """
    command = f"stepwatch runbook {incident['runbook']}"
    if source is not None:
        command = f"{command} --incident {incident['id']} {source}".rstrip()
    state = text.painted(incident["state"].upper())
    lines = [
        f"incident {incident['id']}  {state}  {incident['kind']} in job "
        f"{incident['job']}, attempt {incident['attempt']}",
        text.wrapped(incident["summary"], "  ", width),
        text.wrapped(", ".join(_facts(incident)), "  ", width),
    ]
    if incident.get("merged_into"):
        lines.append(f"  grouped under incident {incident['merged_into']}")
    if response_words(incident):
        lines.append(text.wrapped(", ".join(response_words(incident)), "  ", width))
    symptoms = incident.get("symptoms", [])
    if symptoms:
        kinds = dict.fromkeys(symptom_name(item) for item in symptoms)
        lines.append(text.wrapped(f"symptoms: {', '.join(kinds)}", "  ", width))
    return "\n".join([*lines, text.command(f"runbook: {command}", "  ", width)])


def _facts(incident: dict[str, Any]) -> Iterator[str]:
    """Yield rank or node, phase, cause and first step; a phase only where it applies."""
    if incident["rank"] >= 0:
        yield f"rank {incident['rank']} on {incident['node']}"
    else:
        yield "no single rank"
        yield f"node {incident['node']}"
    if incident["phase"] and (incident["rank"] >= 0 or incident["phase"] != "other"):
        yield f"phase {incident['phase']}"
    yield f"cause {incident['cause']}"
    if incident.get("confidence"):
        yield str(incident["confidence"])
    yield f"since step {incident['since_step']}"
    yield f"detected after {text.seconds(incident['detected_after_seconds'])}"


def impact(incident: dict[str, Any]) -> str:
    """Return an incident's cost; zero seconds with an unknown share is unknown, not no loss."""
    share, lost = incident["throughput_lost_ratio"], incident["device_seconds_lost"]
    if share is None and not lost:
        return text.UNKNOWN
    now = incident.get("throughput_lost_ratio_now") if incident.get("state") == "open" else None
    changed = now is not None and text.percent(now) != text.percent(share)
    lately = f" (now {text.percent(now)})" if changed else ""
    cost = incident.get("cost")
    money = f", {text.money(cost, incident['currency'])}" if cost is not None else ""
    return f"{text.percent(share)} of throughput{lately}, {text.device_time(lost)}{money}"


def symptom_name(symptom: dict[str, Any]) -> str:
    """Return a symptom's kind, and its rank if it names one."""
    rank = f" on rank {symptom['rank']}" if symptom["rank"] >= 0 else ""
    return f"{symptom['kind']}{rank}"


def detail(incident: dict[str, Any], source: str | None, width: int = text.NARROW - 2) -> str:
    """Return an incident with its impact, evidence, symptoms and timeline."""
    evidence = [
        [
            item["name"],
            item.get("text") or text.quantity(item["value"], item["unit"]),
            item["against"],
        ]
        for item in incident["evidence"]
    ]
    lines = [headline(incident, source, width), f"  lost: {impact(incident)}", ""]
    lines += [
        text.wrapped(f"{name}: {value} ({against})", "  ", width)
        for name, value, against in evidence
    ]
    for symptom in incident.get("symptoms", []):
        lines += [
            "",
            f"  symptom {symptom_name(symptom)}, last seen {text.clock(symptom['seen_at'])}",
        ]
        lines.append(text.wrapped(symptom["summary"], "    ", width))
    lines.append("")
    for event in story(incident):
        words = f"{event['event']}: {event['text']}" if event["text"] else event["event"]
        lines.append(text.wrapped(f"{text.clock(event['at'])} {words}", "  ", width))
    return "\n".join(lines)


def story(incident: dict[str, Any]) -> list[dict[str, Any]]:
    """Return detector events and response notes of an incident, in time order."""
    notes = (incident.get("response") or {}).get("notes", [])
    note_events = [{**note, "event": f"{note['event']} by {note['by']}"} for note in notes]
    return sorted([*incident["timeline"], *note_events], key=lambda event: float(event["at"]))

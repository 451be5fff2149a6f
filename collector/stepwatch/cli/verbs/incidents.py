"""`stepwatch incidents`: what is wrong, with cause and evidence."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.source import add_source_arguments, ask, component, source_words
from stepwatch.collector.incidents import STATES

EXAMPLE = "stepwatch incidents --state open --collector http://collector:8480"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--job", help="only this job's")
    parser.add_argument("--state", choices=STATES, help="only in this state")
    parser.add_argument("--id", help="one incident, with its evidence and timeline")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print; exit 1 if one of those shown is open."""
    if arguments.id:
        found = [ask(arguments, f"/v1/incidents/{component(arguments.id, 'incident')}")]
    else:
        query = {key: getattr(arguments, key) for key in ("job", "state")}
        given = {key: value for key, value in query.items() if value}
        found = ask(arguments, "/v1/incidents", **given)["incidents"]
    if arguments.json:
        print(json.dumps(found[0] if arguments.id else found, indent=1))
    elif not found:
        print("no incidents")
    else:
        show, source = closer if arguments.id else headline, source_words(arguments)
        print("\n\n".join(show(item, source) for item in found))
    return int(any(item["state"] == "open" for item in found))


def headline(incident: dict[str, Any], source: str | None) -> str:
    """An incident in a few lines.

    `source` says where its values can be asked for, as options; None if they no longer can.
    """
    who = "no rank stands out" if incident["rank"] < 0 else f"rank {incident['rank']}"
    facts = (
        f"{who} on {incident['node']}, phase {incident['phase']}, cause {incident['cause']}, "
        f"since step {incident['since_step']}, detected after "
        f"{text.seconds(incident['detected_after_seconds'])}"
    )
    command = f"stepwatch runbook {incident['runbook']}"
    if source is not None:
        command = f"{command} --incident {incident['id']} {source}".rstrip()
    return "\n".join(
        [
            f"incident {incident['id']}  {incident['kind']}  {incident['state'].upper()}",
            text.wrapped(incident["summary"], "  "),
            text.wrapped(facts, "  "),
            f"  runbook: {command}",
        ]
    )


def closer(incident: dict[str, Any], source: str | None) -> str:
    """An incident with its impact, evidence and timeline."""
    impact = (
        f"{text.percent(incident['throughput_lost_ratio'])} of throughput, "
        f"{text.seconds(incident['device_seconds_lost'])} of device time"
    )
    evidence = [
        [
            item["name"],
            item.get("text") or text.quantity(item["value"], item["unit"]),
            item["against"],
        ]
        for item in incident["evidence"]
    ]
    lines = [headline(incident, source), f"  lost: {impact}", ""]
    lines += [f"  {name}: {value}  ({against})" for name, value, against in evidence]
    lines.append("")
    for event in incident["timeline"]:
        at = datetime.fromtimestamp(event["at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        lines.append(text.wrapped(f"{at} {event['event']}: {event['text']}", "  "))
    return "\n".join(lines)

"""`stepwatch incidents`: incidents with cause and evidence, and the response to them."""

from __future__ import annotations

import argparse
import json

from stepwatch.cli import text
from stepwatch.cli.response.incident_text import (
    ACKNOWLEDGED,
    MITIGATED,
    detail,
    headline,
    response_words,
)
from stepwatch.cli.response.words import add_by_argument
from stepwatch.cli.source import add_source_arguments, ask, component, request, source_words
from stepwatch.collector.incidents.states import STATES
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint

EXAMPLE = "stepwatch incidents --state open --collector http://collector:8480"

EVENT_OF = {
    "ack": ACKNOWLEDGED,
    "mitigate": MITIGATED,
    "comment": "comment",
    "assign": "assigned",
    "reopen": "reopened",
}
"""Response acts, and the collector's events for them."""
_BY_ITSELF = ("resolve", "resolved", "close")
_UNSEEN = ("comment", "reopen")
"""Events that appear in the timeline alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    acts = ", ".join(EVENT_OF)
    parser.add_argument(
        "act", nargs="?", metavar="ACT", help=f"on one: {acts}; an ID alone shows that incident"
    )
    parser.add_argument("about", nargs="?", metavar="ID", help="the incident of ACT")
    parser.add_argument("text", nargs="?", default="", help="a comment, or who owns it")
    add_by_argument(parser)
    parser.add_argument("--job", help="only this job's")
    parser.add_argument("--state", choices=STATES, help="only in this state")
    parser.add_argument("--id", help="one incident, with its evidence and timeline")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print incidents; exit 1 if a shown one is open. An act prints its result and exits 0."""
    if arguments.act in EVENT_OF:
        return _act(arguments)
    if arguments.act:
        _shown_alone(arguments)
    if arguments.id:
        incidents = [ask(arguments, f"/v1/incidents/{component(arguments.id, 'incident')}")]
    else:
        query = {key: getattr(arguments, key) for key in ("job", "state")}
        filters = {key: value for key, value in query.items() if value}
        incidents = ask(arguments, "/v1/incidents", **filters)["incidents"]
    if arguments.json:
        print(json.dumps(incidents[0] if arguments.id else incidents, indent=1))
    elif not incidents:
        print("no incidents")
    else:
        show, source = detail if arguments.id else headline, source_words(arguments)
        width = text.columns() - 2
        print("\n\n".join(show(item, source, width) for item in incidents))
    return int(any(item["state"] == "open" for item in incidents))


def _shown_alone(arguments: argparse.Namespace) -> None:
    """Use the only word as the id.

    Raises:
        UsageError: there is one word too many, or it is not an act.
    """
    word = arguments.act
    if word in _BY_ITSELF:
        raise UsageError(
            "an incident cannot be resolved by hand: its detector resolves it; "
            "`stepwatch incidents mitigate ID TEXT` adds a note"
        )
    if arguments.about or arguments.id:
        hint = closest_hint(word[:40], EVENT_OF)
        raise UsageError(f"{word[:40]!r} is nothing to do about an incident; {hint}")
    arguments.id = word


def _act(arguments: argparse.Namespace) -> int:
    """Add a response note; the incident's state remains the detector's decision."""
    if not arguments.about:
        raise UsageError(f"name the incident: stepwatch incidents {arguments.act} ID")
    path = f"/v1/incidents/{component(arguments.about, 'incident')}/notes"
    note = {"event": EVENT_OF[arguments.act], "by": arguments.by, "text": arguments.text}
    incident = request(arguments, "POST", path, json=note)
    if arguments.json:
        print(json.dumps(incident, indent=1))
    else:
        noted = f"{note['event']} by {note['by']}" if arguments.act in _UNSEEN else ""
        words = [
            f"incident {incident['id']}: {incident['state']}",
            *response_words(incident),
            noted,
        ]
        print(text.wrapped(", ".join(filter(None, words)), "", text.columns() - 2, hang=2))
    return 0

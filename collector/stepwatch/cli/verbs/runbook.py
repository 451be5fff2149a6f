"""`stepwatch runbook`: what to do, with the incident's values filled into the commands."""

from __future__ import annotations

import argparse
import json
from typing import Any

from stepwatch import runbooks
from stepwatch.cli.source import add_source_arguments, ask, component

EXAMPLE = "stepwatch runbook TrainingStraggler --incident 3f2a91c0d4be"
_FROM_INCIDENT = ("job", "attempt", "rank", "node", "phase", "cause", "since_step")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="an alert's name; none lists them")
    parser.add_argument("--incident", help="fill in the values of this incident")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the page, or the list of pages."""
    if arguments.name is None:
        names = runbooks.names()
        print(json.dumps(list(names)) if arguments.json else "\n".join(names))
        return 0
    values = {"collector": arguments.collector}
    if arguments.incident:
        identity = component(arguments.incident, "incident")
        values |= incident_values(ask(arguments, f"/v1/incidents/{identity}"))
    page = runbooks.render(arguments.name, values)
    print(json.dumps({"name": arguments.name, "text": page}) if arguments.json else page)
    return 0


def incident_values(incident: dict[str, Any]) -> dict[str, str]:
    """What an incident fills in; a rank or node that is not known stays a placeholder."""
    values = {key: str(incident[key]) for key in _FROM_INCIDENT}
    if incident["rank"] < 0:
        del values["rank"]
    if incident["node"] == "unknown":
        del values["node"]
    return {**values, "incident": incident["id"]}

"""`stepwatch runbook`: what to do, with the incident's values filled into the commands."""

from __future__ import annotations

import argparse
import json

from stepwatch import runbooks
from stepwatch.cli.source import add_source_arguments, ask, component
from stepwatch.collector.incidents.model import runbook_values

EXAMPLE = "stepwatch runbook TrainingStraggler --incident 3f2a91c0d4be"


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
        values |= runbook_values(ask(arguments, f"/v1/incidents/{identity}"))
    page = runbooks.render(arguments.name, values)
    print(json.dumps({"name": arguments.name, "text": page}) if arguments.json else page)
    return 0
